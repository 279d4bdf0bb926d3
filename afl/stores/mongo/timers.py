"""Timers of a MongoDB store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, Final

from pymongo import ASCENDING
from pymongo.collection import Collection as Documents

from afl.engine.model.timers import TimerRow
from afl.stores.damaged_rows import taken
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import TIMERS, timer_of
from afl.stores.stored_text import key_of

_BY_TIME: Final = [("due_at_ms", ASCENDING), ("_id", ASCENDING)]


class MongoTimers:
    """The part of `MongoStore` that keeps timers."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Documents[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    def timers_due(self, now_ms: int, *, after: TimerRow | None = None, limit: int = 1_000) -> list[TimerRow]:
        """Return the timers that are due, in order of time and step id; see `TimerStore`."""
        if after is None:
            return self._timers_in({"due_at_ms": {"$lte": now_ms}}, limit)
        # Two reads, each along the index: first the others of the same time.
        same = {"due_at_ms": after.due_at_ms, "_id": {"$gt": key_of(after.step_id)}}
        found = self._timers_in(same, limit) if after.due_at_ms <= now_ms else []
        if len(found) < limit:
            found += self._timers_in({"due_at_ms": {"$gt": after.due_at_ms, "$lte": now_ms}}, limit - len(found))
        return found

    def next_timer_ms(self) -> int | None:
        """Return when the first timer of all is due: the first entry of the index."""
        found = self._timers_in({}, 1)
        return found[0].due_at_ms if found else None

    def timers_of(self, workflow_id: str) -> list[TimerRow]:
        """Return the timers of a workflow, in order of time and step id."""
        return self._timers_in({"workflow_id": key_of(workflow_id)}, 0)

    def _timers_in(self, wanted: Mapping[str, object], limit: int) -> list[TimerRow]:
        with self._reading(TIMERS) as timers:
            found = timers.find(wanted).sort(_BY_TIME).limit(limit)
            return taken(self._mongo.name, "timer", found, timer_of, itemgetter("_id"))
