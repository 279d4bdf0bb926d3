"""Read and write AFL sources in MongoDB. This is the compiler's only module that uses pymongo.

There are two collections. `flows` holds one document for each publication, found by `uuid`; its `compiled_sources` are
the texts (`language` "afl") and the compiled program (`language` "json"). Flows that other programs have published may
have their texts in `sources`. `afl_sources` holds a document for each namespace and version, found by `namespace_name`;
its `source_text` is a whole text that may define more namespaces, `namespaces_defined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from afl.config import MongoDBConfig
from afl.core.text.exception_text import exception_text
from afl.core.text.masking import NOT_WELL_FORMED, is_well_formed, shown_url
from afl.errors import AFLError

if TYPE_CHECKING:
    from pymongo import MongoClient

_T = TypeVar("_T")
Document = Mapping[str, Any]

FLOWS = "flows"
SOURCES = "afl_sources"

#: The longest wait for a server. A person sits in front of the command.
SERVER_TIMEOUT_MS = 5_000

#: MongoDB refuses larger documents; the rest of the 16 MiB is for the other fields of the document.
MAX_TEXT_BYTES = 15 * 1024 * 1024


class MongoDBUnavailable(AFLError):
    """MongoDB could not be used: not installed, not reachable, or not permitted."""


class MongoSources:
    """The sources in one database. Use it as a context manager: it holds a connection."""

    def __init__(self, config: MongoDBConfig) -> None:
        """Connect lazily; raises MongoDBUnavailable when pymongo is missing or the url is invalid."""
        self._config = config
        self._client = _client(config)
        self._database = self._client[config.database]

    def __enter__(self) -> MongoSources:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def flow(self, uuid: str) -> Document | None:
        """Return the flow with this id, or None."""
        return self._ask(lambda: self._database.flows.find_one({"uuid": uuid}))

    def sources(self, namespaces: Iterable[str], version: str) -> dict[str, Document]:
        """Return the published source of each namespace that has one, in one query."""
        wanted = {"namespace_name": {"$in": sorted(set(namespaces))}, "version": version}
        found = self._ask(lambda: list(self._database[SOURCES].find(wanted)))
        return {str(document["namespace_name"]): document for document in found}

    def published(self) -> list[Document]:
        """Return all published sources, without their texts, by namespace and version."""
        order = [("namespace_name", 1), ("version", 1)]
        return self._ask(lambda: list(self._database[SOURCES].find({}, {"_id": 0, "source_text": 0}).sort(order)))

    def write(self, flow: Document, sources: Iterable[Document]) -> None:
        """Write a flow and its sources, replacing those of the same ids.

        The flow goes first: a crash after it leaves a flow whose namespaces are the former ones, and publishing the
        same texts again completes it. Of two writers of one namespace, the later one wins.
        """

        def put() -> None:
            self._index()
            self._database[FLOWS].replace_one({"uuid": flow["uuid"]}, dict(flow), upsert=True)
            for source in sources:
                key = {"namespace_name": source["namespace_name"], "version": source["version"]}
                self._database[SOURCES].replace_one(key, dict(source), upsert=True)

        self._ask(put)

    def remove(self, namespace: str, version: str) -> bool:
        """Delete a published source, and say whether there was one."""
        key = {"namespace_name": namespace, "version": version}
        return self._ask(lambda: self._database[SOURCES].delete_one(key).deleted_count > 0)

    def _index(self) -> None:
        self._database[SOURCES].create_index([("namespace_name", 1), ("version", 1)], unique=True)
        self._database[FLOWS].create_index([("uuid", 1)], unique=True)

    def _ask(self, question: Callable[[], _T]) -> _T:
        from pymongo.errors import PyMongoError

        try:
            return question()
        except PyMongoError as error:
            reason = exception_text(error).partition(", Timeout:")[0]
            raise MongoDBUnavailable(
                self._config.masked(f"MongoDB at {shown_url(self._config.url)}: {reason}")
            ) from error


def _client(config: MongoDBConfig) -> MongoClient[dict[str, Any]]:
    try:
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError
    except ImportError as error:
        raise MongoDBUnavailable("pymongo is not installed; install the extra: afl-stream[mongodb]") from error
    try:
        return MongoClient(config.connection_string(), serverSelectionTimeoutMS=SERVER_TIMEOUT_MS, appname="afl")
    except (PyMongoError, ValueError, TypeError) as error:
        # Without its cause: what a parser says of a url that is not escaped quotes pieces of the password.
        reason = config.masked(exception_text(error)) if is_well_formed(config.url) else NOT_WELL_FORMED
        raise MongoDBUnavailable(f"the MongoDB url {shown_url(config.url)}: {reason}") from None
