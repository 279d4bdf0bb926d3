"""Timers of steps, fired by the driver when they are due. What begins and ends them is in runtime_waits.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from afl.engine.execution.events import end_with, fail_with, try_again
from afl.engine.model.records import StepRecord
from afl.engine.model.timers import TimerKind, TimerRow
from afl.engine.states import EventState, StepState

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution

#: The error type of a step whose event has no answer in time.
TIMEOUT: Final = "Timeout"


def has_timer(execution: Execution, step_id: str) -> bool:
    """Return whether the step has a timer now: a row of the store's for a step without one is a leftover."""
    step = execution.steps.get(step_id)
    return step is not None and step.deadline_ms is not None


def fire_timer(execution: Execution, timer: TimerRow) -> bool:
    """Do what a due timer is for; the caller has set `execution.now_ms`, and evaluates and commits the workflow.

    False, and nothing is done, when the step no longer waits for just this timer: the workflow has ended, the step has
    gone on, or has a later timer by now. A row that is still stored then is deleted by `Batch.timers_done`, unless
    `has_timer`.
    """
    step = execution.steps.get(timer.step_id)
    if step is None or execution.is_ended or not _waits_for(step, timer):
        return False
    if timer.kind is TimerKind.SLEEP:
        end_with(execution, step, {"woke_at": execution.now_ms})
    elif timer.kind is TimerKind.WAIT:
        end_with(execution, step, {"data": None, "timed_out": True})
    elif timer.kind is TimerKind.RETRY:
        try_again(execution, step)
    else:
        message = f"attempt {step.attempt} had no answer before its deadline, {_moment(timer.due_at_ms)}"
        fail_with(execution, step, TIMEOUT, message, EventState.EXPIRED)
    return True


def _waits_for(step: StepRecord, timer: TimerRow) -> bool:
    if step.state != StepState.EVENT_TRANSMIT or step.deadline_ms != timer.due_at_ms:
        return False
    if timer.kind is TimerKind.DEADLINE:
        return EventState.is_asked(step.event_state)
    return step.event_state == (EventState.RETRYING if timer.kind is TimerKind.RETRY else EventState.WAITING)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
