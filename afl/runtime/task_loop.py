"""The one loop under all pollers and runners: claims tasks by lease, has them done, and keeps what it claimed alive.

A claim names its owner and expires. Whoever works renews it; a process that died does not, so another takes its tasks
over within seconds. Workflows that an answer made runnable and that nobody resumed are swept in the same rhythm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from afl.compiled import Node
from afl.runtime import limits
from afl.runtime.call_threads import Calls, CallsHere, CallThreads
from afl.runtime.clock import Clock, SystemClock
from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import ForeignStore, ProgramMismatch, StoreCorrupt, VersionMismatchError
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import EngineStore
from afl.runtime.presence import Presence
from afl.runtime.public_tasks import TASK_LOCK
from afl.runtime.task_work import HandlerSource, Job, TaskWork

_log = logging.getLogger(__name__)

#: Errors that waiting does not mend: the server ends in state ERROR.
_FATAL: Final = (StoreCorrupt, ForeignStore, VersionMismatchError)
#: Renewals in the length of a lease.
_BEATS_PER_LEASE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How a task loop works. Times are in milliseconds."""

    task_list: str = "default"
    poll_interval_ms: int = 2_000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10_000
    lease_ms: int = limits.TASK_LEASE_MS
    #: How long the tasks at work may take once `stop` was called; then they are given back.
    shutdown_timeout_ms: int = 30_000


