"""The store in a MongoDB database: durable, shared by processes on many machines. pymongo stays in this adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from pymongo import ASCENDING, DESCENDING, MongoClient, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from afl.core.clock import Clock, SystemClock
from afl.core.probes import Probe, no_probe
from afl.engine.errors import StoreCorrupt, WorkflowConflict
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import (
    Batch,
    Position,
    StepDocument,
    StoredOutboxRecord,
    StoredStep,
    WorkflowRow,
)
from afl.stores.damaged_rows import damaged, taken
from afl.stores.documents import DAMAGE
from afl.stores.mongo.commits import (
    COMMIT_TIMEOUT_S,
    LEASE_MS,
    Commits,
    DocumentCommits,
    TransactionCommits,
)
from afl.stores.mongo.connection import DEFAULT_URL, Connection, database_of
from afl.stores.mongo.documents import (
    COLLECTION_OF,
    OUTBOX,
    POSITIONS,
    PROGRAMS,
    STEPS,
    STORE,
    TASKS,
    WORKFLOWS,
    Arrivals,
    Document,
    entity_id,
    entity_of,
    entity_values,
    id_of,
    kept_step,
    outbox_record,
    position_of,
    program_annotations,
    program_content,
    step_document,
    workflow_row,
)
from afl.stores.mongo.history import MongoHistory
from afl.stores.mongo.lists import MongoLists
from afl.stores.mongo.lock import StoreLock
from afl.stores.mongo.parked import MongoParked
from afl.stores.mongo.refusals import second_running
from afl.stores.mongo.schedules import MongoSchedules
from afl.stores.mongo.tasks import BY_ARRIVAL, MongoTasks
from afl.stores.mongo.timers import MongoTimers
from afl.stores.mongo.upkeep import MongoUpkeep
from afl.stores.mongo.writes import Writes
from afl.stores.public.persistence import IterationChanges
from afl.stores.public.store import ENTITY_TABLES, KeptStep, PublicRows, PublicStore
from afl.stores.public.store_checks import check_changes, check_keys, check_values
from afl.stores.stored_text import key_of, text_of

E = TypeVar("E")

_BY_CREATION = [("number", ASCENDING)]


class DatabaseConfig(Protocol):
    """The place of a database; `afl.config.MongoDBConfig` has this interface."""

    @property
    def database(self) -> str: ...
    def connection_string(self) -> str: ...


class MongoStore(
    MongoParked, MongoTimers, MongoHistory, MongoSchedules, MongoLists, MongoTasks, MongoUpkeep, PublicStore
):
    """A store in one database of a MongoDB server, 8.0 or newer.

    On a replica set, even with a single node, a commit is one transaction and needs two commands, and one more for
    outbox records. On a standalone server it is a commit document that is applied after it is written; see
    `mongo_commits`. Either way it is on disk, of a majority, when the call returns, and the later of two writers of a
    workflow gets a conflict. Any number of threads and processes may share a database.

    `database_name` may be part of the connection string; `prefix` is the topic prefix that the store belongs to. A
    client that is passed in is used and not closed. `commit_lease_ms` is the time in which only its writer may apply a
    commit document.

    Opening raises StoreUnavailable and ForeignStore, which name the server without its user. Any call may raise
    StoreUnavailable (not reachable, not permitted) and StoreCorrupt, and DocumentTooLarge for data that does not fit
    into a document of MongoDB.
    """

    def __init__(  # noqa: PLR0913 - a public signature, settings by name
        self,
        connection_string: str = "",
        database_name: str = "",
        create_indexes: bool = True,
        client: MongoClient[dict[str, Any]] | None = None,
        *,
        prefix: str = "afl.",
        create: bool = True,
        clock: Clock | None = None,
        timeout_s: float = 30.0,
        commit_lease_ms: int = LEASE_MS,
        probe: Probe = no_probe,
    ) -> None:
        url = connection_string or DEFAULT_URL
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._mongo = Connection(
            url,
            database_name or database_of(url),
            prefix,
            create=create,
            create_indexes=create_indexes,
            client=client,
            timeout_s=timeout_s,
        )
        self._lock = StoreLock(self._mongo, COMMIT_TIMEOUT_S)
        self._arrivals = Arrivals()
        self._commits: Commits
        if self._mongo.has_transactions:
            self._commits = TransactionCommits(self._mongo, probe, COMMIT_TIMEOUT_S)
        else:
            documents = DocumentCommits(self._mongo, probe, COMMIT_TIMEOUT_S, commit_lease_ms)
            self._commits = documents
            try:
                with self._mongo.speaking():
                    documents.open()
            except BaseException:
                self._mongo.close()
                raise

    @classmethod
    def from_config(cls, config: DatabaseConfig, *, prefix: str = "afl.", clock: Clock | None = None) -> MongoStore:
        """Open the store in the database that a configuration names."""
        return cls(config.connection_string(), config.database, prefix=prefix, clock=clock)

    # The interface for the engine.

    def commit_batch(self, batch: Batch) -> int:
        """Write all of the batch; see `Store`. In this order:
          1. encode everything: a value that cannot be stored then costs the server nothing,
          2. reserve numbers for the outbox records,
          3. write and commit, as `TransactionCommits` or `DocumentCommits` says.

        A crash between 2 and 3, and a refused batch, leave unused numbers; no number is used twice.
        """
        return self.stage_batch(batch)()

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        """Do 1 of `commit_batch`, and return what does the rest: it waits for the server."""
        if not batch.values_checked:
            check_values(batch)
        check_changes(batch.changes)
        check_keys(batch)
        return partial(self._write, batch, Writes.of_batch(batch, self._arrivals))

    def _write(self, batch: Batch, writes: Writes) -> int:
        with self._mongo.speaking():
            first_sequence = self._numbers(len(batch.outbox))
            if writes.is_something:
                self._commits.write(writes, first_sequence)
        return first_sequence

    def _numbers(self, count: int) -> int:
        """Reserve this many numbers for outbox records and return the first; 0 for none."""
        if not count:
            return 0
        counter = self._mongo.collection(STORE).find_one_and_update(
            {"_id": "outbox"}, {"$inc": {"sequence": count}}, return_document=ReturnDocument.AFTER
        )
        # The counter was made with the store.
        return cast(dict[str, int], counter)["sequence"] - count + 1

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        """Return the workflow's row."""
        with self._reading(WORKFLOWS) as workflows, self._mongo.in_order() as session:
            found = workflows.find_one({"_id": key_of(workflow_id)}, session=session)
        return None if found is None else self._workflow(found)

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        """Return the workflow's steps in order of creation; see `Store`."""
        wanted: dict[str, object] = {"workflow_id": key_of(workflow_id)}
        if newer_than:
            wanted["revision"] = {"$gt": newer_than}
        if state is not None:
            wanted["state"] = key_of(state)
        with self._reading(STEPS) as steps, self._mongo.in_order() as session:
            found = list(steps.find(wanted, {"notes": 0}, session=session).sort(_BY_CREATION))
        return [self._decoded(step_document, document, "step") for document in found]

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        """Return the workflow's steps; see `Store`."""
        return [*self.load_steps(workflow_id)]

    def load_open(self, workflow_id: str) -> None:
        """Return None: all steps are read at once; see `Store`."""

    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the current revision of each workflow; unknown ones are left out."""
        wanted = [key_of(workflow_id) for workflow_id in set(workflow_ids)]
        if not wanted:
            return {}
        with self._reading(WORKFLOWS) as workflows:
            found = list(workflows.find({"_id": {"$in": wanted}}, {"revision": 1}))
        return dict(self._taken("workflow", found, lambda document: (id_of(document), document["revision"])))

    def load_program(self, fingerprint: str) -> bytes | None:
        """Return a compiled program."""
        with self._reading(PROGRAMS) as programs:
            found = programs.find_one({"_id": key_of(fingerprint)})
        return None if found is None else self._decoded(program_content, found, "program")

    def load_annotations(self, fingerprint: str) -> bytes | None:
        """Return the annotations beside a compiled program's text."""
        with self._reading(PROGRAMS) as programs:
            found = programs.find_one({"_id": key_of(fingerprint)}, {"annotations": 1})
        return None if found is None else program_annotations(found)

    def outbox(
        self,
        *,
        lane: str | None = None,
        older_than_ms: int | None = None,
        newer_than_ms: int | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[StoredOutboxRecord]:
        """Return waiting records in sequence order; see `Store`."""
        wanted: dict[str, object] = {"_id": {"$gt": after}}
        if lane is not None:
            wanted["lane"] = key_of(lane)
        if older_than_ms is not None:
            outside: list[dict[str, object]] = [{"created_at_ms": {"$lt": older_than_ms}}]
            if newer_than_ms is not None:
                outside.append({"created_at_ms": {"$gt": newer_than_ms}})
            wanted["$or"] = outside
        with self._reading(OUTBOX) as outbox:
            return self._taken("outbox", outbox.find(wanted).sort("_id", ASCENDING).limit(limit), outbox_record)

    def lanes(self) -> list[str]:
        """Return the lanes that have waiting records."""
        with self._reading(OUTBOX) as outbox:
            found = outbox.distinct("lane")
        return sorted(taken(self._mongo.name, "outbox lane", found, text_of, str))

    def positions(self) -> dict[Position, int]:
        """Return every position with its next offset."""
        with self._reading(POSITIONS) as positions:
            found = list(positions.find({"next_offset": {"$ne": None}}))
        return dict(self._taken("position", found, lambda at: (position_of(at["_id"]), at["next_offset"])))

    def prefix(self) -> str:
        """Return the topic prefix that this store belongs to."""
        return self._prefix

    def close(self) -> None:
        """Close the connection. Later calls raise StoreUnavailable."""
        self._mongo.close()

    def drop_database(self) -> None:
        """Delete the database with everything in it."""
        self._mongo.drop()

    # The base of the public interface.

    def commit(self, changes: IterationChanges) -> None:
        """Write everything in `changes`, all or nothing. Raises ValueError as `save_step`."""
        while True:
            try:
                return super().commit(changes)
            except WorkflowConflict:
                # The engine has committed since the rows were read: try again with the new ones.
                continue

    def step_count(self) -> int:
        """Return the number of steps."""
        with self._reading(STEPS) as steps:
            return steps.count_documents({})

    def _exclusive(self) -> AbstractContextManager[object]:
        return self._lock.held()

    def _find_step(self, step_id: str) -> KeptStep | None:
        with self._reading(STEPS) as steps:
            found = steps.find_one({"_id": key_of(step_id)})
        return None if found is None else self._kept(found)

    def _steps_of(self, workflow_id: str) -> list[KeptStep]:
        with self._reading(STEPS) as steps:
            found = list(steps.find({"workflow_id": key_of(workflow_id)}).sort(_BY_CREATION))
        return [self._kept(document) for document in found]

    def _any_step_of(self, workflow_id: str) -> KeptStep | None:
        with self._reading(STEPS) as steps:
            found = steps.find_one({"workflow_id": key_of(workflow_id)})
        return None if found is None else self._kept(found)

    def _steps_near(self, related_id: str) -> Iterable[KeptStep]:
        # Blocks and containers are usually steps of the same workflow; steps saved by hand may name anything.
        workflow_id, mark, _ = related_id.partition(":")
        if not mark or not self.revisions([workflow_id]):
            return self._all_steps()
        elsewhere = self._sorted_steps({"by_hand": True, "workflow_id": {"$ne": key_of(workflow_id)}})
        return self._steps_of(workflow_id) + elsewhere

    def _all_steps(self, *, state: str | None = None) -> Iterable[KeptStep]:
        return self._sorted_steps({} if state is None else {"state": key_of(state)})

    def _sorted_steps(self, wanted: Mapping[str, object]) -> list[KeptStep]:
        with self._reading(STEPS) as steps:
            found = [self._kept(document) for document in steps.find(wanted)]
        return sorted(found, key=lambda kept: (kept.document.workflow_id, kept.document.number))

    def _next_number(self, workflow_id: str) -> int:
        with self._reading(STEPS) as steps:
            found = steps.find_one({"workflow_id": key_of(workflow_id)}, {"number": 1}, sort=[("number", DESCENDING)])
        return 0 if found is None else cast(int, found["number"]) + 1

    def _waiting_keys(self, key: bytes | None = None) -> set[bytes]:
        with self._reading(OUTBOX) as outbox:
            found = outbox.distinct("key", {"key": {"$ne": None} if key is None else key})
        return {bytes(waiting) for waiting in found}

    def _open_of(self, workflow_id: str) -> tuple[set[bytes], set[str]]:
        start, end = f"{workflow_id}:", f"{workflow_id};"
        keys = {"$gte": start.encode(errors="surrogatepass"), "$lt": end.encode(errors="surrogatepass")}
        running = {"_id": {"$gte": key_of(start), "$lt": key_of(end)}, "state": TaskState.RUNNING}
        with self._reading(OUTBOX) as outbox:
            waiting = {bytes(found["key"]) for found in outbox.find({"key": keys}, {"key": 1})}
        with self._reading(TASKS) as tasks:
            return waiting, {id_of(found) for found in tasks.find(running, {"_id": 1})}

    def _apply(self, rows: PublicRows) -> None:
        with self._mongo.speaking():
            writes = Writes.of_rows(rows, self._arrivals)
            if writes.is_something:
                self._commits.write(writes, 0)

    def _put(self, entity: object) -> None:
        change = {"$set": entity_values(entity), "$setOnInsert": {"arrival": self._arrivals.next()}}
        with self._reading(COLLECTION_OF[type(entity)]) as entities:
            for is_last in (False, True):
                try:
                    entities.update_one({"_id": entity_id(entity)}, change, upsert=True)
                    return
                except DuplicateKeyError as error:
                    # Another process made it between the server's lookup and its insert: it exists now.
                    if "_id" in (error.details or {}).get("keyPattern", {}) and not is_last:
                        continue
                    if not isinstance(entity, TaskDefinition):
                        raise
                    raise second_running(entity.step_id, entity.uuid) from error

    def _get(self, kind: type[E], key: str) -> E | None:
        with self._reading(COLLECTION_OF[kind]) as entities:
            found = entities.find_one({"_id": key_of(key)})
        return None if found is None else self._entity(kind, found)

    def _select(self, kind: type[E], **equal: str) -> list[E]:
        wanted = {name: key_of(value) for name, value in equal.items()}
        with self._reading(COLLECTION_OF[kind]) as entities:
            found = list(entities.find(wanted).sort(BY_ARRIVAL))
        return [self._entity(kind, document) for document in found]

    def _remove(self, kind: type, key: str) -> bool:
        with self._reading(COLLECTION_OF[kind]) as entities:
            return entities.delete_one({"_id": key_of(key)}).deleted_count > 0

    # Documents to objects.

    @contextmanager
    def _reading(self, collection: str) -> Iterator[Collection[dict[str, Any]]]:
        """Yield a collection. An interrupted commit is finished first."""
        with self._mongo.speaking():
            self._commits.settle()
            yield self._mongo.collection(collection)

    def _workflow(self, found: Document) -> WorkflowRow:
        return self._decoded(workflow_row, found, "workflow")

    def _kept(self, found: Document) -> KeptStep:
        return self._decoded(kept_step, found, "step")

    def _entity(self, kind: type[E], found: Document) -> E:
        try:
            return entity_of(kind, found)
        except DAMAGE as error:
            raise StoreCorrupt(
                path=self._mongo.name, reason=f"an entry of {ENTITY_TABLES[kind].name}: {error}"
            ) from error

    def _decoded(self, decode: Callable[[Document], E], found: Document, kind: str) -> E:
        try:
            return decode(found)
        except DAMAGE as error:
            raise damaged(self._mongo.name, kind, found.get("_id"), error) from error
