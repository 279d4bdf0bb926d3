"""Run workflows against a store: execute, resume, and the answers of agents in between.

A commit is atomic: of one iteration, or of several of which only the last has an effect outside. The evaluator has no
state but caches: threads can share it, and several evaluators can work on one store, because a commit that conflicts
with another writer is computed again from the store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from afl.compiled.program import CompiledProgram, Node
from afl.core.clock import Clock, SystemClock
from afl.core.ids import workflow_of
from afl.core.probes import Probe, no_probe
from afl.engine import limits
from afl.engine.errors import (
    ProgramMismatch,
    WorkflowConflict,
    WorkflowPurged,
)
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits
from afl.engine.execution.ports import Dispatch
from afl.engine.execution.run_bounds import RunLimits
from afl.engine.execution.scripts import ScriptRunner, ScriptRuns, offer_again
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.operations.migration import Move
from afl.engine.operations.operation_errors import RunByDeployment, RunHasEnded, UnknownWorkflow
from afl.engine.operations.operations import Action, Kind
from afl.engine.planning.programs import compiled, program_of
from afl.engine.types import Value, copy_values, workflow_id_v7
from afl.engine.workflow_cache import WorkflowCache
from afl.evaluation.answers import Answer, FailureAnswer, ResultAnswer, answer_saved_step, answer_step
from afl.evaluation.context import ExecutionContext
from afl.evaluation.due_timers import DueTimers
from afl.evaluation.execution_result import ExecutionResult as ExecutionResult
from afl.evaluation.execution_result import ExecutionStatus as ExecutionStatus
from afl.evaluation.execution_result import PendingEvents as PendingEvents
from afl.evaluation.raised_events import RaisedEvents
from afl.evaluation.raised_events import RaiseOutcome as RaiseOutcome
from afl.evaluation.run_driver import RunDriver, StartConflict
from afl.stores.public.persistence import EngineStore, IterationChanges
from afl.telemetry.telemetry import Telemetry
from afl.telemetry.tracing import TelemetryTrace

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Evaluator:
    """Executor of workflows. Thread-safe."""

    def __init__(  # noqa: PLR0913 - a public signature, limits by name
        self,
        persistence: EngineStore,
        telemetry: Telemetry | None = None,
        max_iterations: int = limits.MAX_ITERATIONS,
        *,
        dispatch: Dispatch | None = None,
        clock: Clock | None = None,
        hot_steps: int = limits.HOT_WORKFLOW_STEPS,
        max_open_events: int = limits.MAX_OPEN_EVENTS,
        max_steps: int = limits.MAX_WORKFLOW_STEPS,
        max_payload_bytes: int = limits.MAX_PAYLOAD_BYTES,
        max_value_bytes: int = limits.MAX_VALUE_BYTES,
        max_state_bytes: int = limits.MAX_STATE_BYTES,
        scripts: ScriptRunner | None = None,
        event_limits: EventLimits | None = None,
        iterations_per_commit: int = limits.ITERATIONS_PER_COMMIT,
        probe: Probe = no_probe,
    ) -> None:
        """Take the store and the services of this evaluator.

        `iterations_per_commit`: how many iterations may share a commit while they have no effect outside; with 1 each
        has its own.

        `event_limits` bound the external events and the history of each workflow.

        `scripts` runs the scripts of programs, most often an `afl.scripts.pool.ScriptPool`, which its owner closes.
        Without one a workflow that may reach a script is not started, and a script that is reached fails its step.
        """
        self._scripts = scripts
        self.persistence = persistence
        self.telemetry = telemetry if telemetry is not None else Telemetry(enabled=False)
        self._clock = clock or SystemClock()
        self._max_value_bytes = max_value_bytes
        new_trace = partial(TelemetryTrace, self.telemetry) if self.telemetry.enabled else None
        self._workflows = WorkflowCache(
            persistence,
            dispatch or TaskDispatch(),
            trace=new_trace,
            hot_steps=hot_steps,
            max_open_events=max_open_events,
            runs_scripts=scripts is not None,
            run_limits=RunLimits(
                max_steps=max_steps,
                max_payload_bytes=max_payload_bytes,
                max_value_bytes=max_value_bytes,
                max_state_bytes=max_state_bytes,
            ),
        )
        self._driver = RunDriver(
            persistence,
            self._workflows,
            self._clock,
            max_iterations=max_iterations,
            iterations_per_commit=iterations_per_commit,
            event_limits=event_limits or EventLimits(),
            new_trace=new_trace,
            probe=probe,
        )
        self._events = RaisedEvents(self._driver, max_value_bytes)
        self._timers = DueTimers(self._driver)

    @property
    def max_iterations(self) -> int:
        """The most iterations of a call; the next call has what is assigned."""
        return self._driver.max_iterations

    @max_iterations.setter
    def max_iterations(self, most: int) -> None:
        self._driver.max_iterations = most

    def execute(
        self,
        workflow_ast: Node | str,
        inputs: Mapping[str, Value] | None = None,
        program_ast: Node | CompiledProgram | None = None,
        runner_id: str = "",
        *,
        workflow_id: str | None = None,
    ) -> ExecutionResult:
        """Start a workflow and run it to its end or to its first pause.

        `workflow_ast` is the workflow's declaration, or its name in `program_ast`. Without an id, one is generated that
        sorts by time. A program that is given again, as the same mapping, is parsed again only if it has changed; a
        CompiledProgram never is. Never raises: an error is in the result's `error`.
        """
        given, workflow_id = workflow_id, workflow_id or workflow_id_v7(self._clock.now_ms())
        try:
            if given and (stone := self.persistence.tombstone(given)) is not None:
                raise WorkflowPurged(workflow_id=given, name=stone.name, status=stone.status)
            program, name = program_of(workflow_ast, program_ast)
            plan = self._workflows.plan(program, name)
            while True:
                now_ms = self._clock.now_ms()
                execution = self._workflows.start(plan, workflow_id, inputs or {}, now_ms, runner_id=runner_id)
                if given:
                    self._events.adopt_at_start(execution)
                try:
                    with ScriptRuns(self._scripts) as runs:
                        return self._driver.run(execution, runs)
                except StartConflict as conflict:
                    if not given or self.persistence.load_workflow(given) is not None:
                        # The id is in use: that workflow is another one.
                        raise WorkflowConflict(workflow_ids=conflict.workflow_ids) from None
                    # An event for this workflow was raised in this moment.
                except WorkflowConflict:
                    # An agent's answer arrived while this call was still running.
                    return self.resume(workflow_id)
        except Exception as error:  # noqa: BLE001 - callers are promised a result, whatever happens
            return self._driver.failed(workflow_id, error)

    def resume(
        self,
        workflow_id_val: str,
        workflow_ast: Node | str | None = None,
        program_ast: Node | CompiledProgram | None = None,
        inputs: Mapping[str, Value] | None = None,  # noqa: ARG002 - a public signature
        runner_id: str = "",  # noqa: ARG002 - a public signature
    ) -> ExecutionResult:
        """Continue a workflow from its stored state, to its end or its next pause; its due timers are fired first.

        The workflow's id is enough: its program is in the store. A program that is given must be the same one. `inputs`
        and `runner_id` were fixed at the start and are ignored. A workflow that a deployment on topics has started is
        left to its evaluators, which continue it by themselves: the result gives its status. Never raises.
        """
        try:
            with ScriptRuns(self._scripts) as runs:
                is_reported = False
                while True:
                    execution = self._workflows.load(workflow_id_val)
                    if execution is None:
                        raise ValueError(f"workflow {workflow_id_val} not found")
                    _check_program(execution, workflow_ast, program_ast)
                    if not execution.dispatch.serves(execution):
                        result = self._driver.result(execution, 0)
                        self._workflows.keep(execution)
                        return result
                    if execution.trace is not None and not is_reported:
                        is_reported = True
                        execution.trace.started(execution, resumed=True)
                        execution.trace.committed()
                    offer_again(execution)
                    try:
                        self._timers.fire_of(execution)
                        return self._driver.run(execution, runs)
                    except WorkflowConflict:
                        continue
        except Exception as error:  # noqa: BLE001 - callers are promised a result, whatever happens
            return self._driver.failed(workflow_id_val, error)

    def continue_step(
        self,
        step_id: str,
        result: Mapping[str, Value] | None = None,
        *,
        event_id: str | None = None,
        is_checked: bool = False,
    ) -> None:
        """Answer a step's event: the result becomes its returns, and `resume` runs the steps that this makes ready.

        The first answer wins; a repeat does nothing. With `event_id`, an answer to an older attempt does nothing
        either. With `is_checked`, a result that does not fit the declared returns, in its names or its types, fails the
        step as ResultMismatch; results of handlers are always checked so. A step that was stored with `save_step` and
        belongs to no workflow of the engine is only written. Raises ValueError for an unknown step, and for one that
        has not reached its event; and ValueRefused, before anything is written, for an object that is not an AFL value.
        """
        self._answer(step_id, ResultAnswer(result or {}, self._max_value_bytes, is_checked), event_id)

    def fail_step(
        self,
        step_id: str,
        error_message: str | BaseException,
        error_type: str = "RuntimeError",
        *,
        event_id: str | None = None,
    ) -> None:
        """Answer a step's event with a failure: a text and a type, or an exception, which has both.

        Repeats and errors as for `continue_step`.
        """
        self._answer(step_id, FailureAnswer(error_message, error_type), event_id)

    def update_step(
        self, step_id: str, partial: Mapping[str, Value], *, event_id: str | None = None, is_checked: bool = False
    ) -> None:
        """Merge a partial result into a waiting step's returns. `is_checked` and errors are as for `continue_step`."""
        given = dict(partial)
        self._answer(step_id, ResultAnswer(given, self._max_value_bytes, is_checked, is_partial=True), event_id)

    def raise_event(self, workflow_id: str, name: str, data: Value = None, id: str | None = None) -> RaiseOutcome:
        """Raise an external event for a workflow, also for one that does not exist yet. `resume` continues it.

        The first step that waits for the name takes the event, else it is kept for one that does. An event whose `id`
        is known in the workflow is a repeat; without an id, one is drawn. An event for a workflow that does not exist
        is kept for a day. Raises ValueRefused for a name or data that are not an event's, ValueTooLarge,
        WorkflowPurged, and RunByDeployment for a workflow that a deployment on topics has started.
        """
        return self._events.give(workflow_id, name, data, id)

    def fire_timers(self, limit: int = 1_000) -> list[str]:
        """Fire the timers that are due, of up to `limit` workflows, and run each of these on as `resume` does.

        Early events whose workflows exist by now are given to them, too. Returns the ids of these workflows.
        """
        continued = dict.fromkeys([*self._timers.fire(limit), *self._events.sweep()])
        for workflow_id in continued:
            self.resume(workflow_id)
        return list(continued)

    def next_timer_ms(self) -> int | None:
        """Return when the first timer of the store is due, in milliseconds since the epoch; None when it has none."""
        return self.persistence.next_timer_ms()

    def continue_as_new(self, workflow_id: str, inputs: Mapping[str, Value] | None = None) -> ExecutionResult:
        """End the present execution of a workflow, and run the next one, with these inputs, to its end or first pause.

        What the execution waits for is given up. Events that no wait took are carried. Raises ValueError for an unknown
        workflow, OperationRefused for one that has ended, RunByDeployment, and what a start raises for the inputs.
        """
        with ScriptRuns(self._scripts) as runs:
            while True:
                execution = self._workflows.load(workflow_id)
                if execution is None:
                    raise ValueError(f"workflow {workflow_id} not found")
                if not execution.dispatch.serves(execution):
                    raise RunByDeployment(workflow_id=workflow_id)
                if execution.is_ended:
                    raise RunHasEnded(workflow_id=workflow_id, status=execution.status)
                following = self._driver.continued(execution, inputs or {}, self._clock.now_ms())
                handed_over = following.effects.history[-1]
                try:
                    return self._driver.run(following, runs)
                except WorkflowConflict:
                    rows = self.persistence.history(workflow_id, after=handed_over.number - 1, limit=1)
                    if rows == [handed_over]:
                        # It runs by now; an answer arrived while this call was still running.
                        return self.resume(workflow_id)

    def cancel(self, workflow_id: str, reason: str = "") -> bool:
        """End a workflow now, whatever it waits for or has exceeded; False when it has ended already.

        Its events and tasks are cancelled, and later answers are recorded as late. Raises ValueError for an unknown
        workflow, and RunByDeployment for one that a deployment on topics has started.
        """

        def apply(execution: Execution) -> bool:
            if execution.is_ended:
                return False
            if not execution.dispatch.serves(execution):
                raise RunByDeployment(workflow_id=workflow_id)
            execution.cancel(reason)
            return True

        changed = self._driver.change(workflow_id, apply, cancel_only=True)
        if changed is None:
            raise ValueError(f"workflow {workflow_id} not found")
        return changed

    def retry(self, target: str, reason: str = "") -> list[str]:
        """Repeat failed work: a failed step, or all failed steps inside it; for a workflow's id, of the whole workflow.

        A cancelled workflow can be retried too. `resume` then runs these steps, and the steps that the failure had
        stopped. Returns the ids of the repeated steps. Raises OperationRefused for a step that has not failed, was
        caught, or does not exist.
        """
        return self._operate(Kind.RETRY, target, reason)

    def rerun(self, target: str, reason: str = "") -> list[str]:
        """Run a step again, whatever its outcome, and all that depends on it, as a new generation. `resume` runs them.

        Returns the ids of the rows made for that. Raises OperationRefused for an unknown step.
        """
        return self._operate(Kind.RERUN, target, reason)

    def reset(self, workflow_id: str, reason: str = "") -> list[str]:
        """Run a workflow again from its start, with its own inputs and program; also a cancelled one. `resume` runs it.

        Returns the id of the new root. Raises OperationRefused for an unknown workflow.
        """
        return self._operate(Kind.RESET, workflow_id, reason)

    def migrate(self, workflow_id: str, program_ast: Node | CompiledProgram, reason: str = "") -> None:
        """Move a workflow that has not ended to another version of its program; `resume` continues it by that.

        What it has done stays, and its events are answered as before. Raises OperationRefused: VersionDoesNotFit names
        what the version does not take, AlreadyOnVersion and NothingToMove say that there is nothing to do, and
        UnknownWorkflow; RunByDeployment; and UnknownName for a program without the workflow.
        """
        program = compiled(program_ast)
        while True:
            row = self.persistence.load_workflow(workflow_id)
            if row is None:
                raise UnknownWorkflow(workflow_id=workflow_id)
            move = Move(plan=self._workflows.plan(program, row.name), reason=reason)
            execution = self._workflows.migrate(workflow_id, move)
            if execution is None:
                continue  # It was purged in this moment.
            if not execution.dispatch.serves(execution):
                raise RunByDeployment(workflow_id=workflow_id)
            execution.now_ms = self._clock.now_ms()
            try:
                self._driver.commit(execution)
            except WorkflowConflict:
                continue
            self._workflows.keep(execution)
            return

    def _operate(self, kind: Kind, target: str, reason: str) -> list[str]:
        whole = self.persistence.load_workflow(target) is not None
        workflow_id = target if whole else workflow_of(target)
        action = Action(kind=kind, step_id=None if whole else target, reason=reason)
        while True:
            opened = None if workflow_id is None else self._workflows.open_again(workflow_id, action)
            if opened is None:
                raise UnknownWorkflow(workflow_id=target)
            opened.execution.now_ms = self._clock.now_ms()
            try:
                self._driver.commit(opened.execution)
            except WorkflowConflict:
                continue
            self._workflows.keep(opened.execution)
            return list(opened.steps)

    def context(self, workflow_id: str) -> ExecutionContext:
        """Return a view of a workflow as stored. Raises ValueError for an unknown one, StoreCorrupt if damaged."""
        row = self.persistence.load_workflow(workflow_id)
        if row is None:
            raise ValueError(f"workflow {workflow_id} not found")
        program = self._workflows.shown_program(row.program, row.name)
        return ExecutionContext(
            self.persistence,
            self.telemetry,
            IterationChanges(),
            workflow_id,
            program.workflow(row.name).node,
            copy_values(row.inputs),
            program,
            row.runner_id,
        )

    def _answer(self, step_id: str, answer: Answer, event_id: str | None) -> None:
        workflow_id = workflow_of(step_id)

        def change(execution: Execution) -> bool:
            return answer_step(self.persistence, execution, step_id, answer, event_id)

        if workflow_id is None or self._driver.change(workflow_id, change) is None:
            # It belongs to no workflow of the engine, and neither does its event.
            answer_saved_step(self.persistence, step_id, answer)


def _check_program(
    execution: Execution, workflow_ast: Node | str | None, program_ast: Node | CompiledProgram | None
) -> None:
    if program_ast is not None:
        if workflow_ast and not isinstance(workflow_ast, str):
            # Assembled as at the start: a declaration that was not in the program was added to it.
            given, _ = program_of(workflow_ast, program_ast)
        else:
            given = compiled(program_ast)
        pinned = execution.plan.program
        if given.fingerprint != pinned.fingerprint and given.behaviour != pinned.behaviour:
            raise ProgramMismatch(workflow_id=execution.id, pinned=execution.plan.fingerprint, given=given.fingerprint)
    elif workflow_ast is not None:
        name: Any = workflow_ast if isinstance(workflow_ast, str) else workflow_ast.get("name")
        if name not in (execution.plan.name, execution.plan.facet.short_name):
            raise ProgramMismatch(workflow_id=execution.id, pinned=execution.plan.name, given=str(name))