class TaskLoop:
    """Polls, claims and works; `run` in threads until `stop`, `run_once` in the caller's."""

    def __init__(
        self,
        store: EngineStore,
        evaluator: Evaluator,
        source: HandlerSource,
        presence: Presence,
        settings: LoopSettings,
        *,
        clock: Clock | None = None,
        probe: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._source = source
        self._presence = presence
        self._settings = settings
        self._clock = clock or SystemClock()
        self._owner = presence.server_id
        self._stopping = threading.Event()
        #: Set when there may be something to claim, or a place to do it in.
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._running = False
        self._has_run = False
        self._next_sweep_s = 0.0
        self._asts: dict[str, tuple[Node, Node | None]] = {}
        self._here = CallsHere()
        self._work = TaskWork(
            store,
            evaluator,
            source,
            self._owner,
            resume=self.resume,
            count=lambda name, handled: presence.count(name, handled=handled),
            stopping=self._stopping,
            probe=probe,
        )

    @property
    def is_running(self) -> bool:
        """Whether `run` is at work."""
        return self._running

    def active_count(self) -> int:
        """How many tasks are being done."""
        with self._lock:
            return len(self._jobs)

    def cache_workflow_ast(self, workflow_id: str, ast: Node, program_ast: Node | None = None) -> None:
        """Keep a program for the next time that the workflow is resumed, which makes sure that it is the pinned one."""
        self._asts[workflow_id] = (ast, program_ast)

    def resume(self, workflow_id: str) -> None:
        """Run a workflow on. What goes wrong is in the store, or is tried again by the sweep; it is logged."""
        cached = self._asts.pop(workflow_id, None)
        if cached is None:
            result = self._evaluator.resume(workflow_id)
        else:
            result = self._evaluator.resume(workflow_id, cached[0], program_ast=cached[1])
            if isinstance(getattr(result, "error", None), ProgramMismatch):
                _log.warning("%s; the stored program is used", result.error)
                self._evaluator.resume(workflow_id)
        # What follows may be for us.
        self._wake.set()

    # --- one round, in the caller's thread ------------------------------------------------------------------------

    def run_once(self) -> int:
        """Do the tasks that wait, at most `max_concurrent`, one after the other; return how many. Starts no thread."""
        done = 0
        self._sweep(self.resume)
        try:
            while done < self._settings.max_concurrent:
                # Nobody renews this lease: it has to be long enough for any handler.
                task = self._claim(max(limits.POLL_ONCE_LEASE_MS, self._settings.lease_ms))
                if task is None:
                    break
                self._do(Job(task), self._here)
                done += 1
        finally:
            self._here.close()
        return done

    # --- the loop, with threads ----------------------------------------------------------------------------------

    def run(self) -> None:
        """
        Work until `stop`; then finish what was claimed, or give it back, and sign off.

        Raises what made it end: the store is damaged or another program's (the server's record says ERROR).
        """
        with self._lock:
            if self._running:
                raise RuntimeError(f"server {self._owner} is running already")
            self._running = True
        threads = CallThreads()
        keeper_stop = threading.Event()
        keeper = threading.Thread(target=self._keep_alive, args=(keeper_stop,), name="afl-heartbeat", daemon=True)
        failure: BaseException | None = None
        try:
            self._presence.register(self._source.registered_names())
            self._presence.running()
            keeper.start()
            while not self._stopping.is_set():
                self._turn(threads)
        except BaseException as error:
            failure = None if isinstance(error, KeyboardInterrupt) else error
            raise
        finally:
            self._stopping.set()
            self._drain()
            keeper_stop.set()
            if keeper.ident is not None:
                keeper.join()
            threads.close()
            self._presence.sign_off(failure)
            self._running, self._has_run = False, True
            self._stopping.clear()

    def stop(self) -> None:
        """Let `run` come to its end. Called before it began, it ends at once; after it ended, nothing happens."""
        if self._running or not self._has_run:
            self._stopping.set()
            self._wake.set()

    def _turn(self, threads: CallThreads) -> None:
        """Claim what there is and can be done, then wait for a reason to look again."""
        self._wake.clear()
        try:
            self._presence.handles(self._source.registered_names())
            self._sweep(lambda workflow_id: threads.submit(lambda: self.resume(workflow_id)))
            while self.active_count() < self._settings.max_concurrent and not self._stopping.is_set():
                task = self._claim(self._settings.lease_ms)
                if task is None:
                    break
                job = Job(task)
                with self._lock:
                    self._jobs[task.uuid] = job
                threads.submit(lambda job=job: self._do(job, threads))  # type: ignore[misc]  # bound now, not later
        except _FATAL:
            raise
        except Exception:  # noqa: BLE001 - the loop outlives what can pass
            _log.exception("server %s could not poll; it tries again", self._owner)
        if not self._stopping.is_set():
            self._wake.wait(self._settings.poll_interval_ms / 1_000)

    def _do(self, job: Job, calls: Calls) -> None:
        try:
            self._work.do(job, calls)
        except Exception:
            if calls is self._here:
                raise
            _log.exception("task %s was not done; its lease runs out", job.task.uuid)
        finally:
            with self._lock:
                self._jobs.pop(job.task.uuid, None)
            self._wake.set()

    def _claim(self, lease_ms: int) -> TaskDefinition | None:
        names = self._wanted()
        if not names:
            return None
        return self._store.claim_task(names, self._settings.task_list, owner=self._owner, lease_ms=lease_ms)

    def _wanted(self) -> list[str]:
        """The names of waiting tasks that there are handlers for, by short names too."""
        if not self._source.registered_names():
            return []
        return [name for name in self._store.pending_task_names(self._settings.task_list) if self._source.serves(name)]

    def _sweep(self, resume: Callable[[str], object]) -> None:
        """Once in the length of a lease: free expired claims, and resume what was left runnable for that long."""
        now_s = time.monotonic()
        if now_s < self._next_sweep_s:
            return
        self._next_sweep_s = now_s + self._settings.lease_ms / 1_000 / _BEATS_PER_LEASE
        for task_id in self._store.requeue_expired_tasks():
            _log.warning("task %s can be claimed again: whoever had it has not renewed its lease", task_id)
        left_at_ms = self._clock.now_ms() - self._settings.lease_ms
        for workflow_id in self._store.runnable_workflows(limit=100):
            row = self._store.load_workflow(workflow_id)
            # One with a lane is the evaluator's that owns it.
            if row is not None and row.runnable and not row.lane and row.updated_at_ms <= left_at_ms:
                resume(workflow_id)

    def _keep_alive(self, stopped: threading.Event) -> None:
        """Renew leases and send heartbeats until the last task is done."""
        lease_beat_s = self._settings.lease_ms / 1_000 / _BEATS_PER_LEASE
        heartbeat_s = self._settings.heartbeat_interval_ms / 1_000
        next_beat_s = time.monotonic() + heartbeat_s
        while not stopped.wait(max(0.0, min(lease_beat_s, next_beat_s - time.monotonic()))):
            self._renew()
            if time.monotonic() >= next_beat_s:
                self._presence.beat()
                next_beat_s = time.monotonic() + heartbeat_s

    def _renew(self) -> None:
        with self._lock:
            jobs = dict(self._jobs)
        if not jobs:
            return
        try:
            for task_id in self._store.renew_leases(list(jobs), self._owner, self._settings.lease_ms):
                jobs[task_id].lost = True
        except Exception:  # noqa: BLE001 - there is another beat before the leases run out
            _log.exception("server %s could not renew its leases", self._owner)

    def _drain(self) -> None:
        """Wait for the tasks at work; those that take too long are given back."""
        until_s = time.monotonic() + self._settings.shutdown_timeout_ms / 1_000
        while self.active_count() and (left_s := until_s - time.monotonic()) > 0:
            self._wake.clear()
            if self.active_count():
                self._wake.wait(left_s)
        with self._lock:
            left = list(self._jobs.values())
            self._jobs.clear()
        for job in left:
            job.abandoned = True
            try:
                if not job.lost:
                    self._store.release_lock(f"{TASK_LOCK}{job.task.uuid}")
            except Exception:  # noqa: BLE001 - it is over anyway
                _log.exception("task %s could not be given back; its lease runs out", job.task.uuid)
