"""Events that steps send, their answers, and further attempts. Some are held back while too many are unanswered."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from afl.core.ids import event_id_of
from afl.core.text.exception_text import exception_class, exception_text
from afl.engine.errors import LimitReached, RunLimitReached
from afl.engine.execution.runtime_waits import begin_timer, begin_wait, end_timer, end_wait
from afl.engine.execution.waits import InnerFailure, notify_waiters
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.step_rows import ErrorRecord, RetryRecord
from afl.engine.model.timers import TimerKind
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
    timeout_ms = calling.timeout_ms if calling is not None else None
    if timeout_ms is None and execution.deadlines is not None:
        timeout_ms = execution.deadlines(step.facet_name)
    if timeout_ms is not None:
        # The event tells its deadline.
        step.deadline_ms = execution.now_ms + timeout_ms
    try:
        execution.bounds.check_payload(execution, step)
        execution.dispatch.dispatch(execution, step, event_id, execution.effects)
    except Exception:
        step.deadline_ms = None
        # The place that this event does not take goes to the next.
        release_held_event(execution)
        raise
    step.event_state = EventState.CREATED
    execution.touch(step)
    execution.open_events += 1
    if step.deadline_ms is not None:
        begin_timer(execution, step, TimerKind.DEADLINE, step.deadline_ms)
    if execution.trace is not None:
        execution.trace.published(execution, step, event_id)
    return True


def continue_with(execution: Execution, step: StepRecord, result: Mapping[str, Value], size: int | None = None) -> None:
    """Take the answer to a waiting step's event, or what it waits for of the runtime: one write moves it on to its next
    state. `size` of the result, where that is known.
    """
    _give_returns(execution, step, result, size)
    before, step.event_state = step.event_state, EventState.COMPLETED
    step.retry = None
    if execution.trace is not None:
        execution.trace.moved(execution, step, StepState.EVENT_TRANSMIT, StepState.STATEMENT_BLOCKS_BEGIN)
    step.state = StepState.STATEMENT_BLOCKS_BEGIN
    execution.touch(step)
    execution.wake(step)
    if before == EventState.WAITING:
        end_wait(execution, step)
    else:
        _event_closed(execution, step)


def fail_with(
    execution: Execution, step: StepRecord, error_type: str, message: str, event_state: str = EventState.ERROR
) -> None:
    """Take the answer that a waiting step's event has failed, which leaves it in `event_state`; or the failure of what
    it waits for of the runtime.

    Where the step's retries say so, it waits for its next attempt, and otherwise it fails.
    """
    error = execution.first_cause(step, error_type, message)
    if step.event_state == EventState.WAITING:
        end_wait(execution, step)
        step.event_state = event_state
        execution.fail(step, InnerFailure(error))
    elif (pause_ms := _pause_before_next(step, error_type)) is not None:
        _retry_later(execution, step, error, pause_ms)
        return
    else:
        step.event_state, step.retry = event_state, None
        execution.fail(step, InnerFailure(error))
        _event_closed(execution, step)
    notify_waiters(execution)


def end_with(execution: Execution, step: StepRecord, returns: Mapping[str, Value]) -> None:
    """Let what a step waits for of the runtime end with these returns.

    Returns over a limit fail the step by name, or end the run if it is a limit of the run.
    """
    try:
        continue_with(execution, step, returns)
    except RunLimitReached as error:
        execution.exceed(error)
    except LimitReached as error:
        fail_with(execution, step, exception_class(error), exception_text(error))


def _pause_before_next(step: StepRecord, error_type: str) -> int | None:
    """Return the pause in milliseconds before the next attempt, now that this one has failed; None: there is none."""
    calling = step.statement if step.statement is not None else step.facet
    plan = calling.retry if calling is not None else None
    if plan is None or (plan.errors and error_type not in plan.errors):
        return None
    failures = step.attempt - _first_attempt(step) + 1
    return plan.pause_ms(failures) if failures <= plan.times else None


def _first_attempt(step: StepRecord) -> int:
    return step.attempt if step.retry is None else step.retry.first_attempt


def _retry_later(execution: Execution, step: StepRecord, error: ErrorRecord, pause_ms: int) -> None:
    step.retry = RetryRecord(_first_attempt(step), error)
    # Parts of a result of this attempt are no parts of the next one's.
    execution.give(step, step.params, returns_before_event(step.facet, step.params, step.returns))
    begin_wait(execution, step, EventState.RETRYING)
    _event_closed(execution, step)
    begin_timer(execution, step, TimerKind.RETRY, execution.now_ms + pause_ms)


def try_again(execution: Execution, step: StepRecord) -> None:
    """Let a step whose attempt has failed send its next event, for which it asks for a place again."""
    end_wait(execution, step)
    step.event_state = ""
    execution.touch(step)
    if execution.open_events < execution.max_open_events:
        execution.wake(step)
    else:
        hold(execution, step)


def returns_before_event(
    facet: FacetPlan | None, params: Mapping[str, Value], returns: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the returns set by a script of a step's facet; partial results of an earlier attempt do not count."""
    if facet is None or facet.pre_script is None:
        return {}
    return {name: params[name] for name in facet.return_types if name in params and name in returns}


def update_with(execution: Execution, step: StepRecord, partial: Mapping[str, Value], size: int | None = None) -> None:
    """Merge a partial result; the step stays where it is, its deadline too. `size` of it, where that is known."""
    _give_returns(execution, step, partial, size)
    if step.event_state != EventState.WAITING:
        step.event_state = EventState.PROCESSING
    execution.touch(step)


def _give_returns(execution: Execution, step: StepRecord, more: Mapping[str, Value], size: int | None) -> None:
    """Add to a step's returns. Raises LimitReached, and changes nothing then."""
    before = step.returns
    returns = {**before, **more}
    step.size = execution.bounds.admit_returns(returns, before, step.size, None if before else size)
    step.returns = returns


def _event_closed(execution: Execution, step: StepRecord) -> None:
    if step.deadline_ms is not None:
        end_timer(execution, step)
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
