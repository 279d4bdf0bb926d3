"""Waits of steps for the runtime, not for an agent: for an external event, a time, or the next attempt; and timers.

Whatever ends a wait ends its timer in the same commit: no row is left over.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch
from afl.engine.model.timers import TimerKind, TimerRow
from afl.engine.model.waiting import LibraryFacet
from afl.engine.states import EventState
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution

_number = attrgetter("number")


def begin_timer(execution: Execution, step: StepRecord, kind: TimerKind, due_at_ms: int) -> None:
    """Give a step a timer, which takes the place of one that it has. `due_at_ms`: milliseconds since the epoch."""
    step.deadline_ms, execution.has_timers = due_at_ms, True
    execution.effects.timers.append(TimerRow(step.id, execution.id, kind, due_at_ms))


def end_timer(execution: Execution, step: StepRecord) -> None:
    """Take a step's timer away, if it has one."""
    # Asked before the call where every answer passes.
    if step.deadline_ms is not None:
        step.deadline_ms = None
        execution.effects.timers_done.append(step.id)


def begin_wait(execution: Execution, step: StepRecord, state: str) -> None:
    """Let a step wait for the runtime, in this state of its event."""
    step.event_state = state
    execution.touch(step)
    keep_wait(execution, step)


def keep_wait(execution: Execution, step: StepRecord) -> None:
    """Note a step that waits for the runtime: one for an external event in the order of the steps' creation."""
    execution.waiting[step.id] = step
    name = awaited_event(step)
    if name is not None:
        waits = execution.event_waits.setdefault(name, deque())
        if not waits or waits[-1].number < step.number:
            waits.append(step)
        else:
            insort(waits, step, key=_number)


def end_wait(execution: Execution, step: StepRecord) -> None:
    """Let a step no longer wait for the runtime, and end its timer."""
    del execution.waiting[step.id]
    name = awaited_event(step)
    if name is not None:
        waits = execution.event_waits[name]
        if waits[0] is step:
            waits.popleft()
        else:
            waits.remove(step)
        if not waits:
            del execution.event_waits[name]
    end_timer(execution, step)


def awaited_event(step: StepRecord) -> str | None:
    """Return the name of the external event that a step is for; None for another step."""
    if step.facet is None or step.facet.library is not LibraryFacet.WAIT_FOR_EVENT:
        return None
    name: Value = step.params.get("name")
    return name if isinstance(name, str) else None


def withdraw_all(execution: Execution) -> None:
    """End all that steps wait for, of agents and of the runtime: the execution has ended before them."""
    if execution.open_events:
        for step in execution.steps.values():
            if step.is_waiting:
                _withdraw(execution, step)
    for step in execution.waiting.values():
        _withdraw(execution, step)
    execution.waiting.clear()
    execution.event_waits.clear()


def _withdraw(execution: Execution, step: StepRecord) -> None:
    step.event_state = EventState.CANCELED
    end_timer(execution, step)
    execution.touch(step)


def settle(execution: Execution, effects: Batch) -> None:
    """Leave out of one commit's effects what has been undone in it: timers that have ended again, and the earlier forms
    of rows of the history.
    """
    if effects.timers:
        latest = {row.step_id: row for row in effects.timers}
        effects.timers = [row for row in latest.values() if _is_current(execution, row)]
    if effects.history_changes:
        changed = {row.number: row for row in effects.history_changes}
        effects.history = [changed.pop(row.number, row) for row in effects.history]
        effects.history_changes = list(changed.values())


def _is_current(execution: Execution, timer: TimerRow) -> bool:
    step = execution.steps.get(timer.step_id)
    return step is not None and step.deadline_ms == timer.due_at_ms
