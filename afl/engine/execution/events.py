"""Events that steps send, and their answers. Some are held back while too many are unanswered."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from afl.core.ids import event_id_of
from afl.engine.execution.waits import InnerFailure, notify_waiters
from afl.engine.model.records import StepRecord
from afl.engine.states import EventState, StepState
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution

_number = attrgetter("number")


def send_event(execution: Execution, step: StepRecord) -> bool:
    """Send the step's event, or hold it back while too many are unanswered; whether it was sent."""
    if execution.open_events >= execution.max_open_events:
        hold(execution, step)
        return False
    step.attempt += 1
    event_id = event_id_of(step.id, step.attempt)
    calling = step.statement if step.statement is not None else step.facet
    if calling is not None and calling.timeout_ms is not None:
        step.deadline_ms = execution.now_ms + calling.timeout_ms
    try:
        execution.bounds.check_payload(execution, step)
        execution.dispatch.dispatch(execution, step, event_id, execution.effects)
    except Exception:
        # The place that this event does not take goes to the next.
        release_held_event(execution)
        raise
    step.event_state = EventState.CREATED
    execution.touch(step)
    execution.open_events += 1
    if execution.trace is not None:
        execution.trace.published(execution, step, event_id)
    return True


def continue_with(execution: Execution, step: StepRecord, result: Mapping[str, Value], size: int | None = None) -> None:
    """Take the answer to a waiting step's event: one write moves it on to its next state. `size` of the result,
    where that is known.
    """
    _give_returns(execution, step, result, size)
    step.event_state = EventState.COMPLETED
    if execution.trace is not None:
        execution.trace.moved(execution, step, StepState.EVENT_TRANSMIT, StepState.STATEMENT_BLOCKS_BEGIN)
    step.state = StepState.STATEMENT_BLOCKS_BEGIN
    execution.touch(step)
    execution.wake(step)
    _event_closed(execution, step)


def fail_with(execution: Execution, step: StepRecord, error_type: str, message: str) -> None:
    """Take the answer that a waiting step's event has failed."""
    step.event_state = EventState.ERROR
    execution.fail(step, InnerFailure(execution.first_cause(step, error_type, message)))
    _event_closed(execution, step)
    notify_waiters(execution)


def update_with(execution: Execution, step: StepRecord, partial: Mapping[str, Value], size: int | None = None) -> None:
    """Merge a partial result; the step stays where it is. `size` of it, where that is known."""
    _give_returns(execution, step, partial, size)
    step.event_state = EventState.PROCESSING
    execution.touch(step)


def _give_returns(execution: Execution, step: StepRecord, more: Mapping[str, Value], size: int | None) -> None:
    """Add to a step's returns. Raises LimitReached, and changes nothing then."""
    before = step.returns
    returns = {**before, **more}
    step.size = execution.bounds.admit_returns(returns, before, step.size, None if before else size)
    step.returns = returns


def _event_closed(execution: Execution, step: StepRecord) -> None:
    execution.dispatch.answered(execution, step, execution.effects)
    execution.open_events -= 1
    release_held_event(execution)


def hold(execution: Execution, step: StepRecord) -> None:
    """Hold a step's event back, in its place: a run that is read back holds them in order of creation, too."""
    held = execution.held_events
    if not held or held[-1].number < step.number:
        held.append(step)
    else:
        insort(held, step, key=_number)


def release_held_event(execution: Execution) -> None:
    """Let the next step whose event was held back send it; when none is, let more such steps be made."""
    if execution.held_events:
        execution.wake(execution.held_events.popleft())
    elif execution.waiting_foreachs:
        # All of them: the first may have no event to send, and then the next would not be woken.
        for foreach in execution.waiting_foreachs.values():
            execution.wake(foreach)
        execution.waiting_foreachs.clear()


def wait_for_room(execution: Execution, foreach: StepRecord) -> None:
    """Let a large foreach make no more elements while events are held back: it is woken then."""
    execution.waiting_foreachs[foreach.id] = foreach
