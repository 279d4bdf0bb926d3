"""Histories of a MongoDB store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, Final

from pymongo import ASCENDING
from pymongo.collection import Collection as Documents

from afl.engine.model.history import EarlyWorkflow, HistoryKind, HistoryRow
from afl.stores.damaged_rows import taken
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import HISTORY, history_of, whole_number
from afl.stores.stored_text import key_of, text_of

#: The most ids of one command.
_MOST_IDS: Final = 1_000
_BY_NUMBER: Final = [("workflow_id", ASCENDING), ("number", ASCENDING)]


class MongoHistory:
    """The part of `MongoStore` that keeps histories."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Documents[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]:
        """Return rows with a number above `after`, in order; see `HistoryStore`."""
        wanted: dict[str, object] = {"workflow_id": key_of(workflow_id), "number": {"$gt": after}}
        if execution is not None:
            carried = {
                "kind": HistoryKind.EXTERNAL_EVENT.value,
                "execution": {"$lt": execution},
                "$or": [{"until_execution": 0}, {"until_execution": {"$gte": execution}}],
            }
            wanted["$or"] = [{"execution": execution}, carried]
        return self._history_in(wanted, limit)

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        """Return the events that no wait has taken, by workflow, in order of their numbers."""
        pending: dict[str, list[HistoryRow]] = {}
        keys = [key_of(workflow_id) for workflow_id in workflow_ids]
        for some in _slices(keys):
            for row in self._history_in({"workflow_id": {"$in": some}, "is_pending": True}):
                pending.setdefault(row.workflow_id, []).append(row)
        return pending

    def history_sizes(self, workflow_ids: Collection[str]) -> Mapping[str, int]:
        """Return the next number of each workflow's history."""
        sizes: dict[str, int] = {}
        # Groups of the first document in the order of an index are found by one look into it each.
        stages: list[dict[str, Any]] = [
            {"$sort": {"workflow_id": -1, "number": -1}},
            {"$group": {"_id": "$workflow_id", "highest": {"$first": "$number"}}},
        ]
        for some in _slices([key_of(workflow_id) for workflow_id in workflow_ids]):
            with self._reading(HISTORY) as history:
                found = history.aggregate([{"$match": {"workflow_id": {"$in": some}}}, *stages])
                sizes.update(
                    taken(
                        self._mongo.name,
                        "history",
                        found,
                        lambda group: (text_of(group["_id"]), group["highest"] + 1),
                        itemgetter("_id"),
                    )
                )
        return sizes

    def known_events(self, events: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these events, each (workflow id, event id), the histories have."""
        known: set[tuple[str, str]] = set()
        wanted = [
            {"workflow_id": key_of(workflow_id), "event_id": key_of(event_id)} for workflow_id, event_id in events
        ]
        for some in _slices(wanted):
            with self._reading(HISTORY) as history:
                found = history.find({"$or": some, "event_id": {"$exists": True}}, {"workflow_id": 1, "event_id": 1})
                known.update((text_of(row["workflow_id"]), text_of(row["event_id"])) for row in found)
        return known

    def early_workflows(self, *, after: str = "", limit: int = 1_000) -> list[EarlyWorkflow]:
        """Return the workflow ids with pending events that have an expiry, in order of the ids."""
        wanted = {"is_pending": True, "expires_at_ms": {"$gt": 0}, "workflow_id": {"$gt": key_of(after)}}
        early = {
            "_id": "$workflow_id",
            "events": {"$sum": 1},
            "expires_at_ms": {"$min": "$expires_at_ms"},
            "size_bytes": {"$sum": "$size_bytes"},
        }
        stages: list[dict[str, Any]] = [{"$match": wanted}, {"$group": early}, {"$sort": {"_id": 1}}, {"$limit": limit}]
        with self._reading(HISTORY) as history:
            return taken(
                self._mongo.name,
                "history",
                history.aggregate(stages),
                lambda group: EarlyWorkflow(
                    text_of(group["_id"]), group["events"], whole_number(group["expires_at_ms"]), group["size_bytes"]
                ),
                itemgetter("_id"),
            )

    def _history_in(self, wanted: Mapping[str, object], limit: int = 0) -> list[HistoryRow]:
        with self._reading(HISTORY) as history:
            found = history.find(wanted).sort(_BY_NUMBER).limit(limit)
            return taken(self._mongo.name, "history", found, history_of, itemgetter("_id"))


def _slices(wanted: list[Any]) -> list[list[Any]]:
    return [wanted[start : start + _MOST_IDS] for start in range(0, len(wanted), _MOST_IDS)]
