"""Timers of a SQLite store."""

from __future__ import annotations

import sqlite3
from typing import Final

from afl.engine.model.store import Batch
from afl.engine.model.timers import TimerKind, TimerRow
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import Row

_SELECT: Final = "SELECT step_id, workflow_id, kind, due_at_ms FROM timer"
_UPSERT: Final = (
    "INSERT INTO timer(step_id, workflow_id, kind, due_at_ms) VALUES (?, ?, ?, ?) ON CONFLICT(step_id) DO UPDATE"
    " SET workflow_id = excluded.workflow_id, kind = excluded.kind, due_at_ms = excluded.due_at_ms"
)
#: Before all timers, in their order.
_START: Final = (-(1 << 63), "")


class SqliteTimers:
    """The part of `SqliteStore` that keeps timers."""

    _file: Connections

    def timers_due(self, now_ms: int, *, after: TimerRow | None = None, limit: int = 1_000) -> list[TimerRow]:
        """Return the timers that are due, in order of time and step id; see `TimerStore`."""
        start = _START if after is None else (after.due_at_ms, key_of(after.step_id))
        query = f"{_SELECT} WHERE due_at_ms <= ? AND (due_at_ms, step_id) > (?, ?) ORDER BY due_at_ms, step_id LIMIT ?"
        return self._file.read("timer", query, (now_ms, *start, limit), _timer)

    def next_timer_ms(self) -> int | None:
        """Return when the first timer of all is due: the first entry of the index."""
        found = self._file.read("timer", "SELECT min(due_at_ms) FROM timer", (), _time)
        return found[0]

    def timers_of(self, workflow_id: str) -> list[TimerRow]:
        """Return the timers of a workflow, in order of time and step id."""
        query = f"{_SELECT} WHERE workflow_id = ? ORDER BY due_at_ms, step_id"
        return self._file.read("timer", query, (key_of(workflow_id),), _timer)


def write_timers(db: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch's timers, and delete those that are done with."""
    if batch.timers_done:
        db.executemany("DELETE FROM timer WHERE step_id = ?", [(key_of(step_id),) for step_id in batch.timers_done])
    if batch.timers:
        rows = [(key_of(timer[0]), key_of(timer[1]), timer[2], timer[3]) for timer in batch.timers]
        db.executemany(_UPSERT, rows)


def _timer(row: Row) -> TimerRow:
    step_id, workflow_id, kind, due_at_ms = row
    return TimerRow(text_of(step_id), text_of(workflow_id), TimerKind(kind), whole_number(due_at_ms))


def _time(row: Row) -> int | None:
    return None if row[0] is None else whole_number(row[0])


def whole_number(value: object) -> int:
    """Return an integer of a row. Raises TypeError for another value: a SQLite column may hold any type."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
