"""Events of requests as rows of a database: texts and numbers, with what is data as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple, NoReturn

from afl.core.clock import WallClock, epoch_ms
from afl.core.json_encoder import make_encoder
from afl.core.row_maker import row_maker
from afl.core.text.exception_text import exception_text
from afl.core.values import Refused, check_integer, check_string, plain_value
from afl_stream.errors import Unreadable
from afl_stream.pubsub.event_stores.errors import EventStoreUnusable
from afl_stream.pubsub.event_stores.records import context_of, entries_of_context
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import (
    ConsumeFromTopicEvent,
    OutputTopicEvent,
    PublishToTopicEvent,
    StoredEvent,
)
from afl_stream.wire.topic_events import CONSUME, OUTPUT, PUBLISH


def _no_value(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is none of the values that were checked")


_encode: Final = make_encoder(_no_value)
#: The names of a workflow's topics and nodes, which come again and again.
_name: Final = lru_cache(maxsize=1_000)(check_string)
#: What reading a damaged row raises.
_DAMAGE: Final = (ValueError, TypeError, LookupError, Unreadable)


class EventRow(NamedTuple):
    """An event as a database keeps it, without its request and its number. The order is that of the columns."""

    kind: str
    event_id: str
    topic: str
    offset: int
    publisher: str
    publisher_type: str
    consumed: str
    timestamp_ms: int
    data: str

    @property
    def size(self) -> int:
        """About how many bytes it takes. A character may take four."""
        return 100 + len(self.data) + len(self.consumed) + len(self.event_id) + len(self.topic)


_row: Final = row_maker(
    EventRow,
    "kind",
    "event_id",
    "topic",
    "offset",
    "publisher",
    "publisher_type",
    "consumed",
    "timestamp_ms",
    "data",
)


class Append(NamedTuple):
    """What is to be appended to a request: see EventStore.append. `size` is about how many bytes it takes."""

    key: RequestKey
    context: str
    first: int
    rows: Sequence[EventRow]
    status: str
    at_ms: int
    size: int


class StoredRow(NamedTuple):
    """A request as a database keeps it."""

    context: str
    status: str
    created_at_ms: int
    updated_at_ms: int


def append_of(
    key: RequestKey,
    context: InvokeContext,
    first: int,
    events: Iterable[StoredEvent],
    status: RequestStatus,
    *,
    clock: WallClock = epoch_ms,
) -> Append:
    """Return what is to be appended. Raises ValueRefused for data, or a text, that is not a value of JSON."""
    try:
        for text in key:
            check_string(text)
    except Refused as refused:
        raise refused.at("request") from None
    rows = [_row_of(event) for event in events]
    text = _context_text(context)
    return Append(key, text, first, rows, status.value, clock(), len(text) + sum([row.size for row in rows]))


def _context_text(context: InvokeContext) -> str:
    if context.attributes:
        return _json(entries_of_context(context), "context")
    return _short_context_text(
        context.assistant_request_id, context.conversation_id, context.invoke_id, context.user_id
    )


@lru_cache(maxsize=1_000)  # A run appends with one context, again and again.
def _short_context_text(request_id: str, conversation_id: str, invoke_id: str, user_id: str) -> str:
    context = InvokeContext(
        assistant_request_id=request_id, conversation_id=conversation_id, invoke_id=invoke_id, user_id=user_id
    )
    return _json(entries_of_context(context), "context")


def _row_of(event: StoredEvent) -> EventRow:
    if isinstance(event, ConsumeFromTopicEvent):
        kind, publisher, publisher_type = CONSUME, event.consumer_name, event.consumer_type
        consumed: Sequence[str] = ()
    else:
        kind = OUTPUT if isinstance(event, OutputTopicEvent) else PUBLISH
        publisher, publisher_type, consumed = event.publisher_name, event.publisher_type, event.consumed
    data = event.data
    try:
        return _row(
            (
                kind,
                check_string(event.event_id),
                _name(event.name),
                check_integer(event.offset),
                _name(publisher),
                _name(publisher_type),
                f"[{','.join([encode_basestring(check_string(each)) for each in consumed])}]" if consumed else "",
                check_integer(event.timestamp_ms),
                "null" if data is None else _json(data, f"{event.name}.data"),
            )
        )
    except Refused as refused:
        raise refused.at(f"event of {event.name}") from None


def _json(value: object, path: str) -> str:
    return _encode(plain_value(value, path))


def events_of(store: str, key: RequestKey, rows: Iterable[Sequence[Any]]) -> tuple[StoredEvent, ...]:
    """Return the events of the rows of a request, which have the fields of EventRow in their order.

    Raises EventStoreUnusable, with the number of the event, for a row that cannot be read.
    """
    events: list[StoredEvent] = []
    for row in rows:
        try:
            events.append(_event_of(key.request_id, EventRow(*row)))
        except _DAMAGE as error:
            raise damaged(store, f"event {len(events)} of request {key.request_id}", error) from error
    return tuple(events)


def _event_of(request_id: str, row: EventRow) -> StoredEvent:
    place = (row.event_id, request_id, row.topic, row.offset, json.loads(row.data))
    if row.kind == CONSUME:
        return ConsumeFromTopicEvent(*place, row.publisher, row.publisher_type, row.timestamp_ms)
    if row.kind not in (OUTPUT, PUBLISH):
        raise ValueError(f"its kind is {row.kind!r}")
    consumed = tuple(json.loads(row.consumed)) if row.consumed else ()
    made = OutputTopicEvent if row.kind == OUTPUT else PublishToTopicEvent
    return made(*place, row.publisher, row.publisher_type, consumed, row.timestamp_ms)


def context_and_status(store: str, key: RequestKey, row: StoredRow) -> tuple[InvokeContext, RequestStatus]:
    """Return the context and the status of a request. Raises EventStoreUnusable for what cannot be read."""
    try:
        return context_of(json.loads(row.context), key.request_id), RequestStatus(row.status)
    except (*_DAMAGE, AttributeError) as error:
        raise damaged(store, f"request {key.request_id}", error) from error


def stored_request(store: str, key: RequestKey, row: StoredRow, rows: Iterable[Sequence[Any]]) -> StoredRequest:
    """Return a request of its row and those of its events. Raises EventStoreUnusable for what cannot be read."""
    context, status = context_and_status(store, key, row)
    return StoredRequest(
        key=key,
        context=context,
        status=status,
        events=events_of(store, key, rows),
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )


def damaged(store: str, what: str, error: Exception) -> EventStoreUnusable:
    """Return the error for a row that cannot be read."""
    return EventStoreUnusable(store, f"{what} is damaged: {exception_text(error)}")
