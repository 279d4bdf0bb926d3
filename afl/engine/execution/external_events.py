"""External events of a workflow: a step that waits for their name takes them, or they are kept until one does."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from afl.engine import limits
from afl.engine.execution.events import end_with
from afl.engine.execution.runtime_waits import begin_timer, begin_wait
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.records import StepRecord
from afl.engine.model.timers import TimerKind
from afl.engine.states import EventState
from afl.engine.types import Value
from afl.engine.values.sizes import attribute_bytes

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


class RaisedEvent(NamedTuple):
    """An event as its sender raised it."""

    #: Unique in its workflow: the caller has looked for one of the same id.
    event_id: str
    name: str
    #: An AFL value, the execution's own.
    data: Value
    #: When it was raised, in milliseconds since the epoch.
    at_ms: int


class EventLimits(NamedTuple):
    """The limits of a workflow's external events, and of its history."""

    #: Events that no wait has taken.
    max_pending: int = limits.MAX_PENDING_EVENTS
    #: Bytes of their data.
    max_pending_bytes: int = limits.MAX_PENDING_EVENT_BYTES
    #: Executions into which an event is carried after the one in which it was raised.
    max_carried_executions: int = limits.MAX_CARRIED_EXECUTIONS
    #: Executions of which the history is kept.
    kept_executions: int = limits.KEPT_EXECUTIONS


class Raised(StrEnum):
    """What has become of an event that was raised."""

    #: A waiting step has taken it.
    TAKEN = "taken"
    #: It is pending: no step waits for it.
    QUEUED = "queued"
    #: The workflow has ended: the event is in its history, and is never taken.
    ENDED = "ended"
    #: The workflow has as many pending events as it may have: nothing is written.
    LIMIT = "limit"


def raise_event(execution: Execution, event: RaisedEvent, limits: EventLimits) -> Raised:
    """Give an event to the workflow. But for LIMIT the caller commits the workflow, so that its revision is bumped.

    The next number of its history must be known (`WorkflowCache.read_history`). Data that are over a limit fail the
    step that takes them, or end the run. Never raises for the event's sake.
    """
    inbox = execution.inbox
    if not execution.is_ended and event.name not in execution.event_waits:
        size_bytes = inbox.size_bytes + attribute_bytes({"": event.data})
        if inbox.count >= limits.max_pending or size_bytes > limits.max_pending_bytes:
            return Raised.LIMIT
    row = HistoryRow(
        execution.id,
        inbox.number(),
        HistoryKind.EXTERNAL_EVENT,
        execution.number,
        event.at_ms,
        event.name,
        event.event_id,
        event.data,
        is_pending=True,
    )
    execution.effects.history.append(row)
    return _deliver(execution, row)


def adopt(execution: Execution, events: Iterable[HistoryRow]) -> None:
    """Give a workflow pending events that were raised before it existed: those rows of its history.

    At its start, before its first iteration; or later, for those that a racing writer has left.
    """
    for event in sorted(events, key=lambda row: row.number):
        _deliver(execution, event._replace(expires_at_ms=0))


def _deliver(execution: Execution, event: HistoryRow) -> Raised:
    """Let the first waiting step take a pending event, or keep it; its row changes with the next commit."""
    changes = execution.effects.history_changes
    if execution.is_ended:
        changes.append(event._replace(is_pending=False, until_execution=execution.number))
        return Raised.ENDED
    waits = execution.event_waits.get(event.name)
    if not waits:
        changes.append(event)
        execution.inbox.add(event)
        return Raised.QUEUED
    step = waits[0]
    changes.append(_taken(execution, event, step))
    end_with(execution, step, _result(event))
    return Raised.TAKEN


def _taken(execution: Execution, event: HistoryRow, step: StepRecord) -> HistoryRow:
    return event._replace(is_pending=False, step_id=step.id, until_execution=execution.number)


def _result(event: HistoryRow) -> dict[str, Value]:
    return {"data": event.value, "timed_out": False}


def wait_for_event(execution: Execution, step: StepRecord, name: str, timeout_ms: int) -> bool:
    """Begin a step's wait for an event, or take one that is pending; return whether the wait is over.

    `timeout_ms` 0: there is no limit. Raises LimitReached for data of an event that the step cannot have.
    """
    inbox, effects = execution.inbox, execution.effects
    step.attempt += 1
    effects.history.append(
        HistoryRow(
            execution.id,
            inbox.number(),
            HistoryKind.EXTERNAL_SUBSCRIBED,
            execution.number,
            execution.now_ms,
            name,
            step_id=step.id,
        )
    )
    event = inbox.take(name)
    if event is not None:
        effects.history_changes.append(_taken(execution, event, step))
        execution.give(step, step.params, {**step.returns, **_result(event)})
        step.event_state = EventState.COMPLETED
        return True
    begin_wait(execution, step, EventState.WAITING)
    if timeout_ms:
        begin_timer(execution, step, TimerKind.WAIT, execution.now_ms + timeout_ms)
    return False
