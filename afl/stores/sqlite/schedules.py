"""Schedules of a SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from afl.engine.model.schedules import ScheduleChange, ScheduleRow
from afl.stores.documents import decode_schedule, encode_schedule
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import Row
from afl.stores.sqlite.timers import whole_number

_SELECT: Final = "SELECT id, revision, next_at_ms, document FROM schedule"
_INSERT: Final = "INSERT OR IGNORE INTO schedule(revision, next_at_ms, document, id) VALUES (?, ?, ?, ?)"
_UPDATE: Final = "UPDATE schedule SET revision = ?, next_at_ms = ?, document = ? WHERE id = ? AND revision = ?"


class SqliteSchedules:
    """The part of `SqliteStore` that keeps schedules."""

    _file: Connections

    def schedule(self, schedule_id: str) -> ScheduleRow | None:
        """Return a schedule."""
        found = self._file.read("schedule", f"{_SELECT} WHERE id = ?", (key_of(schedule_id),), _schedule)
        return found[0] if found else None

    def schedules(self, *, after: str = "", limit: int = 1_000) -> list[ScheduleRow]:
        """Return schedules in order of their ids, behind `after`."""
        query = f"{_SELECT} WHERE id > ? ORDER BY id LIMIT ?"
        return self._file.read("schedule", query, (key_of(after), limit), _schedule)

    def schedules_due(self, now_ms: int, *, limit: int = 1_000) -> list[ScheduleRow]:
        """Return those whose time has come, in order of time and id."""
        query = f"{_SELECT} WHERE next_at_ms <= ? ORDER BY next_at_ms, id LIMIT ?"
        return self._file.read("schedule", query, (now_ms, limit), _schedule)

    def next_schedule_ms(self) -> int | None:
        """Return when the first is due; None when none will be."""
        query = "SELECT next_at_ms FROM schedule WHERE next_at_ms IS NOT NULL ORDER BY next_at_ms LIMIT 1"
        found = self._file.read("schedule", query, (), lambda row: whole_number(row[0]))
        return found[0] if found else None

    def _lost_schedules(self, changes: Sequence[ScheduleChange]) -> list[str]:
        """Return the ids of schedules that are not at the revision which a change expects."""
        lost = []
        for change in changes:
            found = self._file.rows("SELECT revision FROM schedule WHERE id = ?", (key_of(change.id),))
            if (found[0][0] if found else 0) != change.expected_revision:
                lost.append(change.id)
        return lost


class ScheduleRows:
    """The encoded changes of a batch's schedules."""

    __slots__ = ("_changed", "_deleted", "_new")

    def __init__(self, changes: Sequence[ScheduleChange]) -> None:
        self._new: list[Row] = []
        self._changed: list[Row] = []
        self._deleted: list[Row] = []
        for change in changes:
            key, row = key_of(change.id), change.row
            if row is None:
                self._deleted.append((key, change.expected_revision))
                continue
            values = (row.revision, row.next_at_ms, encode_schedule(row.document), key)
            if change.expected_revision == 0:
                self._new.append(values)
            else:
                self._changed.append((*values, change.expected_revision))

    def write(self, db: sqlite3.Connection) -> bool:
        """Write the changes by comparing; return False when one of the schedules is not as expected."""
        for statement, values in (
            (_INSERT, self._new),
            (_UPDATE, self._changed),
            ("DELETE FROM schedule WHERE id = ? AND revision = ?", self._deleted),
        ):
            if values and db.executemany(statement, values).rowcount < len(values):
                return False
        return True


def _schedule(row: Row) -> ScheduleRow:
    schedule_id, revision, next_at_ms, content = row
    return ScheduleRow(
        text_of(schedule_id),
        whole_number(revision),
        None if next_at_ms is None else whole_number(next_at_ms),
        decode_schedule(content),
    )
