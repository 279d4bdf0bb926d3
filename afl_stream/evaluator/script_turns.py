"""Scripts of the control loop's workflows: submitted to a runner after the commit, taken back as turns of their own."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.text.warning_limits import LimitedLog
from afl.engine.execution.scripts import ScriptEnding, ScriptJob, ScriptRunner, ending_of
from afl.scripts.errors import ScriptsNotIsolated, ScriptWorkerUnavailable

if TYPE_CHECKING:
    from afl.scripts.pool import ScriptResult

_log = logging.getLogger(__name__)

#: Scripts that are with the runner for each of its workers: one that runs, and enough that none is idle until the loop
#: looks again. The rest waits here, where workflows take turns.
_WITH_RUNNER_PER_WORKER = 8
#: How long a read of records may wait while scripts run: as long as an ended one may lie.
_PATIENCE_S = 0.005
#: Wait after a worker that could not be started.
_BACKOFF_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedScript:
    """A script and its result."""

    job: ScriptJob
    ending: ScriptEnding


class ScriptTurns:
    """Runs the scripts of workflows while the loop continues with others.

    For each script, in this order:
      1. the step that waits for it is stored, its workflow as runnable (the loop's commit, `control.persisted`),
      2. it is submitted to the runner (`scripts.submitted`),
      3. when it has ended, the loop takes it back (`scripts.taken`),
      4. its step continues, and its workflow runs to the fixed point, in memory (`control.applied`),
      5. that is persisted in one transaction (`control.persisted`), with no offset.

    A crash before 5 leaves what 1 wrote: the workflow is runnable, and the next owner of its partition submits the
    script again. So a script may run twice, and has its effect once: the second result meets a step that has already
    continued.

    Belongs to the loop's thread, but for what the runner's threads call when a script has ended.
    """

    def __init__(
        self,
        runner: ScriptRunner | None,
        workers: int,
        probe: Probe = no_probe,
        *,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        """Take the runner. None: no workflow of this loop waits for a script."""
        self._runner = runner
        self._room = workers * _WITH_RUNNER_PER_WORKER
        self._probe = probe
        self._warnings = LimitedLog(_log)
        self._monotonic_s = monotonic_s
        #: Every script that is not done with, by step, wherever it is.
        self._known: dict[str, ScriptJob] = {}
        #: Scripts that are not submitted yet, by workflow; the workflow whose turn is next comes first.
        self._waiting: OrderedDict[str, deque[ScriptJob]] = OrderedDict()
        self._running = 0
        #: Filled by the runner's threads; appending and taking off are atomic.
        self._ended: deque[tuple[ScriptJob, Future[ScriptResult]]] = deque()
        self._given_back: list[EndedScript] = []
        self._not_before_s = 0.0

    @property
    def count(self) -> int:
        """The number of scripts that wait, run, or have ended and are not applied."""
        return len(self._known)

    def patience_s(self, timeout_s: float) -> float:
        """Return how long to wait for records: not long while a script may end."""
        return min(timeout_s, _PATIENCE_S) if self._known else timeout_s

    def offer(self, jobs: Iterable[ScriptJob]) -> None:
        """Queue these scripts, except known ones, and submit as many as the runner has room for."""
        for job in jobs:
            if job.step_id not in self._known:
                self._known[job.step_id] = job
                self._waiting.setdefault(job.workflow_id, deque()).append(job)
        self._hand_over()

    def take(self, most: int) -> list[EndedScript]:
        """Return up to `most` ended scripts. Each stays known until `done` or `give_back`."""
        taken, self._given_back = self._given_back[:most], self._given_back[most:]
        while self._ended and len(taken) < most:
            job, future = self._ended.popleft()
            self._running -= 1
            try:
                taken.append(EndedScript(job=job, ending=ending_of(future)))
            except CancelledError:
                self._known.pop(job.step_id, None)
            except (ScriptWorkerUnavailable, ScriptsNotIsolated) as error:
                # No failure of the script: the machine is out of something, and may have it again.
                self._warnings.warning("retried scripts", "a script is retried in %g s: %s", _BACKOFF_S, error)
                self._not_before_s = self._monotonic_s() + _BACKOFF_S
                self._wait_in_front(job)
        self._hand_over()
        if taken:
            self._probe("scripts.taken")
        return taken

    def give_back(self, taken: list[EndedScript]) -> None:
        """Take these scripts first the next time: they could not be applied now."""
        self._given_back[:0] = taken

    def done(self, taken: Iterable[EndedScript]) -> None:
        """Drop these scripts: their results are stored, or are not needed any more."""
        for ended in taken:
            self._known.pop(ended.job.step_id, None)

    def drop_waiting(self, is_dropped: Callable[[str], bool]) -> None:
        """Drop, by workflow, scripts that are not submitted yet: another evaluator runs them.

        Running scripts are not stopped: their result counts if it is the first.
        """
        self.drop([workflow_id for workflow_id in self._waiting if is_dropped(workflow_id)])

    def drop(self, workflow_ids: Iterable[str]) -> None:
        """Drop the scripts of these workflows that do not run yet."""
        for workflow_id in workflow_ids:
            for job in self._waiting.pop(workflow_id, ()):
                del self._known[job.step_id]

    def _hand_over(self) -> None:
        handed = False
        while self._waiting and self._running < self._room and self._monotonic_s() >= self._not_before_s:
            assert self._runner is not None, "a workflow waits for a script where none is run"
            workflow_id, jobs = self._waiting.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                # Behind the others: one with thousands of scripts holds up none with a few.
                self._waiting[workflow_id] = jobs
            self._running += 1
            self._submit(self._runner, job)
            handed = True
        if handed:
            self._probe("scripts.submitted")

    def _submit(self, runner: ScriptRunner, job: ScriptJob) -> None:
        future = runner.submit(job.code, job.params, job.workflow_id)
        future.add_done_callback(lambda ended: self._ended.append((job, ended)))

    def _wait_in_front(self, job: ScriptJob) -> None:
        self._waiting.setdefault(job.workflow_id, deque()).appendleft(job)
        self._waiting.move_to_end(job.workflow_id, last=False)
