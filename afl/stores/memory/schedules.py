"""Schedules of the store in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from afl.engine.model.schedules import ScheduleChange, ScheduleRow
from afl.engine.types import copy_values

if TYPE_CHECKING:
    from collections.abc import Iterable


class MemorySchedules:
    """The part of `MemoryStore` that keeps schedules: few, so that each list is made from all of them."""

    _lock: threading.RLock
    _schedules: dict[str, ScheduleRow]

    def schedule(self, schedule_id: str) -> ScheduleRow | None:
        """Return a schedule."""
        with self._lock:
            row = self._schedules.get(schedule_id)
        return None if row is None else _own_copy(row)

    def schedules(self, *, after: str = "", limit: int = 1_000) -> list[ScheduleRow]:
        """Return schedules in order of their ids, behind `after`."""
        with self._lock:
            found = sorted(schedule_id for schedule_id in self._schedules if schedule_id > after)
            return _own_copies(self._schedules[schedule_id] for schedule_id in found[:limit])

    def schedules_due(self, now_ms: int, *, limit: int = 1_000) -> list[ScheduleRow]:
        """Return those whose time has come, in order of time and id."""
        with self._lock:
            due = sorted((at_ms, row.id) for at_ms, row in self._timed() if at_ms <= now_ms)
            return _own_copies(self._schedules[schedule_id] for _, schedule_id in due[:limit])

    def next_schedule_ms(self) -> int | None:
        """Return when the first is due; None when none will be."""
        with self._lock:
            return min((at_ms for at_ms, _ in self._timed()), default=None)

    def _timed(self) -> list[tuple[int, ScheduleRow]]:
        return [(row.next_at_ms, row) for row in self._schedules.values() if row.next_at_ms is not None]

    def _lost_schedules(self, changes: Sequence[ScheduleChange]) -> list[str]:
        """Return the ids of schedules that are not at the revision which a change expects."""
        found = self._schedules
        return [
            change.id
            for change in changes
            if (found[change.id].revision if change.id in found else 0) != change.expected_revision
        ]

    def _write_schedules(self, changes: Sequence[ScheduleChange]) -> None:
        for change in changes:
            if change.row is None:
                self._schedules.pop(change.id, None)
            else:
                self._schedules[change.id] = change.row


def _own_copy(row: ScheduleRow) -> ScheduleRow:
    return row._replace(document=copy_values(row.document))


def _own_copies(rows: Iterable[ScheduleRow]) -> list[ScheduleRow]:
    return [_own_copy(row) for row in rows]
