"""What an execution needs of those around it: where its events go, and who watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from afl.engine.model.plan import StatementPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.store import Batch, StepDocument

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


class Dispatch(Protocol):
    """Where the events of event facets go: to an outbox, or to a queue of tasks."""

    def serves(self, execution: Execution) -> bool:
        """Say whether the workflow may be gone on with here: whether its events can be written by this."""

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Add what carries the event to `effects`. An exception fails the step by name: a value that does not fit,
        an event that is too large.
        """

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        """The step's event has its answer, which may be a failure: add what follows for what carried the event."""

    def ended(self, execution: Execution, effects: Batch) -> None:
        """The workflow has ended: add what tells subscribers."""


class Trace(Protocol):
    """Sees what happens in one execution, when telemetry is on. None of it raises."""

    def started(self, execution: Execution, *, resumed: bool = False, traceparent: str | None = None) -> None: ...
    def ended(self, execution: Execution) -> None: ...
    def call_failed(self, workflow_id: str, error: BaseException) -> None: ...
    def iteration_began(self, execution: Execution) -> None: ...
    def iteration_ended(self, execution: Execution) -> None: ...
    def created(self, execution: Execution, step: StepRecord) -> None: ...
    def bound(self, execution: Execution, step: StepRecord, frame: Frame, plan: StatementPlan) -> None: ...
    def begun(self, execution: Execution, step: StepRecord, frame: Frame) -> None: ...
    def moved(self, execution: Execution, step: StepRecord, origin: str, target: str) -> None: ...
    def put_down(self, document: StepDocument, origin: str | None) -> None:
        """An operator's action has made this of a step that was in state `origin`; None: it is a new one."""

    def failed(self, execution: Execution, step: StepRecord, origin: str) -> None: ...
    def published(self, execution: Execution, step: StepRecord, event_id: str) -> None: ...

    def committed(self) -> None:
        """All that was seen is stored."""
