"""The one loop of all pollers and runners: claim tasks by lease, have them done, and renew the claims.

A claim names its owner and expires. A running process renews it; a dead one does not, so another process takes its
tasks over within seconds. The same rhythm sweeps workflows that an answer made runnable and that were not resumed.
"""

from __future__ import annotations

import logging
import threading
import time
from _thread import start_new_thread
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

from afl.compiled.program import Node
from afl.core.clock import Clock, SystemClock, has_waited
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_line, exception_text, exception_traceback
from afl.engine import limits
from afl.engine.errors import ForeignStore, ProgramMismatch, StepFailure, StoreCorrupt, VersionMismatchError
from afl.engine.model.entities import TaskDefinition
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.call_threads import Calls, CallsHere, CallThreads
from afl.workers.lease_watch import LeaseWatch
from afl.workers.liveness import Liveness
from afl.workers.misspelt_handlers import MisspeltHandlers
from afl.workers.pauses import HeededPauses
from afl.workers.server_record import ServerRecord
from afl.workers.task_work import HandlerSource, Job, TaskWork
from afl.workers.timer_turns import TimerTurns

_log = logging.getLogger(__name__)

#: Errors that waiting does not fix: the server ends in state ERROR.
_FATAL: Final = (StoreCorrupt, ForeignStore, VersionMismatchError)
#: Renewals in the length of a lease.
_BEATS_PER_LEASE: Final = 3
#: Tries of a task in one process that fail for reasons other than its handler; then its step fails.
MAX_TASK_TRIES: Final = 3
#: The most tasks whose tries are counted. Beyond that the oldest counts are dropped, and start again.
_MOST_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """The settings of a task loop. Times are in milliseconds."""

    task_list: str = "default"
    poll_interval_ms: int = 2_000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10_000
    lease_ms: int = limits.TASK_LEASE_MS
    #: The interval of lease renewals; 0: three times in the length of a lease.
    renew_interval_ms: int = 0
    #: The time that running tasks have after `stop`; then they are given back.
    shutdown_timeout_ms: int = 30_000
    #: The most handlers that may still run after their time was up.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        for name in ("max_concurrent", "lease_ms", "heartbeat_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 1 or more")

    @property
    def lease_beat_s(self) -> float:
        """Return the time between two renewals, and between two sweeps."""
        third_ms = self.lease_ms / _BEATS_PER_LEASE
        return min(third_ms, self.renew_interval_ms or third_ms) / 1_000


