"""Deadlines of events in stores of releases that kept no timers: those get theirs when the store is brought up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from afl.engine.errors import VersionMismatchError
from afl.engine.model.store import StepDocument, TimerKind, TimerRow
from afl.engine.states import EventState, StepState
from afl.stores.damaged_rows import DAMAGE

#: The state of the steps that may have one.
ASKING = StepState.EVENT_TRANSMIT

R = TypeVar("R")


def timers_of_deadlines(rows: Iterable[R], read: Callable[[R], StepDocument]) -> Iterator[TimerRow]:
    """Return the timers of steps in state `ASKING` whose unanswered event has a deadline.

    Rows that cannot be read are left out: a check of the store reports them.
    """
    for row in rows:
        try:
            step = read(row)
        except (*DAMAGE, VersionMismatchError):
            continue
        if step.deadline_ms is not None and EventState.is_asked(step.event_state):
            yield TimerRow(step.id, step.workflow_id, TimerKind.DEADLINE, step.deadline_ms)
