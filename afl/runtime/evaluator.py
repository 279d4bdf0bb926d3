"""Runs workflows against a store: execute, resume, and the answers that agents give in between.

Each iteration is one atomic commit. The evaluator itself has no state but caches: it can be shared by threads, and
several can work on one store, because a commit that lost against another writer is computed again from the store.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from afl.compiled import CompiledProgram, Node
from afl.runtime import limits
from afl.runtime.changers import run_iteration
from afl.runtime.changes import take_changes
from afl.runtime.clock import Clock, SystemClock
from afl.runtime.context import ExecutionContext
from afl.runtime.dispatch import TaskDispatch
from afl.runtime.driving import Dispatch
from afl.runtime.errors import IterationLimitReached, ProgramMismatch, WorkflowConflict
from afl.runtime.execution import Execution
from afl.runtime.identity import event_id_of, workflow_of
from afl.runtime.persistence import EngineStore, EventDefinition, IterationChanges
from afl.runtime.programs import program_of
from afl.runtime.records import StepRecord
from afl.runtime.scripting import ScriptRunner, ScriptRuns, offer_again
from afl.runtime.states import STEP_TRANSITIONS, StepState
from afl.runtime.telemetry import Telemetry
from afl.runtime.tracing import TelemetryTrace
from afl.runtime.types import Value, workflow_id_v7
from afl.runtime.workflows import Workflows

_T = TypeVar("_T")

#: States of a step that has not come to its event yet.
_BEFORE_EVENT = frozenset(list(STEP_TRANSITIONS)[: list(STEP_TRANSITIONS).index(StepState.EVENT_TRANSMIT)])


class ExecutionStatus:
    """How a call ended."""

    COMPLETED = "COMPLETED"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


@dataclass
class ExecutionResult:
    """
    What came of a call of `execute` or `resume`.

    PAUSED is a success: the workflow waits for answers, which `pending_events` lists. `error` is the first cause when
    the status is ERROR, and names the limit when it is TIMEOUT. `iterations` counts the last, in which nothing moved.
    """

    success: bool
    workflow_id: str
    outputs: dict[str, Value] = field(default_factory=dict)
    error: Exception | None = None
    iterations: int = 0
    status: str = ExecutionStatus.COMPLETED
    pending_events: Sequence[EventDefinition] = field(default_factory=list)


class PendingEvents(Sequence[EventDefinition]):
    """The unanswered events of a paused workflow, read from the store when somebody looks."""

    def __init__(self, store: EngineStore, workflow_id: str) -> None:
        self._read: Callable[[], list[EventDefinition]] = lambda: [
            event
            for step in store.get_steps_by_workflow(workflow_id)
            if step.state == StepState.EVENT_TRANSMIT
            if (event := store.get_event(event_id_of(step.id, step.attempt))) is not None
        ]
        self._events: list[EventDefinition] | None = None

    def _all(self) -> list[EventDefinition]:
        if self._events is None:
            self._events = self._read()
        return self._events

    @overload
    def __getitem__(self, index: int) -> EventDefinition: ...
    @overload
    def __getitem__(self, index: slice) -> list[EventDefinition]: ...
    def __getitem__(self, index: int | slice) -> EventDefinition | list[EventDefinition]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[EventDefinition]:
        return iter(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class Evaluator:
    """Executes workflows. Thread-safe."""

    def __init__(
        self,
        persistence: EngineStore,
        telemetry: Telemetry | None = None,
        max_iterations: int = limits.MAX_ITERATIONS,
        *,
        dispatch: Dispatch | None = None,
        clock: Clock | None = None,
        hot_steps: int = limits.HOT_WORKFLOW_STEPS,
        max_open_events: int = limits.MAX_OPEN_EVENTS,
        scripts: ScriptRunner | None = None,
    ) -> None:
        """`scripts` runs the scripts of programs, most often an `afl.scripts.pool.ScriptPool`, which its owner closes.
        Without one a workflow that can come to a script is not started, and a script that is come to fails its step.
        """
        self._scripts = scripts
        self.persistence = persistence
        self.telemetry = telemetry if telemetry is not None else Telemetry(enabled=False)
        self.max_iterations = max_iterations
        self._clock = clock or SystemClock()
        self._workflows = Workflows(
            persistence,
            dispatch or TaskDispatch(),
            trace=TelemetryTrace(self.telemetry) if self.telemetry.enabled else None,
            hot_steps=hot_steps,
            max_open_events=max_open_events,
            runs_scripts=scripts is not None,
        )

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

        `workflow_ast` is the workflow's declaration, or its name in `program_ast`. Without an id one is drawn that
        sorts by time. Never raises: what goes wrong is the result's `error`.
        """
        workflow_id = workflow_id or workflow_id_v7(self._clock.now_ms())
        try:
            program, name = program_of(workflow_ast, program_ast)
            plan = self._workflows.plan(program, name)
            self.telemetry.log_workflow_start(workflow_id, plan.name)
            execution = self._workflows.start(
                plan, workflow_id, copy.deepcopy(dict(inputs or {})), self._clock.now_ms(), runner_id=runner_id
            )
            try:
                with ScriptRuns(self._scripts) as runs:
                    return self._run(execution, runs)
            except WorkflowConflict:
                if execution.revision == 1:
                    # The id was taken before: that workflow is not this one.
                    raise
                # An agent's answer came while this call was still running.
                return self.resume(workflow_id)
        except Exception as error:  # noqa: BLE001 - callers are promised a result, whatever happens
            return self._failed(workflow_id, error)

    def resume(
        self,
        workflow_id_val: str,
        workflow_ast: Node | str | None = None,
        program_ast: Node | CompiledProgram | None = None,
        inputs: Mapping[str, Value] | None = None,
        runner_id: str = "",
    ) -> ExecutionResult:
        """Run a workflow on from what the store holds, to its end or its next pause.

        The workflow's id is enough: its program is in the store. A program that is given must be that very one.
        `inputs` and `runner_id` were fixed at the start and are ignored. Never raises.
        """
        try:
            with ScriptRuns(self._scripts) as runs:
                while True:
                    execution = self._workflows.load(workflow_id_val)
                    if execution is None:
                        raise ValueError(f"workflow {workflow_id_val} not found")
                    _check_program(execution, workflow_ast, program_ast)
                    self.telemetry.log_workflow_start(workflow_id_val, execution.plan.name)
                    offer_again(execution)
                    try:
                        return self._run(execution, runs)
                    except WorkflowConflict:
                        continue
        except Exception as error:  # noqa: BLE001 - callers are promised a result, whatever happens
            return self._failed(workflow_id_val, error)

    def continue_step(
        self, step_id: str, result: Mapping[str, Value] | None = None, *, event_id: str | None = None
    ) -> None:
        """Answer a step's event: the result becomes its returns, and `resume` will run what it sets free.

        The first answer wins; a repeat does nothing. With `event_id`, nor does an answer to an older attempt. Raises
        ValueError for an unknown step, and for one that has not come to its event.
        """
        answer = copy.deepcopy(dict(result or {}))
        self._answer(step_id, lambda execution, step: execution.continue_with(step, answer), event_id)

    def fail_step(
        self, step_id: str, error_message: str, error_type: str = "RuntimeError", *, event_id: str | None = None
    ) -> None:
        """Answer a step's event with a failure. Repeats and errors as for `continue_step`."""
        self._answer(step_id, lambda execution, step: execution.fail_with(step, error_type, error_message), event_id)

    def update_step(self, step_id: str, partial: Mapping[str, Value], *, event_id: str | None = None) -> None:
        """Merge a partial result into a waiting step's returns. Raises ValueError as `continue_step`."""
        merged = copy.deepcopy(dict(partial))
        self._answer(step_id, lambda execution, step: execution.update_with(step, merged), event_id)

    def cancel(self, workflow_id: str, reason: str = "") -> bool:
        """End a workflow now; False when it has ended already. Raises ValueError for an unknown one."""

        def apply(execution: Execution) -> bool:
            if execution.is_ended:
                return False
            execution.cancel(reason)
            return True

        return self._change(workflow_id, f"workflow {workflow_id} not found", apply)

    def context(self, workflow_id: str) -> ExecutionContext:
        """A view of a workflow as it is stored now. ValueError for an unknown one, StoreCorrupt without its program."""
        row = self.persistence.load_workflow(workflow_id)
        if row is None:
            raise ValueError(f"workflow {workflow_id} not found")
        program = self._workflows.program(row.program, row.name)
        return ExecutionContext(
            self.persistence,
            self.telemetry,
            IterationChanges(),
            workflow_id,
            program.workflow(row.name).node,
            copy.deepcopy(dict(row.inputs)),
            program,
            row.runner_id,
        )

    def _run(self, execution: Execution, runs: ScriptRuns) -> ExecutionResult:
        """Iterate to the fixed point, scripts included.

        For each iteration:
          1. run it in memory,
          2. commit its steps, tasks and records in one transaction,
          3. when nothing else is left to do, run the scripts that steps wait for, and let those go on that have theirs.

        A crash before 2 leaves the store as the iteration before left it, and `resume` runs the same iteration again,
        to the same ids. After 2 the iteration is done. What came of scripts is stored with the next one: after a crash
        in between they run again.
        """
        iterations, commit, now_ms = 0, self.persistence.commit_batch, self._clock.now_ms
        telemetry = self.telemetry if self.telemetry.enabled else None
        batch = execution.effects
        while execution.queue or (execution.scripts and self._await_scripts(execution, runs)):
            if iterations == self.max_iterations:
                self._workflows.keep(execution)
                error = IterationLimitReached(self.max_iterations)
                return ExecutionResult(False, execution.id, {}, error, iterations, ExecutionStatus.TIMEOUT)
            execution.now_ms = now_ms()
            made = execution.count
            if telemetry is not None:
                telemetry.log_iteration_start(execution.id, iterations)
            run_iteration(execution)
            changed = len(execution.dirty) + len(execution.documents)
            batch.now_ms = execution.now_ms
            take_changes(execution, batch)
            commit(batch)
            batch.changes.clear()
            if batch.tasks or batch.task_ends or batch.outbox or batch.programs or batch.logs:
                batch.clear()
            if telemetry is not None:
                telemetry.log_iteration_end(execution.id, iterations, execution.count - made, changed)
            iterations += 1
        # Before it is kept: from then on another thread may have it.
        result = self._result(execution, iterations + 1)
        self._workflows.keep(execution)
        return result

    def _await_scripts(self, execution: Execution, runs: ScriptRuns) -> bool:
        """Wait until steps can go on that waited for their scripts; False when none can."""
        while execution.scripts and not (execution.queue or execution.is_ended):
            runs.go_on(execution, self._clock.now_ms)
            if not execution.queue:
                # Nothing follows from it that would be committed: the workflow has ended, or others are waited for.
                self._commit(execution)
        return bool(execution.queue)

    def _commit(self, execution: Execution) -> None:
        batch = execution.effects
        batch.now_ms = execution.now_ms
        take_changes(execution, batch)
        self.persistence.commit_batch(batch)
        batch.clear()

    def _result(self, execution: Execution, iterations: int) -> ExecutionResult:
        if not execution.is_ended:
            pending = PendingEvents(self.persistence, execution.id)
            return ExecutionResult(
                True, execution.id, {}, None, iterations, ExecutionStatus.PAUSED, pending_events=pending
            )
        error = execution.failure()
        if error is not None:
            self.telemetry.log_workflow_error(execution.id, error)
            return ExecutionResult(False, execution.id, {}, error, iterations, ExecutionStatus.ERROR)
        outputs = copy.deepcopy(dict(execution.outputs))
        self.telemetry.log_workflow_complete(execution.id, outputs)
        return ExecutionResult(True, execution.id, outputs, None, iterations)

    def _failed(self, workflow_id: str, error: Exception) -> ExecutionResult:
        self._workflows.forget(workflow_id)
        self.telemetry.log_workflow_error(workflow_id, error)
        return ExecutionResult(False, workflow_id, {}, error, 0, ExecutionStatus.ERROR)

    def _answer(self, step_id: str, take: Callable[[Execution, StepRecord], None], event_id: str | None = None) -> None:
        """Let a step that waits for an answer take one; nothing happens to one that does not wait any more."""
        missing = f"step {step_id} not found"

        def change(execution: Execution) -> bool:
            step = execution.steps.get(step_id)
            if step is None:
                if self.persistence.get_step(step_id) is None:
                    raise ValueError(missing)
                return False  # It is complete and never waited for anybody.
            if event_id is not None and event_id != event_id_of(step.id, step.attempt):
                return False  # It has asked anew since.
            if not _takes_answer(execution, step):
                return False
            take(execution, step)
            return True

        workflow_id = workflow_of(step_id)
        if workflow_id is None:
            raise ValueError(missing)
        self._change(workflow_id, missing, change)

    def _change(self, workflow_id: str, missing: str, apply: Callable[[Execution], bool]) -> bool:
        """Apply a change from outside in a commit of its own, again from the store while others are faster."""
        while True:
            execution = self._workflows.load(workflow_id)
            if execution is None:
                raise ValueError(missing)
            execution.now_ms = self._clock.now_ms()
            try:
                changed = apply(execution)
                if changed:
                    self._commit(execution)
            except WorkflowConflict:
                continue
            self._workflows.keep(execution)
            return changed


