"""The driver of runs: iterations to a fixed point, committed as they go, and the results of calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from afl.compiled.program import ProgramError
from afl.core.clock import Clock
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_class, exception_text
from afl.core.text.printable import printable
from afl.engine import limits
from afl.engine.errors import (
    NO_FORM,
    IterationLimitReached,
    RunGivenUp,
    StoreCorrupt,
    StoreUnavailable,
    VersionMismatchError,
    WorkflowConflict,
)
from afl.engine.execution.commit_rows import Commits
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits
from afl.engine.execution.iteration import run_iterations
from afl.engine.execution.scripts import ScriptRuns
from afl.engine.types import Value, copy_values
from afl.engine.values import sizes as value_sizes
from afl.engine.workflow_cache import WorkflowCache
from afl.evaluation.execution_result import ExecutionResult, ExecutionStatus, PendingEvents, RunWaits
from afl.stores.public.persistence import EngineStore
from afl.telemetry.tracing import TelemetryTrace

_log = logging.getLogger(__name__)

#: Errors of a workflow that cannot be read now: what is done for many goes on with the others.
UNREADABLE: Final = (ProgramError, StoreCorrupt, VersionMismatchError)


class StartConflict(WorkflowConflict):
    """The first commit of a workflow was refused: its id is in use, or an event for it was raised in that moment."""


class RunDriver:
    """Runs workflows on a store, and changes them from outside. Holds no workflow: threads can share it."""

    def __init__(
        self,
        store: EngineStore,
        workflows: WorkflowCache,
        clock: Clock,
        *,
        max_iterations: int,
        iterations_per_commit: int,
        event_limits: EventLimits,
        new_trace: Callable[[], TelemetryTrace] | None,
        probe: Probe = no_probe,
    ) -> None:
        if iterations_per_commit < 1:
            raise ValueError(f"iterations_per_commit must be 1 or more, not {iterations_per_commit}")
        self.store = store
        self.workflows = workflows
        self.clock = clock
        self.event_limits = event_limits
        #: May be changed between calls.
        self.max_iterations = max_iterations
        self._iterations_per_commit = iterations_per_commit
        self._new_trace = new_trace
        self._probe = probe

    def run(self, execution: Execution, runs: ScriptRuns) -> ExecutionResult:
        """Iterate to the fixed point, scripts included.

        Again and again:
          1. run iterations in memory: one, or as many as share a commit (`run_iterations`), because only the last of
             them has an effect outside,
          2. commit their steps, tasks and records in one transaction,
          3. when no other work is left, run the scripts that steps wait for, and continue those steps as scripts end.

        An execution that continues as new is followed by the next one at once: the commit of its first iteration
        replaces the rows of the one before.

        A crash before 2 leaves the store as the previous commit left it, and `resume` runs the same iterations again,
        with the same ids and numbers. After 2 they are done. Results of scripts are stored with the next commit: after
        a crash in between, the scripts run again. A run that cannot be evaluated or stored is given up, and stays as
        its last commit left it.

        Raises StoreUnavailable; WorkflowConflict when another writer was faster; StartConflict, and nothing is stored,
        where that is the first commit of the workflow.
        """
        iterations, commit, now_ms, probe = 0, self.store.commit_batch, self.clock.now_ms, self._probe
        trace, changes = execution.trace, Commits(execution)
        execution.bounds.begin()
        warn_at = limits.near(self.max_iterations) or None
        while execution.queue or (execution.scripts and self._await_scripts(execution, runs)):
            if iterations == warn_at:
                execution.bounds.warn_of_iterations(execution, iterations, self.max_iterations)
                warn_at = None
            if iterations == self.max_iterations:
                self.workflows.keep(execution)
                error = IterationLimitReached(self.max_iterations)
                self._report_failed_call(execution.id, error)
                return ExecutionResult(False, execution.id, {}, error, iterations, ExecutionStatus.TIMEOUT)
            most = min(self._iterations_per_commit, (warn_at or self.max_iterations) - iterations)
            try:
                ran = run_iterations(execution, most, now_ms)
                if execution.next_inputs is not None and not execution.is_ended:
                    execution = self.continued(execution, execution.next_inputs, execution.now_ms)
                    trace, changes = execution.trace, Commits(execution)
                    execution.bounds.begin()
                    iterations += ran
                    continue
                probe("driver.iterated")
                batch = changes.next()
            except StoreUnavailable:
                # Of a step that was read late: the run is as its last commit left it, and loaded again next time.
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, this run would meet it again
                return self._give_up(execution, error, iterations)
            try:
                commit(batch)
            except NO_FORM as error:
                return self._give_up(execution, error, iterations)
            except WorkflowConflict as conflict:
                if execution.revision == 1:
                    raise StartConflict(workflow_ids=conflict.workflow_ids) from conflict
                raise
            probe("driver.stored")
            if trace is not None:
                trace.committed()
            iterations += ran
        # Done before it is cached: from then on another thread may take it.
        result = self.result(execution, iterations + 1)
        self.workflows.keep(execution)
        value_sizes.forget()
        return result

    def continued(self, execution: Execution, inputs: Mapping[str, Value], now_ms: int) -> Execution:
        """Return the next execution of a workflow, which is to be run. Raises what a start raises for the inputs."""
        continued = self.workflows.continue_as_new(execution, inputs, now_ms, self.event_limits)
        for event in continued.dropped:
            name = printable(event.name)
            _log.warning("workflow %s: event %s is dropped: it was %s", event.workflow_id, name, event.dropped)
        return continued.execution

    def _give_up(self, execution: Execution, error: Exception, iterations: int) -> ExecutionResult:
        """End a run that cannot be evaluated or stored, from its last commit: only that is certain."""
        value_sizes.forget()
        given_up = RunGivenUp(execution.id, execution.plan.name, exception_class(error), exception_text(error))
        _log.error("workflow %s ends: %s", execution.id, given_up, exc_info=error)
        self.workflows.evict(execution.id)
        failure: list[Exception] = [given_up]

        def apply(stored: Execution) -> bool:
            if stored.is_ended:
                return False
            stored.abort(exception_class(given_up), exception_text(given_up))
            failure[:] = [stored.failure() or given_up]
            return True

        if self.store.load_workflow(execution.id) is None:
            # It has failed in its first commit: there is nothing to end.
            return self.failed(execution.id, given_up)
        self.change(execution.id, apply, cancel_only=True)
        return ExecutionResult(False, execution.id, {}, failure[0], iterations, ExecutionStatus.ERROR)

    def _await_scripts(self, execution: Execution, runs: ScriptRuns) -> bool:
        """Wait until scripts end and steps can continue; return False when none can."""
        while execution.scripts and not (execution.queue or execution.is_ended):
            runs.continue_run(execution, self.clock.now_ms)
            if not execution.queue:
                # It has no effect that would be committed: the workflow has ended, or waits for other steps.
                self.commit(execution)
        return bool(execution.queue)

    def commit(self, execution: Execution) -> None:
        self.store.commit_batch(Commits(execution).next())
        if execution.trace is not None:
            execution.trace.committed()

    def result(self, execution: Execution, iterations: int) -> ExecutionResult:
        if not execution.is_ended:
            return ExecutionResult(
                True,
                execution.id,
                iterations=iterations,
                status=ExecutionStatus.PAUSED,
                pending_events=PendingEvents(self.store, execution.id),
                waits=RunWaits(self.store, execution.id),
            )
        error = execution.failure()
        if error is not None:
            return ExecutionResult(False, execution.id, {}, error, iterations, ExecutionStatus.ERROR)
        return ExecutionResult(True, execution.id, copy_values(execution.outputs), None, iterations)

    def failed(self, workflow_id: str, error: Exception) -> ExecutionResult:
        if isinstance(workflow_id, str):
            self.workflows.evict(workflow_id)
            self._report_failed_call(workflow_id, error)
        return ExecutionResult(False, workflow_id, {}, error, 0, ExecutionStatus.ERROR)

    def _report_failed_call(self, workflow_id: str, error: Exception) -> None:
        if self._new_trace is not None:
            trace = self._new_trace()
            trace.call_failed(workflow_id, error)
            trace.committed()

    def change(self, workflow_id: str, apply: Callable[[Execution], bool], *, cancel_only: bool = False) -> bool | None:
        """Apply a change from outside in a commit of its own, again from the store when another writer was faster.

        Returns the result of `apply`: whether it has changed anything; None for a workflow that the store does not
        have.
        """
        while True:
            execution = self.workflows.load(workflow_id, cancel_only=cancel_only)
            if execution is None:
                return None
            execution.now_ms = self.clock.now_ms()
            try:
                changed = apply(execution)
                if changed:
                    self.commit(execution)
            except WorkflowConflict:
                continue
            self.workflows.keep(execution)
            return changed
