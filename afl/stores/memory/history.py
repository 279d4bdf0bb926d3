"""Histories of the store in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, cast

from afl.engine.model.history import EarlyWorkflow, HistoryRow
from afl.engine.types import Value, copy_value
from afl.stores.documents import encode_history

if TYPE_CHECKING:
    from afl.engine.model.store import Batch


class KeptHistory:
    """The history of one workflow. Not safe for threads: the store's lock guards it."""

    __slots__ = ("_early_bytes", "_event_ids", "pending", "rows")

    def __init__(self) -> None:
        #: By number.
        self.rows: dict[int, HistoryRow] = {}
        #: Event id to the number of its row.
        self._event_ids: dict[str, int] = {}
        #: The sizes of early events' rows, by number.
        self._early_bytes: dict[int, int] = {}
        #: The numbers of events that no wait has taken.
        self.pending: set[int] = set()

    def put(self, row: HistoryRow) -> None:
        """Write a row in the place of the one with its number."""
        self.rows[row.number] = row
        if row.event_id:
            self._event_ids[row.event_id] = row.number
        if row.is_early:
            self._early_bytes[row.number] = len(encode_history(row))
        else:
            self._early_bytes.pop(row.number, None)
        if row.is_pending:
            self.pending.add(row.number)
        else:
            self.pending.discard(row.number)

    def has(self, row: HistoryRow) -> bool:
        """Say whether the number or the event id of a new row is used."""
        return row.number in self.rows or self.has_event(row.event_id)

    @property
    def early_bytes(self) -> int:
        """The bytes of the early events."""
        return sum(self._early_bytes.values())

    @property
    def is_early(self) -> bool:
        """Whether all rows are events that wait for their workflow to be started."""
        return all(row.is_early for row in self.rows.values())

    def has_event(self, event_id: str) -> bool:
        """Say whether there is an event with this id."""
        return event_id in self._event_ids

    def trim(self, execution: int) -> None:
        """Delete what only the histories of earlier executions have."""
        gone = [n for n, row in self.rows.items() if not row.is_pending and row.last_execution < execution]
        self._remove(gone)

    def remove_some(self, limit: int) -> int:
        """Delete up to `limit` rows; return how many."""
        numbers = list(islice(self.rows, limit))
        self._remove(numbers)
        return len(numbers)

    def _remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            row = self.rows.pop(number)
            self._event_ids.pop(row.event_id, None)
            self._early_bytes.pop(number, None)
            self.pending.discard(number)


class MemoryHistory:
    """The part of `MemoryStore` that keeps histories."""

    _lock: threading.RLock
    _histories: dict[str, KeptHistory]

    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]:
        """Return rows with a number above `after`, in order; see `HistoryStore`."""
        with self._lock:
            kept = self._histories.get(workflow_id)
            numbers = sorted(number for number in kept.rows if number > after) if kept else []
            rows = [kept.rows[number] for number in numbers] if kept else []
        found = (row for row in rows if execution is None or row.is_of(execution))
        return [_own_copy(row) for row in islice(found, limit)]

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        """Return the events that no wait has taken, by workflow, in order of their numbers."""
        with self._lock:
            found = {workflow_id: self._histories[workflow_id] for workflow_id in workflow_ids & self._histories.keys()}
            return {
                workflow_id: [_own_copy(kept.rows[number]) for number in sorted(kept.pending)]
                for workflow_id, kept in found.items()
                if kept.pending
            }

    def history_sizes(self, workflow_ids: Collection[str]) -> Mapping[str, int]:
        """Return the next number of each workflow's history."""
        with self._lock:
            found = {workflow_id: self._histories.get(workflow_id) for workflow_id in workflow_ids}
            return {workflow_id: max(kept.rows) + 1 for workflow_id, kept in found.items() if kept}

    def known_events(self, events: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these events, each (workflow id, event id), the histories have."""
        with self._lock:
            return {event for event in events if (kept := self._histories.get(event[0])) and kept.has_event(event[1])}

    def early_workflows(self, *, after: str = "", limit: int = 1_000) -> list[EarlyWorkflow]:
        """Return the workflow ids with pending events that have an expiry, in order of the ids."""
        found: list[EarlyWorkflow] = []
        with self._lock:
            for workflow_id in sorted(workflow_id for workflow_id in self._histories if workflow_id > after):
                kept = self._histories[workflow_id]
                expiries = [at_ms for number in kept.pending if (at_ms := kept.rows[number].expires_at_ms)]
                if expiries:
                    found.append(EarlyWorkflow(workflow_id, len(expiries), min(expiries), kept.early_bytes))
                if len(found) >= limit:
                    break
        return found[:limit]

    def _lost_histories(self, rows: Iterable[HistoryRow]) -> list[str]:
        """Return the ids of workflows of which another writer has used a number, or an event id."""
        return [row.workflow_id for row in rows if (kept := self._histories.get(row.workflow_id)) and kept.has(row)]

    def _write_history(self, batch: Batch) -> None:
        for row in (*batch.history, *batch.history_changes):
            kept = self._histories.get(row.workflow_id)
            if kept is None:
                kept = self._histories[row.workflow_id] = KeptHistory()
            kept.put(row)
        for workflow_id, execution in batch.history_trims.items():
            trimmed = self._histories.get(workflow_id)
            if trimmed is not None:
                trimmed.trim(execution)
                if not trimmed.rows:
                    del self._histories[workflow_id]


def _own_copy(row: HistoryRow) -> HistoryRow:
    return row._replace(value=cast(Value, copy_value(row.value)))