class TaskLoop:
    """A loop that polls, claims and works; `run` in threads until `stop`, `run_once` in the caller's."""

    def __init__(  # noqa: PLR0913 - the parts of a loop, wired by its server
        self,
        store: EngineStore,
        evaluator: Evaluator,
        source: HandlerSource,
        server_record: ServerRecord,
        settings: LoopSettings,
        *,
        clock: Clock | None = None,
        probe: Probe = no_probe,
        beside: Callable[[], AbstractContextManager[object]] = nullcontext,
        sweep: Callable[[], int] | None = None,
    ) -> None:
        """`beside` is entered before the work and left after the drain; its errors end the start. `sweep` looks for
        other lost work, in the loop's own rhythm, and returns how much it restarted.
        """
        self._store = store
        self._evaluator = evaluator
        self._source = source
        self._server_record = server_record
        self._settings = settings
        self._clock = clock or SystemClock()
        self._owner = server_record.server_id
        self._stopping = threading.Event()
        #: Set when there may be a task to claim, or a free place to run it.
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._running = False
        self._has_run = False
        #: The thread in which `run` was called.
        self._runs_in = 0
        self._next_sweep_s = float("-inf")
        self._pauses = HeededPauses(store, self._clock)
        self._leases = LeaseWatch(store, self._clock, settings.lease_ms)
        self._beside = beside
        self._sweep_more = sweep
        self._sweeping = threading.Lock()
        self._drained = 0
        #: The time of the loop's last round, for health checks.
        self.liveness = Liveness()
        #: Tries that failed, by task.
        self._tries: OrderedDict[str, int] = OrderedDict()
        self._left_undone = 0
        self._typos = MisspeltHandlers()
        self._asts: dict[str, tuple[Node, Node | None]] = {}
        self._here = CallsHere()
        self._timers = TimerTurns(store, evaluator, self._clock, self._wake.set)
        self._work = TaskWork(
            store,
            evaluator,
            source,
            self._owner,
            resume=self.resume,
            count=lambda name, handled: server_record.count(name, handled=handled),
            stopping=self._stopping,
            probe=probe,
        )

    @property
    def is_running(self) -> bool:
        """Return whether `run` is at work."""
        return self._running

    @property
    def is_stopping(self) -> bool:
        """Return whether it accepts no new tasks and finishes its current ones."""
        return self._stopping.is_set()

    def active_count(self) -> int:
        """Return the number of tasks that are being done."""
        with self._lock:
            return len(self._jobs)

    def jobs(self) -> list[Job]:
        """Return the tasks that are being done."""
        with self._lock:
            return list(self._jobs.values())

    @property
    def given_back(self) -> int:
        """The number of tasks that the last `run` gave back at its end, because they took too long."""
        return self._drained

    @property
    def left_undone(self) -> int:
        """The number of tasks left claimed because their end could not be stored: their leases expire."""
        return self._left_undone

    def cache_workflow_ast(self, workflow_id: str, ast: Node, program_ast: Node | None = None) -> None:
        """Keep a program for the next resume of the workflow, which checks that it is the pinned one."""
        self._asts[workflow_id] = (ast, program_ast)

    def resume(self, workflow_id: str) -> None:
        """Continue a workflow. An error is in the store, or the sweep tries again; it is logged."""
        cached = self._asts.pop(workflow_id, None)
        if cached is None:
            result = self._evaluator.resume(workflow_id)
        else:
            result = self._evaluator.resume(workflow_id, cached[0], program_ast=cached[1])
            if isinstance(getattr(result, "error", None), ProgramMismatch):
                _log.warning("%s; the stored program is used", result.error)
                result = self._evaluator.resume(workflow_id)
        error = getattr(result, "error", None)
        if isinstance(error, Exception) and not isinstance(error, StepFailure):
            _log.warning("workflow %s could not be continued: %s", workflow_id, exception_text(error))
        # The following work may be for this loop.
        self._wake.set()

    # --- one round, in the caller's thread ------------------------------------------------------------------------

    def run_once(self) -> int:
        """Do the waiting tasks, at most `max_concurrent`, one after the other; return how many. Starts no thread."""
        done = 0
        self._sweep(_at_once)
        self._timers.turn(_at_once)
        try:
            while done < self._settings.max_concurrent:
                # This lease is not renewed: it must be long enough for any handler.
                task = self._claim(max(limits.POLL_ONCE_LEASE_MS, self._settings.lease_ms))
                if task is None:
                    break
                try:
                    self._do(Job(task), self._here)
                except KeyboardInterrupt:
                    # Ctrl-C: other processes need not wait for the lease to expire. Answers that are stored stay
                    # stored.
                    self._store.give_task_back(task.uuid, self._owner)
                    raise
                done += 1
        finally:
            self._here.close()
        return done

    # --- the loop, with threads ----------------------------------------------------------------------------------

    def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`, or until no work is left; then finish claimed tasks, or give them back, and sign off.

        Raises the reason of its end: the store is damaged or another program's, or too many handlers are stuck. The
        server's record says ERROR.
        """
        with self._lock:
            if self._running:
                raise RuntimeError(f"server {self._owner} is running already")
            self._running, self._runs_in = True, threading.get_ident()
        threads = CallThreads(self._settings.max_stuck_handlers, on_stuck=self._wake.set)
        keeper_stop = threading.Event()
        keeper = threading.Thread(target=self._keep_alive, args=(keeper_stop,), name="afl-heartbeat", daemon=True)
        failure: BaseException | None = None
        try:
            self._server_record.register(self._source.registered_names())
            with self._beside():
                try:
                    self._server_record.running()
                    names = ", ".join(self._source.registered_names())
                    _log.info("server %s works on %s", self._owner, names or "nothing yet: it has no handlers")
                    self.liveness.beat()
                    keeper.start()
                    # No work beside the tasks may be running when the loop decides that nothing is left.
                    sweeps: Callable[[Callable[[], object]], object] = _at_once if until_idle else threads.submit
                    while not self._stopping.is_set():
                        self._wake.clear()
                        threads.check()
                        # Work that was running may have produced more tasks since the last look.
                        is_at_work = self.active_count() > 0
                        if not self._turn(threads, sweeps) and until_idle and not is_at_work:
                            break
                        if not self._stopping.is_set():
                            self._wake.wait(self._settings.poll_interval_ms / 1_000)
                    self._server_record.leaving()
                finally:
                    self._stopping.set()
                    self._drain()
        except BaseException as error:
            failure = None if isinstance(error, KeyboardInterrupt) else error
            raise
        finally:
            self._stopping.set()
            keeper_stop.set()
            if keeper.ident is not None:
                keeper.join()
            threads.close()
            self._server_record.sign_off(failure)
            self._running, self._has_run, self._runs_in = False, True, 0
            self._stopping.clear()

    def stop(self) -> None:
        """Let `run` end. If called before `run`, it ends at once; after its end, nothing happens."""
        if threading.get_ident() == self._runs_in:
            # Called from a signal handler: the interrupted thread may itself hold the locks of the events.
            start_new_thread(self._say_stop, ())
        else:
            self._say_stop()

    def _say_stop(self) -> None:
        if self._running or not self._has_run:
            self._stopping.set()
            self._wake.set()

    def _turn(self, threads: CallThreads, sweeps: Callable[[Callable[[], object]], object]) -> bool:
        """Claim the tasks that can be done; say whether there may be more work."""
        is_more = False
        try:
            self._server_record.handles(self._source.registered_names())
            self._sweep(sweeps)
            self._timers.turn(sweeps)
            while self.active_count() < self._settings.max_concurrent and not self._stopping.is_set():
                task = self._claim(self._settings.lease_ms)
                if task is None:
                    break
                job = Job(task)
                with self._lock:
                    self._jobs[task.uuid] = job
                threads.submit(lambda job=job: self._do(job, threads))  # type: ignore[misc]  # bound now, not later
                is_more = True
            self.liveness.beat()
        except _FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - the loop outlives what can pass
            self.liveness.skipped(error)
            _log.error("server %s could not poll; it tries again\n%s", self._owner, exception_traceback(error))
            is_more = True
        return is_more

    def _do(self, job: Job, calls: Calls) -> None:
        try:
            if not self._work.do(job, calls):
                self._left_undone += 1
        except Exception as error:
            if calls is self._here:
                raise
            self._not_done(job, error)
        finally:
            with self._lock:
                self._jobs.pop(job.task.uuid, None)
            self._wake.set()

    def _not_done(self, job: Job, error: Exception) -> None:
        """Let a task be tried again that could not be done; after MAX_TASK_TRIES its step fails."""
        task_id = job.task.uuid
        with self._lock:
            tries = self._tries.pop(task_id, 0) + 1
            if tries < MAX_TASK_TRIES:
                self._tries[task_id] = tries
                if len(self._tries) > _MOST_COUNTED:
                    self._tries.popitem(last=False)
        _log.error("try %d of %d of task %s (%s) has failed\n%s", tries, MAX_TASK_TRIES, task_id, job.task.name,
                   exception_traceback(error))  # fmt: skip
        try:
            if tries < MAX_TASK_TRIES:
                self._store.give_task_back(task_id, self._owner)
            else:
                self._work.give_up(job, error, tries)
        except Exception as another:  # noqa: BLE001 - what keeps it from that may pass, and the lease runs out
            self._left_undone += 1
            _log.error("task %s stays claimed until its lease expires: %s", task_id, exception_line(another))

    def _claim(self, lease_ms: int) -> TaskDefinition | None:
        names = self._wanted()
        return self._pauses.claim(names, self._settings.task_list, self._owner, lease_ms) if names else None

    def _wanted(self) -> list[str]:
        """Return the names of waiting tasks that have handlers, also by short names."""
        registered = self._source.registered_names()
        if not registered:
            return []
        pending = self._store.pending_task_names(self._settings.task_list)
        wanted = [name for name in pending if self._source.serves(name)]
        for name in wanted:
            self._typos.has_task(name)
        if len(wanted) < len(pending):
            served = set(wanted)
            self._typos.look(registered, (name for name in pending if name not in served))
        return wanted

    def _sweep(self, run: Callable[[Callable[[], object]], object]) -> None:
        """Free expired claims, and resume workflows left runnable for long: several times in the length of a lease."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_sweep_s:
            return
        self._next_sweep_s = now_s + self._settings.lease_beat_s
        for task_id in self._store.requeue_expired_tasks():
            _log.warning("task %s can be claimed again: its owner has not renewed its lease", task_id)
        for stale in self._leases.stale():
            if self._store.give_task_back(stale.uuid, stale.owner):
                _log.warning(
                    "task %s can be claimed again: its lease is from before a clock was set back, and %s has not "
                    "renewed it since", stale.uuid, stale.owner
                )  # fmt: skip
        now_ms = self._clock.now_ms()
        left = []
        for workflow_id in self._store.runnable_workflows(limit=100):
            row = self._store.load_workflow(workflow_id)
            # A workflow with a lane belongs to its evaluator.
            if row is None or not row.runnable or row.lane:
                continue
            if has_waited(row.updated_at_ms, now_ms, self._settings.lease_ms):
                left.append(workflow_id)
        if left or self._sweep_more is not None:
            run(partial(self._see_to, left))

    def _see_to(self, left: Sequence[str]) -> None:
        """Continue these workflows one after the other, then look for other lost work."""
        # A sweep that takes longer than the interval does not overlap the next one.
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            for workflow_id in left:
                if self._stopping.is_set():
                    return
                self.resume(workflow_id)
            if self._sweep_more is not None and self._sweep_more():
                self._wake.set()
        except Exception as error:  # noqa: BLE001 - it comes round again
            _log.error("server %s could not sweep for lost work\n%s", self._owner, exception_traceback(error))
        finally:
            self._sweeping.release()

    def _keep_alive(self, stopped: threading.Event) -> None:
        """Renew leases and send heartbeats until the last task is done."""
        lease_beat_s = self._settings.lease_beat_s
        heartbeat_s = self._settings.heartbeat_interval_ms / 1_000
        next_beat_s = time.monotonic() + heartbeat_s
        while not stopped.wait(max(0.0, min(lease_beat_s, next_beat_s - time.monotonic()))):
            self._renew()
            if time.monotonic() >= next_beat_s:
                self._server_record.beat()
                next_beat_s = time.monotonic() + heartbeat_s

    def _renew(self) -> None:
        with self._lock:
            jobs = dict(self._jobs)
        if not jobs:
            return
        try:
            for task_id in self._store.renew_leases(list(jobs), self._owner, self._settings.lease_ms):
                jobs[task_id].lost = True
        except Exception as error:  # noqa: BLE001 - there is another beat before the leases run out
            _log.error("server %s could not renew its leases\n%s", self._owner, exception_traceback(error))

    def _drain(self) -> None:
        """Wait for running tasks, and for the work beside them; tasks that take too long are given back."""
        until_s = time.monotonic() + self._settings.shutdown_timeout_ms / 1_000
        while self.active_count() and (left_s := until_s - time.monotonic()) > 0:
            self._wake.clear()
            if self.active_count():
                self._wake.wait(left_s)
        if self._sweeping.acquire(timeout=max(0.0, until_s - time.monotonic())):
            self._sweeping.release()
        with self._lock:
            left = list(self._jobs.values())
            self._jobs.clear()
            for job in left:
                job.abandoned = True
        self._drained = len(left)
        try:
            for job in left:
                if not job.lost:
                    self._store.give_task_back(job.task.uuid, self._owner)
        except Exception as error:  # noqa: BLE001 - it is over anyway, and a store that is away is waited for once
            _log.error(
                "server %s could not give its tasks back; their leases will expire\n%s",
                self._owner,
                exception_traceback(error),
            )


def _at_once(work: Callable[[], object]) -> object:
    return work()
