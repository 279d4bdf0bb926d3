"""Parked records of a MongoDB store: documents whose values are read only for the record itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from operator import attrgetter, itemgetter
from typing import Any, Final

from pymongo.collection import Collection as Documents

from afl.engine.model.parked import ParkedHead, ParkedRecord, ParkedUsage, ParkedWorkflow
from afl.engine.model.store import ENDED_STATUSES
from afl.stores.damaged_rows import taken
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import PARKED, STEPS, WORKFLOWS, parked_record
from afl.stores.stored_text import key_of, text_of

#: Records of the same time are in the order of the log.
_BY_PARKING: Final = {"parked_at_ms": 1, "topic": 1, "partition": 1, "offset": 1, "_id": 1}
_HEAD: Final = {"workflow_id": 1, "step_id": 1, "size_bytes": 1, "parked_at_ms": 1, "expires_at_ms": 1}
#: The most ids of one command.
_MOST_IDS: Final = 1_000


class MongoParked:
    """The part of `MongoStore` that keeps parked records."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Documents[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    def parked(
        self,
        *,
        ids: Collection[str] | None = None,
        step_id: str | None = None,
        workflow_id: str | None = None,
        limit: int = 1_000,
    ) -> list[ParkedRecord]:
        """Return parked records with their values, in order of parking; see `ParkedStore`."""
        wanted: dict[str, object] = {}
        if ids is not None:
            wanted["_id"] = {"$in": [key_of(parked_id) for parked_id in ids]}
        if step_id is not None:
            wanted["step_id"] = key_of(step_id)
        if workflow_id is not None:
            wanted["workflow_id"] = key_of(workflow_id)
        with self._reading(PARKED) as parked:
            found = parked.find(wanted).sort(list(_BY_PARKING.items())).limit(limit)
            return taken(self._mongo.name, "parked", found, parked_record, itemgetter("_id"))

    def parked_heads(self, *, expired_at_ms: int | None = None, limit: int = 1_000) -> list[ParkedHead]:
        """Return parked records without values, in order of parking; see `ParkedStore`."""
        wanted = {} if expired_at_ms is None else {"expires_at_ms": {"$lte": expired_at_ms}}
        with self._reading(PARKED) as parked:
            found = parked.find(wanted, _HEAD).sort(list(_BY_PARKING.items())).limit(limit)
            return taken(self._mongo.name, "parked", found, _head, itemgetter("_id"))

    def parked_workflows(self) -> list[ParkedWorkflow]:
        """Return the workflows that are in the store and have parked records."""
        with self._reading(PARKED) as parked:
            groups = list(parked.aggregate([{"$group": {"_id": "$workflow_id", "records": {"$sum": 1}}}]))
        counts = {group["_id"]: group["records"] for group in groups}
        revisions = {document["_id"]: document["revision"] for document in self._of(WORKFLOWS, counts, {"revision": 1})}
        known = taken(
            self._mongo.name,
            "workflow",
            revisions,
            lambda key: ParkedWorkflow(text_of(key), revisions[key], counts[key]),
            lambda key: key,
        )
        return sorted(known, key=attrgetter("workflow_id"))

    def parked_due(self, workflow_ids: Collection[str]) -> list[ParkedHead]:
        """Return the parked records whose step exists by now or whose workflow has ended; see `ParkedStore`."""
        keys = {key_of(workflow_id): None for workflow_id in workflow_ids}
        with self._reading(PARKED) as parked:
            heads = [
                document
                for some in _slices(keys)
                for document in parked.find({"workflow_id": {"$in": some}}, _HEAD).sort(list(_BY_PARKING.items()))
            ]
        heads.sort(key=itemgetter("parked_at_ms"))
        ended = {d["_id"] for d in self._of(WORKFLOWS, keys, {"status": 1}) if d["status"] in ENDED_STATUSES}
        steps = {head["step_id"]: None for head in heads}
        revisions = {document["_id"]: document["revision"] for document in self._of(STEPS, steps, {"revision": 1})}
        due = [head for head in heads if head["step_id"] in revisions or head["workflow_id"] in ended]
        return taken(
            self._mongo.name,
            "parked",
            due,
            lambda head: _head(head, 0 if head["workflow_id"] in ended else revisions[head["step_id"]]),
            itemgetter("_id"),
        )

    def parked_usage(self, workflow_id: str | None = None) -> ParkedUsage:
        """Return the amount parked for a workflow, or in all."""
        total = {"$group": {"_id": None, "records": {"$sum": 1}, "size_bytes": {"$sum": "$size_bytes"}}}
        wanted = {} if workflow_id is None else {"workflow_id": key_of(workflow_id)}
        with self._reading(PARKED) as parked:
            found = next(iter(parked.aggregate([{"$match": wanted}, total])), None)
        return ParkedUsage(0, 0) if found is None else ParkedUsage(found["records"], found["size_bytes"])

    def _of(self, collection: str, keys: Mapping[Any, object], fields: Mapping[str, int]) -> Iterator[dict[str, Any]]:
        """Return some fields of the documents with these ids."""
        with self._reading(collection) as documents:
            for some in _slices(keys):
                yield from list(documents.find({"_id": {"$in": some}}, fields))


def _head(found: Mapping[str, Any], step_revision: int = 0) -> ParkedHead:
    return ParkedHead(
        text_of(found["_id"]),
        text_of(found["workflow_id"]),
        text_of(found["step_id"]),
        # Documents of the previous release lack it.
        found.get("size_bytes", 0),
        found["parked_at_ms"],
        found["expires_at_ms"],
        step_revision,
    )


def _slices(keys: Mapping[Any, object]) -> list[list[Any]]:
    listed = list(keys)
    return [listed[start : start + _MOST_IDS] for start in range(0, len(listed), _MOST_IDS)]
