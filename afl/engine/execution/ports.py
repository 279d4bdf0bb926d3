"""The ports of an execution: the destination of its events, and its observers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from afl.engine import limits
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.model.plan import StatementPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.store import Batch, StepDocument

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


class Dispatch(Protocol):
    """The destination of event facets' events: an outbox, or a queue of tasks."""

    def serves(self, execution: Execution) -> bool:
        """Say whether this process may run the workflow: whether this dispatch can write its events."""

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Add the carrier of the event to `effects`.

        An exception fails the step by name: a value that does not fit, an event that is too large.
        """

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        """Add the consequences for the event's carrier once its step has the answer, which may be a failure."""

    def ended(self, execution: Execution, effects: Batch) -> None:
        """Add the messages to subscribers once the workflow has ended."""


class Trace(Protocol):
    """The observer of one execution, when telemetry is on. Its methods never raise."""

    #: Whether it wants every move of a step from state to state; else those to the end of a step are enough.
    sees_moves: bool

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
        """Note that an operator's action has made this of a step in state `origin`; None: the step is new."""

    def failed(self, execution: Execution, step: StepRecord, origin: str) -> None: ...
    def published(self, execution: Execution, step: StepRecord, event_id: str) -> None: ...

    def committed(self) -> None:
        """All that was seen is stored."""


#: Takes an execution, the step that fails, and the text of its failure.
FailureText: TypeAlias = "Callable[[Execution, StepRecord, str], str]"


class RunEnvironment(NamedTuple):
    """The environment that its driver gives to an execution."""

    dispatch: Dispatch
    #: What the run may take. Of this run alone: it counts what the run has used.
    bounds: RunBounds
    trace: Trace | None = None
    max_open_events: int = limits.MAX_OPEN_EVENTS
    #: Whether the driver runs scripts that steps come to. Where it does not, these steps fail.
    runs_scripts: bool = False
    #: Gives the time that an agent has for the event of a facet, in milliseconds, where the program does not: by the
    #: facet's name; None: there is no limit.
    deadlines: Callable[[str], int | None] | None = None
    #: Returns the text of a step's failure as it may be kept and logged; None: as it is.
    failure_text: FailureText | None = None
    #: Returns a step that the store has, by its id. Without it complete elements of large foreachs stay in memory.
    load_step: Callable[[str], StepDocument | None] | None = None
