"""Histories of a SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from afl.engine.model.history import EarlyWorkflow, HistoryKind, HistoryRow
from afl.engine.model.store import Batch
from afl.stores.documents import decode_history, encode_history
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import Row
from afl.stores.sqlite.timers import whole_number

T = TypeVar("T")

_COLUMNS: Final = (
    "workflow_id, number, kind, execution, at_ms, event_id, is_pending, until_execution, expires_at_ms, document"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM history"
_INSERT: Final = f"INTO history({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT: Final = f"""
INSERT {_INSERT} ON CONFLICT(workflow_id, number) DO UPDATE SET
    is_pending = excluded.is_pending, until_execution = excluded.until_execution,
    expires_at_ms = excluded.expires_at_ms, document = excluded.document
"""
_TRIM: Final = "DELETE FROM history WHERE workflow_id = ? AND is_pending = 0 AND max(execution, until_execution) < ?"
#: The rows that the history of an execution has: its own, and events that were carried into it.
_OF_EXECUTION: Final = (
    "(?3 IS NULL OR execution = ?3 OR"
    f" (kind = '{HistoryKind.EXTERNAL_EVENT}' AND execution < ?3"
    " AND (until_execution = 0 OR until_execution >= ?3)))"
)
#: Each workflow's highest number, which one look into the index finds.
_SELECT_SIZES: Final = """
WITH wanted(id) AS (VALUES {places})
SELECT id, (SELECT max(number) FROM history WHERE workflow_id = id) FROM wanted
"""
_SELECT_KNOWN: Final = """
WITH wanted(workflow, event) AS (VALUES {places})
SELECT workflow, event FROM wanted
CROSS JOIN history h ON h.workflow_id = workflow AND h.event_id = event AND h.event_id <> ''
"""
_SELECT_EARLY: Final = """
SELECT workflow_id, count(*), min(expires_at_ms), sum(length(document)) FROM history
WHERE is_pending = 1 AND expires_at_ms > 0 AND workflow_id > ? GROUP BY workflow_id ORDER BY workflow_id LIMIT ?
"""
_SELECT_USED: Final = """
SELECT 1 FROM history WHERE workflow_id = ?1 AND number = ?2
UNION ALL SELECT 1 FROM history WHERE workflow_id = ?1 AND event_id = ?3 AND event_id <> '' LIMIT 1
"""
#: Ids of one statement, which SQLite takes as up to twice as many values. It takes at least 999.
_MOST_IDS: Final = 400


class SqliteHistory:
    """The part of `SqliteStore` that keeps histories."""

    _file: Connections

    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]:
        """Return rows with a number above `after`, in order; see `HistoryStore`."""
        query = f"{_SELECT} WHERE workflow_id = ?1 AND number > ?2 AND {_OF_EXECUTION} ORDER BY number LIMIT ?4"
        return self._file.read("history", query, (key_of(workflow_id), after, execution, limit), _history)

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        """Return the events that no wait has taken, by workflow, in order of their numbers."""
        found: dict[str, list[HistoryRow]] = {}
        for some in _slices(workflow_ids):
            places = ", ".join("?" * len(some))
            query = f"{_SELECT} WHERE is_pending = 1 AND workflow_id IN ({places}) ORDER BY workflow_id, number"
            for row in self._file.read("history", query, tuple(map(key_of, some)), _history):
                found.setdefault(row.workflow_id, []).append(row)
        return found

    def history_sizes(self, workflow_ids: Collection[str]) -> Mapping[str, int]:
        """Return the next number of each workflow's history."""
        sizes: dict[str, int] = {}
        for some in _slices(workflow_ids):
            query = _SELECT_SIZES.format(places=", ".join(["(?)"] * len(some)))
            for workflow_id, highest in self._file.read("history", query, tuple(map(key_of, some)), _highest):
                if highest is not None:
                    sizes[workflow_id] = highest + 1
        return sizes

    def known_events(self, events: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these events, each (workflow id, event id), the histories have."""
        known: set[tuple[str, str]] = set()
        for some in _slices(events):
            query = _SELECT_KNOWN.format(places=", ".join(["(?, ?)"] * len(some)))
            values = [key_of(part) for event in some for part in event]
            known.update(self._file.read("history", query, values, lambda row: (text_of(row[0]), text_of(row[1]))))
        return known

    def early_workflows(self, *, after: str = "", limit: int = 1_000) -> list[EarlyWorkflow]:
        """Return the workflow ids with pending events that have an expiry, in order of the ids."""
        return self._file.read(
            "history",
            _SELECT_EARLY,
            (key_of(after), limit),
            lambda row: EarlyWorkflow(text_of(row[0]), row[1], whole_number(row[2]), row[3]),
        )

    def _lost_histories(self, rows: Iterable[HistoryRow]) -> list[str]:
        """Return the ids of workflows of which another writer has used a number, or an event id."""
        return [
            row.workflow_id
            for row in rows
            if self._file.rows(_SELECT_USED, (key_of(row.workflow_id), row.number, key_of(row.event_id)))
        ]


class HistoryRows:
    """The encoded rows of a batch's histories."""

    __slots__ = ("_changed", "_new", "_trims")

    def __init__(self, batch: Batch) -> None:
        self._new = [_row_of(row) for row in batch.history]
        self._changed = [_row_of(row) for row in batch.history_changes]
        self._trims = [(key_of(workflow_id), execution) for workflow_id, execution in batch.history_trims.items()]

    def write(self, db: sqlite3.Connection) -> bool:
        """Write new rows; return False when one of the numbers, or of the event ids, is used."""
        if not self._new:
            return True
        return db.executemany(f"INSERT OR IGNORE {_INSERT}", self._new).rowcount == len(self._new)

    def write_changes(self, db: sqlite3.Connection) -> None:
        """Write changed rows, and delete those of earlier executions."""
        if self._changed:
            db.executemany(_UPSERT, self._changed)
        if self._trims:
            db.executemany(_TRIM, self._trims)


def _row_of(row: HistoryRow) -> Row:
    return (
        key_of(row.workflow_id),
        row.number,
        row.kind,
        row.execution,
        row.at_ms,
        key_of(row.event_id),
        row.is_pending,
        row.until_execution,
        row.expires_at_ms,
        encode_history(row),
    )


def _history(row: Row) -> HistoryRow:
    workflow_id, number, kind, execution, at_ms, event_id, is_pending, until_execution, expires_at_ms, content = row
    beside = HistoryRow(
        workflow_id=text_of(workflow_id),
        number=whole_number(number),
        kind=HistoryKind(kind),
        execution=whole_number(execution),
        at_ms=whole_number(at_ms),
        event_id=text_of(event_id),
        is_pending=bool(is_pending),
        until_execution=whole_number(until_execution),
        expires_at_ms=whole_number(expires_at_ms),
    )
    return decode_history(beside, content)


def _highest(row: Row) -> tuple[str, int | None]:
    return text_of(row[0]), None if row[1] is None else whole_number(row[1])


def _slices(ids: Collection[T]) -> Iterable[Sequence[T]]:
    listed = list(ids)
    return [listed[start : start + _MOST_IDS] for start in range(0, len(listed), _MOST_IDS)]
