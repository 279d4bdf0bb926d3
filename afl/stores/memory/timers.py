"""Timers of the store in memory."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING

from afl.engine.model.timers import TimerRow

if TYPE_CHECKING:
    from collections.abc import Iterable


class KeptTimers:
    """Timers by step, by workflow and by time. Not safe for threads: the store's lock guards it."""

    __slots__ = ("_by_step", "_by_workflow", "_order")

    def __init__(self) -> None:
        self._by_step: dict[str, TimerRow] = {}
        #: Workflow id to the ids of its steps with timers.
        self._by_workflow: dict[str, set[str]] = {}
        #: Time and step id of all timers, sorted.
        self._order: list[tuple[int, str]] = []

    def put(self, timer: TimerRow) -> None:
        """Write a timer in the place of the one that its step has."""
        self.remove(timer.step_id)
        self._by_step[timer.step_id] = timer
        self._by_workflow.setdefault(timer.workflow_id, set()).add(timer.step_id)
        insort(self._order, _place(timer))

    def remove(self, step_id: str) -> None:
        """Delete the timer of a step, if there is one."""
        timer = self._by_step.pop(step_id, None)
        if timer is None:
            return
        del self._order[bisect_left(self._order, _place(timer))]
        of_workflow = self._by_workflow[timer.workflow_id]
        of_workflow.remove(step_id)
        if not of_workflow:
            del self._by_workflow[timer.workflow_id]

    def remove_of(self, workflow_id: str, limit: int | None = None) -> int:
        """Delete timers of a workflow, up to `limit`; return how many."""
        step_ids = list(islice(self._by_workflow.get(workflow_id, ()), limit))
        for step_id in step_ids:
            self.remove(step_id)
        return len(step_ids)

    def due(self, now_ms: int, after: TimerRow | None, limit: int) -> list[TimerRow]:
        """Return timers whose time has come, in order of time and step id, behind `after`."""
        first = 0 if after is None else bisect_right(self._order, _place(after))
        found = islice(self._order, first, first + limit)
        return [self._by_step[step_id] for due_at_ms, step_id in found if due_at_ms <= now_ms]

    def first_ms(self) -> int | None:
        """Return the time of the first timer."""
        return self._order[0][0] if self._order else None

    def of(self, workflow_id: str) -> list[TimerRow]:
        """Return a workflow's timers in order of time and step id."""
        return in_order(self._by_step[step_id] for step_id in self._by_workflow.get(workflow_id, ()))

    def workflow_ids(self) -> set[str]:
        """Return the ids of the workflows that have timers."""
        return set(self._by_workflow)


class MemoryTimers:
    """The part of `MemoryStore` that keeps timers."""

    _lock: threading.RLock
    _timers: KeptTimers

    def timers_due(self, now_ms: int, *, after: TimerRow | None = None, limit: int = 1_000) -> list[TimerRow]:
        """Return the timers that are due, in order of time and step id; see `TimerStore`."""
        with self._lock:
            return self._timers.due(now_ms, after, limit)

    def next_timer_ms(self) -> int | None:
        """Return when the first timer of all is due."""
        with self._lock:
            return self._timers.first_ms()

    def timers_of(self, workflow_id: str) -> list[TimerRow]:
        """Return the timers of a workflow, in order of time and step id."""
        with self._lock:
            return self._timers.of(workflow_id)


def in_order(timers: Iterable[TimerRow]) -> list[TimerRow]:
    """Return timers in order of time and step id."""
    return sorted(timers, key=_place)


def _place(timer: TimerRow) -> tuple[int, str]:
    return timer.due_at_ms, timer.step_id
