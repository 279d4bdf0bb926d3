"""External events as a client raises them, and what it is told of their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from afl_stream.errors import IdRefused
from afl_stream.limits import MAX_NAME_CHARS
from afl_stream.wire.command_answers import EVENT_LATE, EVENT_QUEUED, EVENT_REFUSED, EVENT_REPEATED, EVENT_TAKEN
from afl_stream.wire.messages import ExternalEvent, FailureReason, Lifecycle, check_event_name, check_workflow_id


class EventOutcome(StrEnum):
    """The outcome of an external event, as an evaluator reports it."""

    #: A step that waited for it has it, and continues.
    TAKEN = "taken"
    #: No step waits for it yet. It is kept: the first step that waits for its name takes it.
    QUEUED = "queued"
    #: The workflow has an event of this id already; nothing was changed.
    REPEATED = "repeated"
    #: The workflow has ended: the event is in its history, and no step will take it.
    LATE = "late"
    #: It was not kept, for instance because too many events wait to be taken. `reason` says why.
    REFUSED = "refused"


_OUTCOMES: Final[Mapping[str, EventOutcome]] = {
    EVENT_TAKEN: EventOutcome.TAKEN,
    EVENT_QUEUED: EventOutcome.QUEUED,
    EVENT_REPEATED: EventOutcome.REPEATED,
    EVENT_LATE: EventOutcome.LATE,
    EVENT_REFUSED: EventOutcome.REFUSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceipt:
    """The receipt for an event that was raised.

    `outcome` is None if nobody has waited for it. `status` is the workflow's, or None if it is not known, or does not
    exist yet; `step_id` is the step that has taken the event.
    """

    workflow_id: str
    name: str
    id: str
    outcome: EventOutcome | None = None
    status: str | None = None
    step_id: str | None = None
    reason: FailureReason | None = None

    def answered(self, answer: Lifecycle) -> EventReceipt:
        """Return the receipt with the evaluator's answer."""
        # An answer of a later release is of a kind that is not known here: the evaluator has the event.
        return replace(
            self,
            outcome=_OUTCOMES.get(answer.kind),
            status=answer.status,
            step_id=answer.step_id,
            reason=answer.error,
        )


def event_to_raise(workflow_id: str, name: str, data: object, event_id: str, now_ms: int) -> ExternalEvent:
    """Return the event to send. Raises IdRefused."""
    if not isinstance(event_id, str) or not 0 < len(event_id) <= MAX_NAME_CHARS:
        form = f"1 to {MAX_NAME_CHARS} characters; leave it out for one that is drawn"
        raise IdRefused("id of an external event", event_id, form)
    return ExternalEvent(
        workflow_id=check_workflow_id(workflow_id),
        name=check_event_name(name),
        value=data,
        id=event_id,
        created_at=now_ms,
    )


def when_unanswered(event_id: str) -> str:
    """Return what a sender should know that waits in vain: it may not know the id that was drawn."""
    return (
        "the event stays on its topic, and an evaluator reads it as soon as one runs; "
        f"raised again with its id it counts once: {event_id}"
    )


def receipt_of(event: ExternalEvent) -> EventReceipt:
    """Return the receipt of an event whose answer is not known yet."""
    assert event.id is not None
    return EventReceipt(workflow_id=event.workflow_id, name=event.name, id=event.id)
