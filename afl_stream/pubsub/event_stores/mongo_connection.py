"""The connection of an event store to MongoDB: opened, checked, and with clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bson.errors import BSONError
from pymongo import ASCENDING, IndexModel, MongoClient, ReadPreference, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, InvalidOperation, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from afl.core.mongo_settings import DEFAULT_DATABASE, client_settings, database_in_path
from afl.core.process.long_waits import WAITS
from afl.core.text.exception_text import exception_text
from afl.core.text.masking import NOT_WELL_FORMED, Secrets, is_well_formed, secrets_of_url, shown_url
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.mongo_documents import APPENDS, FINISHED, FORMAT, REQUESTS, STORE, Document

#: How long a server that is away is waited for.
TIMEOUT_S: Final = 30.0
_DUPLICATE_KEY: Final = 11000
#: Acknowledged writes are on the disks of a majority.
_DURABLE: Final = WriteConcern("majority", j=True)

_INDEXES: Final = (
    IndexModel([("key", ASCENDING)], name="request_key", unique=True),
    IndexModel([("workflow", ASCENDING), ("status", ASCENDING), ("created_at_ms", ASCENDING)], name="request_status"),
    IndexModel(
        [("workflow", ASCENDING), ("updated_at_ms", ASCENDING)],
        name="request_age",
        partialFilterExpression={"status": FINISHED},
    ),
    IndexModel([("forgotten_at_ms", ASCENDING)], name="request_forgotten", sparse=True),
)


class MongoConnection:
    """The collections of an event store in one database.

    Raises EventStoreUnavailable (not reachable, or not permitted) and EventStoreUnusable (made by a newer release).
    """

    def __init__(self, url: str, *, database: str, timeout_s: float) -> None:
        self._secrets = Secrets(secrets_of_url(url))
        scheme, mark, rest = shown_url(url).partition("://")
        self.name = f"{scheme}{mark}{rest.partition('/')[0]}"
        try:
            self._client = MongoClient[Document](url, **client_settings(url, timeout_s))
            wanted = database or _database_of(url)
        except (PyMongoError, ValueError) as error:
            # Without its cause: a parser's message about an unescaped url quotes pieces of the password.
            reason = self._secrets.masked(exception_text(error)) if is_well_formed(url) else NOT_WELL_FORMED
            raise EventStoreUnavailable(self.name, reason) from None
        self.name = f"{self.name}/{wanted}"
        try:
            with self.speaking():
                self._open(wanted)
        except BaseException:
            self._client.close()
            raise

    def _open(self, database: str) -> None:
        hello = self._client.admin.command("hello")
        has_copies = "setName" in hello or hello.get("msg") == "isdbgrid"
        found = self._client.get_database(
            database,
            # From the primary, whatever the url requests.
            read_preference=ReadPreference.PRIMARY,
            # What only some servers have may be undone, and what was appended behind it would stand alone.
            read_concern=ReadConcern("majority") if has_copies else ReadConcern(),
            write_concern=_DURABLE,
        )
        self._check_format(found[STORE])
        self.requests: Collection[Document] = found[REQUESTS]
        self.appends: Collection[Document] = found[APPENDS]
        self.requests.create_indexes(list(_INDEXES))

    def _check_format(self, store: Collection[Document]) -> None:
        found = store.find_one_and_update(
            {"_id": "format"},
            {"$setOnInsert": {"format": FORMAT}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        ) or {"format": "unknown"}
        if found["format"] != FORMAT:
            raise EventStoreUnusable(
                self.name, f"its format is {found['format']}", f"format {FORMAT}: use a newer release of AFL Stream"
            )

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Turn errors of the client into those of an event store."""
        try:
            with WAITS.on(f"the event store {self.name}"):
                yield
        except (PyMongoError, InvalidOperation) as error:
            reason = exception_text(error).partition(", Timeout:")[0].partition(", full error:")[0]
            raise EventStoreUnavailable(self.name, self._secrets.masked(reason)) from error
        except BSONError as error:
            raise EventStoreUnusable(self.name, f"a document cannot be decoded: {exception_text(error)}") from error

    def close(self) -> None:
        self._client.close()


def insert(collection: Collection[Document], documents: list[Document]) -> set[int]:
    """Insert documents; return the indexes of those whose id, or whose key, another has. Raises PyMongoError."""
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        errors = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(each["code"] != _DUPLICATE_KEY for each in errors):
            raise
        return {int(each["index"]) for each in errors}
    return set()


def _database_of(url: str) -> str:
    if url.startswith("mongodb://"):
        return parse_uri(url)["database"] or DEFAULT_DATABASE
    # An address of a service record is looked up at connection.
    return database_in_path(url)
