"""Check and purge a MongoDB store: lists are read in pages by the keys of the collections.

Documents are deleted a slice at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, TypeVar

from pymongo import ASCENDING
from pymongo.collection import Collection

from afl.core.text.printable import printable
from afl.engine.errors import StoreCorrupt, StoreUnavailable, WorkflowConflict
from afl.engine.model.store import ENDED_STATUSES, UNFINISHED_STATUSES, WorkflowRow
from afl.engine.model.store_identity import MARKS_KEPT, StoreIdentity, new_store_id
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone
from afl.engine.model.upkeep import Burial, Created, Ended, Entry, OwnCheck, StepEntry
from afl.stores.damaged_rows import taken
from afl.stores.mongo.commits import Commits
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import (
    COLLECTION_OF,
    HISTORY,
    LOGS,
    OUTBOX,
    PARKED,
    POSITIONS,
    PROGRAMS,
    SCHEDULES,
    STEPS,
    STORE,
    TASKS,
    TIMERS,
    WORKFLOWS,
    Arrivals,
    Document,
    id_of,
)
from afl.stores.mongo.writes import Writes
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.store import KeptStep
from afl.stores.public.upkeep import UNREADABLE, PublicUpkeep
from afl.stores.stored_text import key_of, text_of

#: Documents that one command deletes: some servers compare each of a collection with each id that is named.
_IDS_AT_ONCE: Final = 100

E = TypeVar("E")
T = TypeVar("T")


class MongoUpkeep(PublicUpkeep):
    """The part of `MongoStore` that lists and deletes documents, and gives the store's identity."""

    _mongo: Connection
    _commits: Commits
    _arrivals: Arrivals

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Collection[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    @abstractmethod
    def _workflow(self, found: Document) -> WorkflowRow: ...

    @abstractmethod
    def _kept(self, found: Document) -> KeptStep: ...

    @abstractmethod
    def _entity(self, kind: type[E], found: Document) -> E: ...

    def identity(self) -> StoreIdentity:
        """Return the identity of this store; see `IdentifiedStore`."""
        with self._reading(STORE) as store, self._mongo.in_order() as session:
            found = store.find_one({"_id": "identity"}, session=session)
        if found is None or "store_id" not in found:
            raise StoreCorrupt(path=self._mongo.name, reason="the document of its identity is gone")
        return StoreIdentity(found["store_id"], tuple(found.get("marks", ())))

    def location(self) -> str:
        """Return the location of the store: servers and database, without the user."""
        return self._mongo.name

    def add_mark(self, mark: str) -> None:
        """Set a mark; see `IdentifiedStore`."""
        with self._reading(STORE) as store:
            store.update_one({"_id": "identity"}, {"$push": {"marks": {"$each": [mark], "$slice": -MARKS_KEPT}}})

    def renew_identity(self) -> StoreIdentity:
        """Give the store a new id; see `IdentifiedStore`."""
        identity = StoreIdentity(new_store_id())
        with self._reading(STORE) as store:
            store.update_one({"_id": "identity"}, {"$set": {"store_id": identity.id, "marks": []}})
        return identity

    def _taken(self, what: str, found: Iterable[Document], take: Callable[[Document], T]) -> list[T]:
        """Return the result of `take` for each document. Raises StoreCorrupt, which names the document."""
        return taken(self._mongo.name, what, found, take, itemgetter("_id"))

    def workflow_ids(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have a row, in order."""
        with self._reading(WORKFLOWS) as workflows:
            found = workflows.find({"_id": {"$gt": key_of(after)}}, {"_id": 1}).sort("_id", ASCENDING).limit(limit)
            return self._taken("workflow", found, id_of)

    def check_itself(self) -> OwnCheck:
        """Have the server check each collection, if it permits this user and supports it."""
        problems: list[str] = []
        left_out: list[str] = []
        own = {WORKFLOWS, STEPS, OUTBOX, POSITIONS, PARKED, PROGRAMS, TIMERS, HISTORY, SCHEDULES}
        for name in sorted({*own, *COLLECTION_OF.values()}):
            try:
                with self._mongo.speaking():
                    reported = self._mongo.validate(name)
            except StoreCorrupt as error:
                problems.append(f"collection {name}: {printable(error.reason)}")
            except StoreUnavailable as error:
                left_out.append(f"collection {name}: {printable(error.reason)}")
            else:
                problems += [f"collection {name}: {printable(text)}" for text in reported]
        return OwnCheck(problems=tuple(problems), left_out=tuple(left_out))

    def orphans(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have steps, timers or a history, and no row; see `Upkeep`."""
        known = {"from": WORKFLOWS, "localField": "_id", "foreignField": "_id", "as": "known"}
        group: dict[str, Any] = {"$group": {"_id": "$workflow_id"}}
        late = {"$match": {"$or": [{"is_pending": False}, {"expires_at_ms": 0}]}}
        stages: list[dict[str, Any]] = [
            group,
            {"$unionWith": {"coll": TIMERS, "pipeline": [group]}},
            {"$unionWith": {"coll": HISTORY, "pipeline": [late, group]}},
            {"$group": {"_id": "$_id"}},
            {"$lookup": known},
            {"$match": {"known": []}},
            {"$sort": {"_id": 1}},
            {"$limit": limit},
        ]
        with self._reading(STEPS) as steps:
            return self._taken("step of workflow", steps.aggregate(stages), id_of)

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        """Return all steps of a workflow; see `Upkeep`."""
        with self._reading(STEPS) as steps:
            found = list(steps.find({"workflow_id": key_of(workflow_id)}).sort("number", ASCENDING))
        return self._taken("step", found, self._step_entry)

    def _step_entry(self, found: Document) -> StepEntry:
        step_id = text_of(found["_id"])
        try:
            return StepEntry(step_id, self._kept(found).document)
        except UNREADABLE as error:
            return StepEntry(step_id, None, error)

    def examine(self, kind: type, *, after: str = "", limit: int = 1_000) -> list[Entry]:
        """Return the entities of a kind by their keys."""
        with self._reading(COLLECTION_OF[kind]) as entities:
            found = list(entities.find({"_id": {"$gt": key_of(after)}}).sort("_id", ASCENDING).limit(limit))
        return self._taken(COLLECTION_OF[kind], found, lambda document: self._examined(kind, document))

    def _examined(self, kind: type, found: Document) -> Entry:
        key = text_of(found["_id"])
        try:
            return Entry(key, self._entity(kind, found))
        except UNREADABLE as error:
            return Entry(key, None, error)

    def ended_workflows(self, *, created_before_ms: int, after: Ended | None = None, limit: int = 1_000) -> list[Ended]:
        """Return workflows that have ended, in order of creation; see `Upkeep`."""
        wanted: dict[str, Any] = {
            "status": {"$in": sorted(ENDED_STATUSES)},
            "created_at_ms": {"$lt": created_before_ms},
        }
        if after is not None:
            wanted["$or"] = _behind(after)
        with self._reading(WORKFLOWS) as workflows:
            oldest = workflows.find(wanted, {"created_at_ms": 1}).sort(
                [("created_at_ms", ASCENDING), ("_id", ASCENDING)]
            )
            return self._taken(
                "workflow", oldest.limit(limit), lambda found: Ended(found["created_at_ms"], text_of(found["_id"]))
            )

    def unfinished_workflows(
        self, *, created_before_ms: int, after: Created | None = None, limit: int = 1_000
    ) -> list[Created]:
        """Return workflows that have not ended, in order of creation; see `Upkeep`."""
        wanted: dict[str, Any] = {
            "status": {"$in": sorted(UNFINISHED_STATUSES)}, "created_at_ms": {"$lt": created_before_ms}
        }  # fmt: skip
        if after is not None:
            wanted["$or"] = _behind(after)
        with self._reading(WORKFLOWS) as workflows:
            oldest = workflows.find(wanted, {"created_at_ms": 1}).sort(
                [("created_at_ms", ASCENDING), ("_id", ASCENDING)]
            )
            return self._taken(
                "workflow", oldest.limit(limit), lambda found: Created(found["created_at_ms"], text_of(found["_id"]))
            )

    def load_workflows(self, workflow_ids: Sequence[str]) -> list[WorkflowRow]:
        """Return the rows of these workflows; see `Upkeep`."""
        with self._reading(WORKFLOWS) as workflows:
            found = workflows.find({"_id": {"$in": list(map(key_of, workflow_ids))}})
            return self._taken("workflow", found, self._workflow)

    def waiting_keys(self) -> set[bytes]:
        """Return the keys of the records that wait in the outbox."""
        with self._reading(OUTBOX) as outbox:
            keys = {found.get("key") for found in outbox.find({}, {"key": 1})}
        return {bytes(key) for key in keys if key is not None}

    def bury(self, burials: Sequence[Burial], *, limit: int) -> list[str]:  # noqa: ARG002 - the port's signature
        """Replace workflows by tombstones; see `Upkeep`. Their other documents are left to `delete_rows`."""
        lost: set[str] = set()
        while wanted := [burial for burial in burials if burial.tombstone.workflow_id not in lost]:
            try:
                with self._mongo.speaking():
                    self._commits.write(Writes.of_burials(wanted, self._arrivals), 0)
                break
            except WorkflowConflict as conflict:
                # Those that have changed since stay, and the others are written without them.
                lost.update(conflict.workflow_ids)
        return ["" if burial.tombstone.workflow_id in lost else PURGING for burial in burials]

    def delete_rows(self, workflow_ids: Sequence[str], *, limit: int) -> int:
        """Delete documents of workflows that have no rows of their own any more; see `Upkeep`.

        A command for each hundred documents of a collection: an interrupted slice leaves the rest for the next.
        """
        keys = list(map(key_of, workflow_ids))
        with self._reading(WORKFLOWS) as workflows:
            living = {found["_id"] for found in workflows.find({"_id": {"$in": keys}}, {"_id": 1})}
        left = limit
        for collection, wanted in _rows_of([key for key in keys if key not in living]):
            if not left:
                break
            with self._reading(collection) as documents:
                ids = [found["_id"] for found in documents.find(wanted, {"_id": 1}).limit(left)]
                for first in range(0, len(ids), _IDS_AT_ONCE):
                    left -= documents.delete_many({"_id": {"$in": ids[first : first + _IDS_AT_ONCE]}}).deleted_count
        return limit - left

    def mark_purged(self, workflow_ids: Sequence[str]) -> None:
        """Set tombstones to state `purged`; see `Upkeep`."""
        with self._reading(COLLECTION_OF[Tombstone]) as stones:
            found = list(stones.find({"_id": {"$in": list(map(key_of, workflow_ids))}}))
        marked = [replace(self._entity(Tombstone, document), state=PURGED) for document in found]
        if marked:
            with self._mongo.speaking():
                self._commits.write(Writes.of_tombstones(marked, self._arrivals), 0)

    def delete_tombstones(self, workflow_ids: Sequence[str]) -> int:
        """Delete tombstones; return how many there were."""
        with self._reading(COLLECTION_OF[Tombstone]) as stones:
            return stones.delete_many({"_id": {"$in": list(map(key_of, workflow_ids))}}).deleted_count

    def give_back(self, *, limit: int) -> bool:  # noqa: ARG002 - the port's signature
        """Return False: the server uses the space of deleted documents again, and its `compact` gives it back."""
        return False

    def tombstones(self, *, state: str, purged_before_ms: int | None = None, limit: int = 1_000) -> list[Tombstone]:
        """Return tombstones in a state, the oldest first."""
        wanted: dict[str, Any] = {"state": state}
        if purged_before_ms is not None:
            wanted["purged_at_ms"] = {"$lt": purged_before_ms}
        with self._reading(COLLECTION_OF[Tombstone]) as stones:
            oldest = stones.find(wanted).sort([("purged_at_ms", ASCENDING), ("_id", ASCENDING)])
            found = list(oldest.limit(limit))
        return [self._entity(Tombstone, document) for document in found]


def _rows_of(keys: Sequence[str | bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the collections, with what is true of the documents of workflows with these keys."""
    if not keys:
        return
    named = {"workflow_id": {"$in": list(keys)}}
    # Ids that begin with a step's: ";" follows ":".
    ids = list(map(text_of, keys))
    begins = {"$or": [{"_id": {"$gte": key_of(f"{found}:"), "$lt": key_of(f"{found};")}} for found in ids]}
    yield STEPS, named
    yield TASKS, begins
    yield LOGS, begins
    yield TIMERS, named
    yield HISTORY, named
    yield PARKED, named
    yield COLLECTION_OF[EventDefinition], named


def _behind(after: Ended | Created) -> list[Document]:
    """Return what is true of the workflows behind this one, in order of creation."""
    return [
        {"created_at_ms": {"$gt": after.created_at_ms}},
        {"created_at_ms": after.created_at_ms, "_id": {"$gt": key_of(after.workflow_id)}},
    ]