def _takes_answer(execution: Execution, step: StepRecord) -> bool:
    """Whether an answer changes the step. ValueError when it comes before the step's event, which may be held back."""
    if execution.is_waiting(step):
        # In a workflow that was ended meanwhile an answer is late, like one to a step that has gone on.
        return not execution.is_ended
    if (step.statement is None and step.mixin is None) or step.state in _BEFORE_EVENT:
        raise ValueError(f"step {step.id} is at {step.state}, expected {StepState.EVENT_TRANSMIT}")
    if step.state == StepState.EVENT_TRANSMIT:
        raise ValueError(f"step {step.id} has not sent its event yet, expected one at {StepState.EVENT_TRANSMIT}")
    return False


def _check_program(
    execution: Execution, workflow_ast: Node | str | None, program_ast: Node | CompiledProgram | None
) -> None:
    if program_ast is not None:
        if workflow_ast and not isinstance(workflow_ast, str):
            # Put together as at the start: a declaration that was not in the program was added to it.
            given, _ = program_of(workflow_ast, program_ast)
        else:
            given = program_ast if isinstance(program_ast, CompiledProgram) else CompiledProgram(program_ast)
        if given.fingerprint != execution.plan.fingerprint:
            raise ProgramMismatch(workflow_id=execution.id, pinned=execution.plan.fingerprint, given=given.fingerprint)
    elif workflow_ast is not None:
        name: Any = workflow_ast if isinstance(workflow_ast, str) else workflow_ast.get("name")
        if name not in (execution.plan.name, execution.plan.facet.short_name):
            raise ProgramMismatch(workflow_id=execution.id, pinned=execution.plan.name, given=str(name))
