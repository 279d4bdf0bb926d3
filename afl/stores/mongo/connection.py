"""The connection of a MongoDB store: opened, identified as ours or refused, with clear errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from bson.errors import BSONError
from bson.timestamp import Timestamp
from pymongo import ASCENDING, IndexModel, MongoClient, ReadPreference
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import CollectionInvalid, DuplicateKeyError, InvalidOperation, InvalidURI, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from afl.core.mongo_settings import DEFAULT_DATABASE, client_settings, database_in_path
from afl.core.process.long_waits import WAITS
from afl.core.text.exception_text import exception_text
from afl.core.text.masking import NOT_WELL_FORMED, Secrets, is_well_formed, secrets_of_url, shown_url
from afl.core.text.printable import printable
from afl.engine.errors import ForeignStore, StoreCorrupt, StoreMissing, StoreUnavailable
from afl.engine.model.store_identity import new_store_id
from afl.engine.versions import VERSIONS, check_maker
from afl.stores.deadlines import ASKING, timers_of_deadlines
from afl.stores.formats import report_migration
from afl.stores.mongo.documents import (
    HISTORY,
    OUTBOX,
    PARKED,
    POSITIONS,
    PROGRAMS,
    SCHEDULES,
    STEPS,
    STORE,
    TASKS,
    TIMERS,
    TOMBSTONES,
    WORKFLOWS,
    step_document,
    timer_values,
)
from afl.stores.mongo.writes import Command
from afl.stores.public.store import RUNNING_TASK_INDEX
from afl.stores.stored_text import key_of

#: The version of the collections. Raise it with every change; stores of the ones before are brought up.
FORMAT: Final = 3
OLDEST_FORMAT: Final = 1
#: The last format without timers, histories and schedules. Format 3 keeps what has changed of a workflow and of a step
#: beside its document, and headers in a short form: documents of the formats before stay as they are.
_WITHOUT_TIMERS: Final = 1

DEFAULT_URL: Final = "mongodb://localhost:27017"

#: The wire version of MongoDB 8.0, the first that writes several collections in one command (bulkWrite).
_OLDEST_WIRE_VERSION: Final = 25
_DUPLICATE_KEY: Final = 11000


#: Acknowledged writes are on the disks of a majority.
_DURABLE: Final = WriteConcern("majority", j=True)

#: The collections that are there from the start: those that transactions write.
_COLLECTIONS: Final = (
    WORKFLOWS,
    STEPS,
    OUTBOX,
    POSITIONS,
    PARKED,
    PROGRAMS,
    TASKS,
    TOMBSTONES,
    TIMERS,
    HISTORY,
    SCHEDULES,
)

_INDEXES: Final[Mapping[str, Sequence[IndexModel]]] = {
    WORKFLOWS: [
        IndexModel([("created_at_ms", ASCENDING), ("_id", ASCENDING)], name="workflow_newest"),
        IndexModel(
            [("created_at_ms", ASCENDING), ("_id", ASCENDING)],
            name="workflow_runnable",
            partialFilterExpression={"runnable": True},
        ),
        *(
            IndexModel([(by, ASCENDING), ("created_at_ms", ASCENDING), ("_id", ASCENDING)], name=f"workflow_{by}")
            for by in ("status", "name")
        ),
    ],
    STEPS: [
        IndexModel([("workflow_id", ASCENDING), ("number", ASCENDING)], name="step_workflow"),
        IndexModel([("state", ASCENDING)], name="step_state"),
        IndexModel([("workflow_id", ASCENDING)], name="step_by_hand", partialFilterExpression={"by_hand": True}),
    ],
    PARKED: [
        IndexModel([("step_id", ASCENDING)], name="parked_step"),
        IndexModel([("workflow_id", ASCENDING)], name="parked_workflow"),
        IndexModel([("expires_at_ms", ASCENDING)], name="parked_expiry"),
    ],
    TIMERS: [
        IndexModel([("due_at_ms", ASCENDING), ("_id", ASCENDING)], name="timer_due"),
        IndexModel([("workflow_id", ASCENDING)], name="timer_workflow"),
    ],
    HISTORY: [
        IndexModel([("workflow_id", ASCENDING), ("number", ASCENDING)], name="history_workflow"),
        IndexModel(
            [("workflow_id", ASCENDING), ("event_id", ASCENDING)],
            name="history_event",
            unique=True,
            partialFilterExpression={"event_id": {"$exists": True}},
        ),
        IndexModel(
            [("workflow_id", ASCENDING), ("number", ASCENDING)],
            name="history_pending",
            partialFilterExpression={"is_pending": True},
        ),
        IndexModel(
            [("workflow_id", ASCENDING), ("expires_at_ms", ASCENDING), ("size_bytes", ASCENDING)],
            name="history_early",
            partialFilterExpression={"is_pending": True, "expires_at_ms": {"$gt": 0}},
        ),
    ],
    SCHEDULES: [IndexModel([("next_at_ms", ASCENDING), ("_id", ASCENDING)], name="schedule_due")],
    TASKS: [
        IndexModel(
            [("step_id", ASCENDING)],
            name=RUNNING_TASK_INDEX,
            unique=True,
            # Tasks without a step may run in parallel.
            partialFilterExpression={"state": "running", "step_id": {"$gt": ""}},
        ),
        IndexModel(
            [("task_list_name", ASCENDING), ("name", ASCENDING), ("created", ASCENDING), ("arrival", ASCENDING)],
            name="tasks_pending",
            partialFilterExpression={"state": "pending"},
        ),
        IndexModel([("lease_expires", ASCENDING)], name="tasks_running", partialFilterExpression={"state": "running"}),
    ],
    "logs": [IndexModel([("runner_id", ASCENDING)], name="logs_runner")],
    TOMBSTONES: [IndexModel([("state", ASCENDING), ("purged_at_ms", ASCENDING)], name="tombstones_age")],
}


class BulkRefused(Exception):
    """An operation of a command was refused for a duplicate key. `index` is its position in the command."""

    def __init__(self, index: int) -> None:
        super().__init__(f"operation {index}")
        self.index = index


class Connection:
    """A connection to the database of a MongoDB server that holds one store.

    Raises StoreUnavailable (not reachable, not permitted, older than MongoDB 8.0, no store and `create` false) and
    ForeignStore (the store of another prefix or format).
    """

    def __init__(
        self,
        url: str,
        database: str,
        prefix: str,
        *,
        create: bool,
        create_indexes: bool,
        client: MongoClient[dict[str, Any]] | None,
        timeout_s: float,
    ) -> None:
        self._closed = False
        self._owns_client = client is None
        self.name = f"{_hosts_of(url)}/{database}" if client is None else database
        self._secrets = Secrets(secrets_of_url(url))
        try:
            self._client = client or MongoClient[dict[str, Any]](url, **client_settings(url, timeout_s))
        except (InvalidURI, PyMongoError, ValueError) as error:
            raise _unusable(url, self.name, error) from None
        self._database_name = database
        #: The cluster time of the newest read: later reads are not older.
        self._read_until: Timestamp | None = None
        self._read_lock = threading.Lock()
        try:
            with self.speaking():
                #: Whether the server has transactions: as a member of a replica set, or as the router of a cluster.
                self.has_transactions = self._recognise()
                concern = ReadConcern("majority") if self.has_transactions else ReadConcern()
                # From the primary, whatever the url requests: steps older than their workflow's row would be lost.
                self._database = self._client.get_database(
                    database,
                    read_preference=ReadPreference.PRIMARY,
                    read_concern=concern,
                    write_concern=_DURABLE,
                )
                self._check_identity(prefix, create)
                if create_indexes:
                    for collection, indexes in _INDEXES.items():
                        self.collection(collection).create_indexes(list(indexes))
        except BaseException:
            if self._owns_client:
                self._client.close()
            raise

    def collection(self, name: str) -> Collection[dict[str, Any]]:
        """Return a collection. Raises StoreUnavailable when the connection is closed."""
        if self._closed:
            raise StoreUnavailable(path=self.name, reason="it has been closed")
        return self._database[name]

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Turn errors of the client into StoreUnavailable."""
        try:
            with WAITS.on(f"the store {self.name} in MongoDB"):
                yield
        except (PyMongoError, InvalidOperation) as error:
            reason = exception_text(error).partition(", Timeout:")[0].partition(", full error:")[0]
            raise StoreUnavailable(path=self.name, reason=self._secrets.masked(reason)) from error
        except BSONError as error:
            raise StoreCorrupt(
                path=self.name, reason=f"a document cannot be decoded: {printable(exception_text(error))}"
            ) from error

    def validate(self, collection: str) -> list[str]:
        """Return the faults that the server finds in a collection; others can keep working if the server allows it."""
        found = self._database.command("validate", collection, background=True)
        if found.get("valid", True):
            return []
        return [str(text) for text in (*found.get("errors", ()), *found.get("warnings", ()))] or ["it is not valid"]

    @contextmanager
    def in_order(self) -> Iterator[ClientSession | None]:
        """Yield a session for a read that is not older than the reads before it, from any server.

        A newly elected primary may not know yet what a majority has. Yields None when there is only one server.
        """
        if not self.has_transactions or self._closed:
            yield None
            return
        with self._client.start_session(causal_consistency=True) as session:
            if self._read_until is not None:
                session.advance_operation_time(self._read_until)
            yield session
            if session.operation_time is not None:
                with self._read_lock:
                    self._read_until = max(self._read_until or session.operation_time, session.operation_time)

    def transaction(self) -> ClientSession:
        """Return a session with a transaction. The transaction ends with the `with` block."""
        if self._closed:
            raise StoreUnavailable(path=self.name, reason="it has been closed")
        session = self._client.start_session()
        session.start_transaction(read_concern=ReadConcern(), write_concern=_DURABLE)
        return session

    def bulk_write(
        self, operations: list[Command], namespaces: Sequence[str], session: ClientSession | None = None
    ) -> int:
        """Send operations as one command, in order; return how many documents its updates found or created.

        `namespaces` are the collections that operations name by position. Raises BulkRefused for a duplicate key, and
        pymongo's errors.
        """
        if self._closed:
            raise StoreUnavailable(path=self.name, reason="it has been closed")
        command: dict[str, Any] = {
            "bulkWrite": 1,
            "ops": operations,
            "nsInfo": [{"ns": f"{self._database_name}.{name}"} for name in namespaces],
            "ordered": True,
            "errorsOnly": True,
        }
        if session is None:
            command["writeConcern"] = _DURABLE.document
        answer = self._client.admin.command(command, session=session)
        if answer["nErrors"]:
            error = answer["cursor"]["firstBatch"][0]
            if error["code"] == _DUPLICATE_KEY:
                raise BulkRefused(error["idx"])
            raise StoreUnavailable(path=self.name, reason=error["errmsg"])
        return cast(int, answer["nMatched"] + answer["nUpserted"])

    def close(self) -> None:
        """Close the connection. Later calls raise StoreUnavailable."""
        self._closed = True
        if self._owns_client:
            self._client.close()

    def drop(self) -> None:
        """Delete the database with everything in it."""
        with self.speaking():
            self._client.drop_database(self._database_name)

    def _recognise(self) -> bool:
        hello = self._client.admin.command("hello")
        if hello["maxWireVersion"] < _OLDEST_WIRE_VERSION:
            version = self._client.server_info().get("version", "unknown")
            raise StoreUnavailable(path=self.name, reason=f"the server is MongoDB {version}, wanted 8.0 or newer")
        return "setName" in hello or hello.get("msg") == "isdbgrid"

    def _check_identity(self, prefix: str, create: bool) -> None:
        store = self.collection(STORE)
        found = store.find_one({"_id": "identity"})
        if found is None:
            if not create:
                raise StoreMissing(path=self.name, reason="there is no store in this database")
            mine: dict[str, Any] = {
                "prefix": prefix,
                "versions": VERSIONS,
                "format": FORMAT,
                "store_id": new_store_id(),
            }
            self._make_collections()
            # The owner of the store is written last: if it is there, everything else is.
            self._make("outbox", {"sequence": 0})
            self._make("head", {"number": 0, "pending": None, "beats": 0})
            self._make("lock", {"holder": None})
            self._make("identity", mine)
            found = store.find_one({"_id": "identity"}) or mine
        if not OLDEST_FORMAT <= found["format"] <= FORMAT:
            raise ForeignStore(
                path=self.name,
                found=f"a workflow store of format {found['format']}",
                expected=f"up to format {FORMAT}: upgrade this process",
            )
        if found["prefix"] != prefix:
            raise ForeignStore(
                path=self.name,
                found=f"the store of topic prefix {found['prefix']!r}",
                expected=f"that of prefix {prefix!r}",
            )
        if found["format"] < FORMAT:
            # Brought up: processes of the release before are refused from now on.
            self._make_collections()
            if found["format"] <= _WITHOUT_TIMERS:
                self._add_timers()
            done = store.update_one({"_id": "identity", "format": found["format"]}, {"$set": {"format": FORMAT}})
            if done.modified_count:  # Another process may have been faster.
                report_migration(self.name, found["format"], FORMAT)
        try:
            check_maker(found["versions"], self.name)
        except ValueError as error:
            raise StoreCorrupt(path=self.name, reason=exception_text(error)) from error
        if "store_id" not in found:
            # The store is from a release without ids. Of two processes here at the same time, one gives it an id.
            store.update_one(
                {"_id": "identity", "store_id": {"$exists": False}}, {"$set": {"store_id": new_store_id()}}
            )

    def _add_timers(self) -> None:
        """Give the unanswered events of older releases the timers of their deadlines."""
        asking = self.collection(STEPS).find({"state": ASKING})
        timers = self.collection(TIMERS)
        for timer in timers_of_deadlines(asking, step_document):
            timers.update_one({"_id": key_of(timer.step_id)}, {"$set": timer_values(timer)}, upsert=True)

    def _make_collections(self) -> None:
        # A collection made inside a transaction conflicts with other processes that make it.
        for name in _COLLECTIONS:
            with suppress(CollectionInvalid):
                self._database.create_collection(name)

    def _make(self, document_id: str, values: dict[str, Any]) -> None:
        # Another process may be faster: then its values stay.
        with suppress(DuplicateKeyError):
            self.collection(STORE).update_one({"_id": document_id}, {"$setOnInsert": values}, upsert=True)


def database_of(url: str) -> str:
    """Return the database that a url names, else the default. Raises StoreUnavailable for an invalid url."""
    try:
        # An address of a service record is looked up at connection.
        return parse_uri(url)["database"] or DEFAULT_DATABASE if url.startswith("mongodb://") else database_in_path(url)
    except (PyMongoError, ValueError) as error:
        raise _unusable(url, _hosts_of(url), error) from None


def _hosts_of(url: str) -> str:
    """Return a url's scheme and hosts, without user and options."""
    scheme, mark, rest = shown_url(url).partition("://")
    return f"{scheme}{mark}{rest.partition('/')[0]}"


def _unusable(url: str, name: str, error: Exception) -> StoreUnavailable:
    """Return the error for a url that the client refuses.

    Raise it without its cause: a parser's message about an unescaped url quotes pieces of the password.
    """
    if not is_well_formed(url):
        return StoreUnavailable(path=name, reason=NOT_WELL_FORMED)
    return StoreUnavailable(path=name, reason=Secrets(secrets_of_url(url)).masked(exception_text(error)))
