"""Events of requests as records of the wire, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from afl.core.values import describe_value
from afl_stream.errors import Reason, Unreadable
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import (
    ConsumeFromTopicEvent,
    OutputTopicEvent,
    PublishToTopicEvent,
    StoredEvent,
)
from afl_stream.wire.topic_events import CONSUME, OUTPUT, PUBLISH, STATUS, TopicEvent

_TEXTS: Final = ("conversation_id", "invoke_id", "user_id")


class RecordPlace(NamedTuple):
    """What the record of a stored event says beside the event: see the fields of TopicEvent."""

    request_id: str
    status: str | None = None
    number: int | None = None
    last: int | None = None
    after: str | None = None


def record_of(event: StoredEvent, *, context: InvokeContext | None = None) -> TopicEvent:
    """Return the record of an event, as it stands on a topic of its workflow."""
    entries = None if context is None else entries_of_context(context)
    return placed_record_of(event, RecordPlace(event.assistant_request_id), entries)


def placed_record_of(event: StoredEvent, place: RecordPlace, context: Mapping[str, Any] | None = None) -> TopicEvent:
    """Return the record of an event with its place among those of its request; `context` is a map of JSON."""
    if isinstance(event, ConsumeFromTopicEvent):
        kind, publisher, publisher_type = CONSUME, event.consumer_name, event.consumer_type
        consumed: tuple[str, ...] = ()
    else:
        kind = OUTPUT if isinstance(event, OutputTopicEvent) else PUBLISH
        publisher, publisher_type, consumed = event.publisher_name, event.publisher_type, event.consumed
    return TopicEvent(
        id=event.event_id,
        request_id=place.request_id,
        topic=event.name,
        kind=kind,
        offset=event.offset,
        data=event.data,
        publisher=publisher,
        publisher_type=publisher_type,
        consumed=list(consumed) or None,
        context=context,
        created_at=event.timestamp_ms or None,
        status=place.status,
        number=place.number,
        last=place.last,
        after=place.after,
    )


def event_of(record: TopicEvent) -> StoredEvent:
    """Return the event of a record. Raises Unreadable (WRONG_TYPE) for one that is about nothing but a status."""
    if record.kind == STATUS:
        raise Unreadable(Reason.WRONG_TYPE, f"TopicEvent {record.id}: its kind is {STATUS}, so it holds no event")
    fields = (record.id, record.request_id, record.topic, record.offset, record.data)
    timestamp_ms = record.created_at or 0
    if record.kind == CONSUME:
        return ConsumeFromTopicEvent(*fields, record.publisher, record.publisher_type, timestamp_ms)
    consumed = tuple(cast("Sequence[str]", record.consumed or ()))
    made = OutputTopicEvent if record.kind == OUTPUT else PublishToTopicEvent
    return made(*fields, record.publisher, record.publisher_type, consumed, timestamp_ms)


def entries_of_context(context: InvokeContext) -> dict[str, Any]:
    """Return the context of a request as a map of JSON; what is empty is left out."""
    entries: dict[str, Any] = {"assistant_request_id": context.assistant_request_id}
    entries |= {name: text for name in _TEXTS if (text := getattr(context, name))}
    if context.attributes:
        entries["attributes"] = dict(context.attributes)
    return entries


def context_of(entries: Mapping[str, Any], request_id: str) -> InvokeContext:
    """Return the context that such a map says; entries that are not known are left out.

    Raises Unreadable (WRONG_TYPE).
    """
    texts = {name: entries.get(name, "") for name in _TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise Unreadable(Reason.WRONG_TYPE, f"context.{name}: a String was expected, found {describe_value(text)}")
    attributes = entries.get("attributes", {})
    if not isinstance(attributes, Mapping):
        found = describe_value(attributes)
        raise Unreadable(Reason.WRONG_TYPE, f"context.attributes: a map was expected, found {found}")
    return InvokeContext(assistant_request_id=request_id, attributes=dict(attributes), **texts)
