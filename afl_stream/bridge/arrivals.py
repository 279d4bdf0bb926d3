"""Records that the bridge reads, as its users' functions see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

from afl_stream.bridge.publishing import records_of
from afl_stream.bridge.resources import BridgeResources
from afl_stream.bridge.topics import AnyTopic, WorkflowTopic
from afl_stream.limits import MAX_NAME_CHARS
from afl_stream.pubsub import Message
from afl_stream.transport import Headers, Record
from afl_stream.wire.headers import header

#: Bytes of the digest in an id that is derived.
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A record of a topic, decoded.

    `id` is the same each time that the record is read: the id of the event that it carries, by itself or by its
    CloudEvents headers, or one that is derived from its place. `key` is the record's key as text, or the request's id
    on a topic of a workflow; "": it has none.
    """

    id: str
    topic: str
    key: str
    data: object
    headers: Headers = ()
    timestamp_ms: int = 0
    #: The node or program that published it, on a topic of a workflow.
    publisher: str = ""

    def header(self, name: str) -> str | None:
        """Return the last header of this name as text, or None."""
        return header(self.headers, name)


#: Reads a message. Raises Unreadable, and SchemaUnavailable and NewerFormat.
Reading: TypeAlias = Callable[[Message], Arrival]


def reading_of(topic: AnyTopic, resources: BridgeResources) -> Reading:
    """Return what decodes the records of a topic."""
    if not isinstance(topic, WorkflowTopic):
        return _read
    records = records_of(resources, topic)

    def read(message: Message) -> Arrival:
        event = records.output(Record(*message[:7]))
        return Arrival(
            id=_bounded(event.event_id),
            topic=message.topic,
            key=event.assistant_request_id,
            data=event.data,
            headers=message.headers,
            timestamp_ms=message.timestamp_ms,
            publisher=event.publisher_name,
        )

    return read


def _read(message: Message) -> Arrival:
    return Arrival(
        id=_id_of(message),
        topic=message.topic,
        key=(message.key or b"").decode("utf-8", "replace"),
        data=message.data,
        headers=message.headers,
        timestamp_ms=message.timestamp_ms,
    )


def _id_of(message: Message) -> str:
    """Return the id of a record. The forms are dedup keys of records that are read again: never change them.

    CloudEvents are told apart by their source and id. The place of another record has its time too: a topic that was
    deleted and recreated has the same offsets again.
    """
    event_id, source = message.header("ce_id"), message.header("ce_source")
    if event_id and source:
        return _digest(source, event_id)
    return _digest(message.topic, str(message.partition), str(message.offset), str(message.timestamp_ms))


def event_id_of(arrival: Arrival, name: str) -> str:
    """Return the id of the external event of this name that a record raises. Its form is a dedup key: never change it.

    It has the name: two bridges may raise events of different names for one record, and a workflow counts each id once.
    """
    return _digest(arrival.id, name)


def _bounded(event_id: str) -> str:
    return event_id if 0 < len(event_id) <= MAX_NAME_CHARS else _digest(event_id)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
