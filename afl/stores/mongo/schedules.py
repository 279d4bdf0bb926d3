"""Schedules of a MongoDB store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any

from pymongo import ASCENDING
from pymongo.collection import Collection as Documents

from afl.engine.model.schedules import ScheduleRow
from afl.stores.damaged_rows import taken
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import SCHEDULES, schedule_of
from afl.stores.stored_text import key_of


class MongoSchedules:
    """The part of `MongoStore` that keeps schedules."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Documents[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    def schedule(self, schedule_id: str) -> ScheduleRow | None:
        """Return a schedule."""
        found = self._schedules_in({"_id": key_of(schedule_id)}, ["_id"], 1)
        return found[0] if found else None

    def schedules(self, *, after: str = "", limit: int = 1_000) -> list[ScheduleRow]:
        """Return schedules in order of their ids, behind `after`."""
        return self._schedules_in({"_id": {"$gt": key_of(after)}}, ["_id"], limit)

    def schedules_due(self, now_ms: int, *, limit: int = 1_000) -> list[ScheduleRow]:
        """Return those whose time has come, in order of time and id."""
        return self._schedules_in({"next_at_ms": {"$lte": now_ms}}, ["next_at_ms", "_id"], limit)

    def next_schedule_ms(self) -> int | None:
        """Return when the first is due; None when none will be."""
        found = self._schedules_in({"next_at_ms": {"$ne": None}}, ["next_at_ms"], 1)
        return found[0].next_at_ms if found else None

    def _schedules_in(self, wanted: Mapping[str, object], order: list[str], limit: int) -> list[ScheduleRow]:
        with self._reading(SCHEDULES) as schedules:
            found = schedules.find(wanted).sort([(name, ASCENDING) for name in order]).limit(limit)
            return taken(self._mongo.name, "schedule", found, schedule_of, itemgetter("_id"))
