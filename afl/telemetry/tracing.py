"""The observer of one execution for telemetry: events are held during an iteration, and emitted after its commit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from afl.engine.execution.execution import Execution
from afl.engine.execution.step_paths import failure_of
from afl.engine.model.plan import OuterWait, StatementPlan
from afl.engine.model.records import Frame, StepRecord, awaited_frame
from afl.engine.model.store import StepDocument
from afl.engine.states import StepState
from afl.engine.types import BlockId, StatementId, StepId, WorkflowId
from afl.stores.public.step import StepDefinition
from afl.stores.public.views import view_step
from afl.telemetry.telemetry import Telemetry


class TelemetryTrace:
    """The observer of one execution while telemetry is on. While it is off there is none, and no calls are made.

    Nothing is reported that did not happen: events are held until `committed`, and an execution whose commit fails is
    discarded together with its trace. Their times are when they happened.
    """

    def __init__(
        self, telemetry: Telemetry, shown_outputs: Callable[[Execution], Mapping[str, object]] | None = None
    ) -> None:
        """`shown_outputs` returns what may be reported of a run's outputs; None: all."""
        self._telemetry = telemetry
        self._shown_outputs = shown_outputs
        #: The trace that the run is part of, as its execution says.
        self.trace_context = ""
        #: Collects the held events in its `events`.
        self._held = Telemetry(clock=telemetry.clock)
        wanted = telemetry.wanted()
        self._sees_begins, self._sees_ends_of_states = "state.begin" in wanted, "state.end" in wanted
        self._sees_transitions = "state.transition" in wanted
        self._sees_states = self._sees_begins or self._sees_ends_of_states or self._sees_transitions
        self._sees_creations = "step.created" in wanted
        self._sees_ends = "step.complete" in wanted
        self._sees_failures = "step.error" in wanted
        self._sees_waits = "dependency.resolved" in wanted
        self._sees_events = "event.published" in wanted
        self._sees_iterations = "iteration.start" in wanted or "iteration.end" in wanted
        self.sees_moves = self._sees_states or self._sees_iterations
        self._wanted = wanted
        self._began_ns = self._count = 0
        #: Steps that were made or have moved in the running iteration.
        self._touched: set[str] = set()

    def started(self, execution: Execution, *, resumed: bool = False, traceparent: str | None = None) -> None:
        self.trace_context = execution.trace_context
        details: dict[str, object] = {"rootId": execution.root.id}
        if resumed:
            details["resumed"] = True
        if traceparent is not None:
            details["traceparent"] = traceparent
        self._held.log_workflow_start(execution.id, execution.plan.name, **details)

    def ended(self, execution: Execution) -> None:
        self.trace_context = execution.trace_context
        life: dict[str, object] = {
            "workflowName": execution.plan.name,
            "status": execution.status,
            "rootId": execution.root.id,
            "createdAt": execution.created_at_ms,
            "steps": execution.count,
            "iterations": execution.iterations,
        }
        error = execution.failure()
        if error is None:
            # A copy: the receiver must not be able to change the run's data.
            outputs = execution.outputs if self._shown_outputs is None else self._shown_outputs(execution)
            self._held.log_workflow_complete(execution.id, copy.deepcopy(dict(outputs)), **life)
        else:
            self._held.log_workflow_error(execution.id, error, **life)

    def call_failed(self, workflow_id: str, error: BaseException) -> None:
        """Report that a call could not continue a workflow, which may not even exist."""
        self._held.log_workflow_error(workflow_id, error)

    def iteration_began(self, execution: Execution) -> None:
        self.trace_context = execution.trace_context
        if not self._sees_iterations:
            return
        self._count = execution.count
        self._touched.clear()
        self._held.log_iteration_start(execution.id, execution.iterations)
        self._began_ns = self._telemetry.monotonic_ns()

    def iteration_ended(self, execution: Execution) -> None:
        if not self._sees_iterations:
            return
        took_ms = (self._telemetry.monotonic_ns() - self._began_ns) / 1e6
        self._held.log_iteration_end(
            execution.id,
            execution.iterations - 1,
            execution.count - self._count,
            len(self._touched),
            durationMs=took_ms,
        )

    def created(self, execution: Execution, step: StepRecord) -> None:
        if self._sees_iterations:
            self._touched.add(step.id)
        if self._sees_creations:
            self._held.log_step_created(_view(execution, step))

    def bound(self, execution: Execution, step: StepRecord, frame: Frame, plan: StatementPlan) -> None:  # noqa: ARG002 - an observer's signature
        """Note that the step of a statement was made: what it waited for is complete."""
        if self._sees_waits:
            for index in plan.waits:
                self._resolved(step, frame, OuterWait(0, index))
            for wait in plan.outer_waits:
                self._resolved(step, frame, wait)

    def begun(self, execution: Execution, step: StepRecord, frame: Frame) -> None:  # noqa: ARG002 - an observer's signature
        """Note that a foreach or a `when` has what its source or conditions read."""
        if self._sees_waits and step.plan is not None:
            for wait in step.plan.source_waits:
                self._resolved(step, frame, wait)

    def _resolved(self, step: StepRecord, frame: Frame, wait: OuterWait) -> None:
        dependency = awaited_frame(frame, wait).at(wait.index)
        if dependency is not None:
            self._held.log_dependency_resolved(step.id, dependency.id)

    def moved(self, execution: Execution, step: StepRecord, origin: str, target: str) -> None:
        if self._sees_iterations:
            self._touched.add(step.id)
        ends = self._sees_ends and target == StepState.STATEMENT_COMPLETE
        if not (self._sees_states or ends):
            return
        view = _view(execution, step)
        if self._sees_states:
            if self._sees_begins:
                self._held.log_state_begin(view, origin)
            if self._sees_ends_of_states:
                self._held.log_state_end(view, origin)
            if self._sees_transitions:
                self._held.log_state_transition(view, origin, target)
        if ends:
            view.state = target
            self._held.log_step_complete(view)

    def put_down(self, document: StepDocument, origin: str | None) -> None:
        if origin is None:
            # A row in state Created is only a place: the step is made, and reported, when its turn comes.
            if self._sees_creations and document.state != StepState.CREATED:
                self._held.log_step_created(view_step(document))
        elif self._sees_transitions and origin != document.state:
            self._held.log_state_transition(view_step(document), origin, document.state)

    def failed(self, execution: Execution, step: StepRecord, origin: str) -> None:
        assert step.error is not None
        if self._sees_iterations:
            self._touched.add(step.id)
        view = _view(execution, step)
        if self._sees_begins:
            self._held.log_state_begin(view, origin)
        if self._sees_failures:
            self._held.log_error(view, origin, failure_of(step.error))
        if self._sees_transitions:
            self._held.log_state_transition(view, origin, StepState.STATEMENT_ERROR)

    def published(self, execution: Execution, step: StepRecord, event_id: str) -> None:  # noqa: ARG002 - an observer's signature
        if not self._sees_events:
            return
        facet = step.facet.name if step.facet is not None else ""
        self._held.log_event_published(event_id, step.id, facet)

    def committed(self) -> None:
        """Emit the held events: they are stored now."""
        events, self._held.events = self._held.events, []
        wanted = [event for event in events if event.event_type in self._wanted]
        if self.trace_context:
            for event in wanted:
                event.trace_context = self.trace_context
        if wanted:
            self._telemetry.emit_together(wanted)


def _view(execution: Execution, step: StepRecord) -> StepDefinition:
    return StepDefinition(
        id=StepId(step.id),
        object_type=step.object_type,
        workflow_id=WorkflowId(execution.id),
        statement_id=StatementId(step.statement.id) if step.statement is not None else None,
        block_id=BlockId(step.block.id) if step.block is not None else None,
        container_id=StepId(step.container.id) if step.container is not None else None,
        state=step.state,
        facet_name=step.facet_name,
        timestamp=step.created_at_ms,
        attempt=step.attempt,
    )
