"""The documents of an event store in MongoDB: what is in them, and how they are found."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from afl_stream.pubsub.event_stores.rows import Append
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus

#: The version of the documents. Raise it with every change.
FORMAT: Final = 1
REQUESTS: Final = "pubsub_requests"
APPENDS: Final = "pubsub_appends"
STORE: Final = "pubsub_store"

RUNNING: Final = RequestStatus.RUNNING.value
FINISHED: Final = RequestStatus.FINISHED.value
#: The status of the append that ends a forgotten request.
FORGOTTEN: Final = "forgotten"

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnd:
    """Where a request ends: the id of its document, its number of appends and of events, status and time of the last.

    `read_s`: when this was read or written, by the monotonic clock.
    """

    request: str
    appends: int = 0
    events: int = 0
    status: str = RUNNING
    updated_at_ms: int = 0
    read_s: float

    @classmethod
    def at(cls, request: str, last: Document | None, read_s: float) -> RequestEnd:
        """Return the end by the last append; None: there is none yet."""
        if last is None:
            return cls(request=request, read_s=read_s)
        return cls(
            request=request,
            appends=_number_of(last),
            events=last["first"] + last["count"],
            status=last["status"],
            updated_at_ms=last["at_ms"],
            read_s=read_s,
        )


def key_text(key: RequestKey) -> str:
    """Return the key of a request as one text. Different requests have different ones."""
    return json.dumps(key, ensure_ascii=False)


def request_document(request: str, append: Append) -> Document:
    """Return the document of a new request, whose first append this is going to be."""
    return {
        "_id": request,
        "key": key_text(append.key),
        "workflow": append.key.workflow,
        "request_id": append.key.request_id,
        "status": RUNNING,
        "appends": 0,
        "created_at_ms": append.at_ms,
        "updated_at_ms": append.at_ms,
    }


def append_document(append: Append, request: str, number: int) -> Document:
    """Return the document of an append. The token tells it from that of another writer with the same number."""
    return {
        "_id": append_id(request, number),
        "token": uuid.uuid4().hex,
        "first": append.first,
        "count": len(append.rows),
        "status": append.status,
        "at_ms": append.at_ms,
        "context": append.context,
        "events": [list(row) for row in append.rows],
    }


def mark_of_forgotten(request: str, number: int) -> Document:
    """Return the append that ends a forgotten request."""
    return {"_id": append_id(request, number), "first": 0, "count": 0, "status": FORGOTTEN, "at_ms": 0}


def append_id(request: str, number: int) -> str:
    """Return the id of an append. Those of one request follow each other in the order of their numbers."""
    return f"{request}:{number:08x}"


def appends_of(request: str, before: int | None = None) -> Document:
    """Return the query for all appends of a request, or for those before a number."""
    # The character behind the colon.
    return {"_id": {"$gte": f"{request}:", "$lt": f"{request};" if before is None else append_id(request, before)}}


def rows_of(appends: Sequence[Document]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a request's events. ValueError when an append is missing, or has not what it says."""
    first = 0
    for number, append in enumerate(appends, 1):
        events = append["events"]
        if (_number_of(append), append["first"], append["count"]) != (number, first, len(events)):
            raise ValueError(f"append {number} is missing, or has other events than it says")
        yield from events
        first += len(events)


def _number_of(append: Document) -> int:
    return int(str(append["_id"]).rpartition(":")[2], 16)
