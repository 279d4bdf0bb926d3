"""Shows the engine's transitions to telemetry, as events about steps."""

from __future__ import annotations

from afl.runtime.execution import Execution
from afl.runtime.places import failure_of
from afl.runtime.records import StepRecord
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import BlockId, StatementId, StepId, WorkflowId


class TelemetryTrace:
    """Passes on what happens. Made only when telemetry is on: the engine calls nothing when it is off."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def created(self, execution: Execution, step: StepRecord) -> None:
        self._telemetry.log_step_created(_view(execution, step))

    def moved(self, execution: Execution, step: StepRecord, origin: str, target: str) -> None:
        view = _view(execution, step)
        self._telemetry.log_state_begin(view, origin)
        self._telemetry.log_state_end(view, origin)
        self._telemetry.log_state_transition(view, origin, target)

    def failed(self, execution: Execution, step: StepRecord) -> None:
        assert step.error is not None
        self._telemetry.log_error(_view(execution, step), step.state, failure_of(step.error))

    def resolved(self, execution: Execution, step: StepRecord, dependency_id: str) -> None:
        self._telemetry.log_dependency_resolved(step.id, dependency_id)

    def published(self, execution: Execution, step: StepRecord, event_id: str) -> None:
        facet = step.facet.name if step.facet is not None else ""
        self._telemetry.log_event_published(event_id, step.id, facet)


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
    )
