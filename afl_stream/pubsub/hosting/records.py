"""The records of a hosted workflow: what a worker reads and writes, and what a client does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from afl.core.clock import WallClock, epoch_ms
from afl.core.text.exception_text import exception_text
from afl.core.values import Refused, check_json
from afl_stream.errors import EventTooLarge, Reason, Unreadable, ValueRefused
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.event_stores.records import context_of, event_of, record_of
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.topics import WorkflowTopics
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import OutputTopicEvent, PublishToTopicEvent, TopicEvent
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Headers, Record
from afl_stream.wire.codec import Codec, decode_key
from afl_stream.wire.dead_letters import dead_letter_headers, value_omitted
from afl_stream.wire.headers import AVRO_CONTENT, TopicEventHeaders
from afl_stream.wire.json_values import read_json_value
from afl_stream.wire.messages import TopicEvent as WireEvent
from afl_stream.wire.shapes import build_message, shape_of
from afl_stream.wire.topic_events import CONSUME, STATUS

#: On a record of a worker, with the topic that it is on: the event is in the workflow's store already, so that workers
#: need not look at it. Other programs copy headers from what they read to what they publish, on another topic.
_STORED: Final = "afl_stored"
#: On a record that a worker has produced where it belongs.
_FORWARDED: Final = "afl_forwarded"
_JSON_CONTENT: Final = b"application/json"
#: First bytes of JSON. No Avro framing begins with one.
_JSON_BEGINS: Final = frozenset(b'{["-0123456789tfn \t\r\n')
_DIGEST_BYTES: Final = 16
#: The fields of an event that are written as JSON, besides its data.
_FIELDS: Final = (
    *("id", "request_id", "topic", "kind", "offset", "publisher", "publisher_type", "consumed", "context"),
    *("created_at", "status"),
)


#: The type of the publisher of what a client publishes, as it stands on the events.
CLIENT_TYPE: Final = "WorkflowClient"


def is_of_client(event: TopicEvent) -> bool:
    """Return whether a client published an event, and so waits for a report that names it."""
    return event.publisher_type == CLIENT_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class EventReceived(NamedTuple):
    """An event for a request, which may be known already."""

    request_id: str
    event: PublishToTopicEvent
    #: None: the record says nothing about it.
    context: InvokeContext | None


class StatusAsked(NamedTuple):
    """A client asks how a request stands: it is to go on if it can, and to be told when it cannot."""

    request_id: str
    #: The id of the question, which the answer names.
    event_id: str


class Forwarded(NamedTuple):
    """A record on another partition than its request's: produced again where it belongs, as the same event.

    `is_again`: it was produced so before, and yet it is on another one.
    """

    outgoing: Outgoing
    is_again: bool


#: What a record of the workflow's topics is to a worker. None: an event that a worker has stored before producing it.
Incoming = EventReceived | StatusAsked | Forwarded | Unreadable | None


class RequestReport(NamedTuple):
    """How a request stands, as a worker tells its clients."""

    request_id: str
    status: RequestStatus
    #: The ids of the last inputs and questions of clients that this takes into account.
    heard: frozenset[str]
    #: By output topic: how many events there are, and the offset of the last one's record, where this is known.
    outputs: Mapping[str, tuple[int, int | None]]
    #: Which node failed, and why.
    node: str = ""
    error: str = ""


class WorkflowRecords:
    """Decodes and encodes the records of one workflow. Threads may share it."""

    def __init__(
        self,
        config: StreamConfig,
        topics: WorkflowTopics,
        codec: Codec,
        *,
        partitions: int,
        now_ms: WallClock = epoch_ms,
    ) -> None:
        self.partitions = partitions
        self._topics = topics
        self._codec = codec
        #: The header of stored events has this on each topic.
        self._stored = {name: name.encode() for name in (*topics.topic_at, topics.status)}
        self._is_json = config.pubsub.format == "json"
        self._max_bytes = config.max_event_bytes
        content = _JSON_CONTENT if self._is_json else AVRO_CONTENT
        source = f"/workflows/{quote(topics.workflow)}"
        self._headers = TopicEventHeaders(source=source, content=content, form=codec.header_form)
        self._now_ms = now_ms

    def announce(self) -> None:
        """Announce the schema, so that no record waits for that later. Raises SchemaUnavailable."""
        if not self._is_json:
            for topic in self._stored:
                self._codec.encode(WireEvent(), topic)

    # Reading

    def decoded(self, record: Record) -> Incoming:
        """Return what a record is to a worker. Raises SchemaUnavailable and NewerFormat."""
        for header in record.headers:
            if header[0] == _STORED and header[1] == self._stored[record.topic]:
                return None
        try:
            return self._received(record)
        except Unreadable as error:
            return error

    def _received(self, record: Record) -> Incoming:
        wire = self._message(record)
        request_id = wire.request_id or decode_key(record.key)
        event_id = wire.id or _id_of_place(record)
        key = request_id.encode()
        if wire.kind == CONSUME:
            raise Unreadable(Reason.WRONG_TYPE, f"TopicEvent {event_id}: a {CONSUME} is for the store's topic only")
        if record.partition != partition_for(key, self.partitions):
            return self._forwarded(record, wire, key, event_id)
        if wire.kind == STATUS:
            return StatusAsked(request_id, event_id)
        topic = self._topics.topic_at[record.topic]
        event = PublishToTopicEvent(
            event_id, request_id, topic, 0, wire.data, wire.publisher, wire.publisher_type,
            tuple(wire.consumed or ()), wire.created_at or record.timestamp_ms,  # type: ignore[arg-type]  # checked when it was decoded
        )  # fmt: skip
        context = None if wire.context is None else context_of(wire.context, request_id)  # type: ignore[arg-type]  # checked when it was decoded
        return EventReceived(request_id, event, context)

    def _message(self, record: Record) -> WireEvent:
        value = record.value
        if value and value[0] in _JSON_BEGINS:
            return self._json_message(record)
        message = self._codec.decode(value, record.headers)
        if not isinstance(message, WireEvent):
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} is no event of a workflow's topic")
        return message

    def output(self, record: Record) -> TopicEvent:
        """Return the event of a record on an output topic. Raises Unreadable, SchemaUnavailable and NewerFormat."""
        wire = self._message(record)
        event = event_of(wire)
        if isinstance(event, OutputTopicEvent):
            return event
        if not isinstance(event, PublishToTopicEvent):
            raise Unreadable(Reason.WRONG_TYPE, f"TopicEvent {wire.id}: a {CONSUME} is for the store's topic only")
        return event._replace(
            event_id=wire.id or _id_of_place(record),
            assistant_request_id=wire.request_id or decode_key(record.key),
            name=self._topics.topic_at[record.topic],
            timestamp_ms=wire.created_at or record.timestamp_ms,
        )

    def report(self, record: Record) -> RequestReport:
        """Return how a request stands, from a record of the status topic. Raises as `output` does."""
        wire = self._message(record)
        data = wire.data
        try:
            if wire.kind != STATUS or not isinstance(data, dict):
                raise ValueError(f"kind {wire.kind}")
            outputs = {str(topic): (int(count), offset) for topic, (count, offset) in dict(data["outputs"]).items()}
            return RequestReport(
                request_id=wire.request_id or decode_key(record.key),
                status=RequestStatus(wire.status or ""),
                heard=frozenset(wire.consumed or ()),  # type: ignore[call-overload]  # checked when it was decoded
                outputs=outputs,
                node=str(data.get("node", "")),
                error=str(data.get("error", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(Reason.WRONG_TYPE, f"no status of a request: {exception_text(error)}") from error

    # Writing

    def encoded(self, event: TopicEvent, context: InvokeContext | None = None) -> Outgoing:
        """Return the record of an event that a worker has stored, or with a context the record of a client's input.

        Raises ValueRefused, EventTooLarge and SchemaUnavailable.
        """
        topic = self._topics.of[event.name]
        more = ((_STORED, self._stored[topic]),) if context is None else ()
        return self._outgoing(topic, record_of(event, context=context), more)

    def question(self, topic: str, request_id: str, event_id: str) -> Outgoing:
        """Return a client's question how a request stands; see StatusAsked."""
        wire = WireEvent(id=event_id, request_id=request_id, topic=topic, kind=STATUS, created_at=self._now_ms())
        return self._outgoing(self._topics.of[topic], wire)

    def told(self, report: RequestReport) -> Outgoing:
        """Return the record that tells clients how a request stands. Raises as `encoded` does."""
        data: dict[str, Any] = {"outputs": {topic: list(at) for topic, at in report.outputs.items()}}
        if report.node or report.error:
            data |= {"node": report.node, "error": report.error}
        wire = WireEvent(
            id=f"{report.request_id}:{report.status}:{self._now_ms()}",
            request_id=report.request_id,
            kind=STATUS,
            data=data,
            publisher=self._topics.workflow,
            consumed=sorted(report.heard) or None,
            created_at=self._now_ms(),
            status=report.status.value,
        )
        return self._outgoing(self._topics.status, wire)

    def dead_letter(self, record: Record, error: Exception) -> Outgoing:
        """Return a record as it was; its headers say where it was read and why it was given up."""
        headers = dead_letter_headers(record, error, at_ms=self._now_ms())
        return Outgoing(topic=self._topics.dead_letters, key=record.key, value=record.value, headers=headers)

    def without_value(self, letter: Outgoing) -> Outgoing:
        """Return the dead letter of a record that is too large for the dead letter topic."""
        headers = (*letter.headers, value_omitted(letter.value))
        return Outgoing(topic=letter.topic, key=letter.key, value=None, headers=headers)

    def failed_request(self, first: TopicEvent, error: Exception) -> Outgoing:
        """Return the dead letter of a request that failed: its first event, which retries it when it is sent back.

        Raises as `encoded` does.
        """
        wire = self._outgoing(self._topics.of[first.name], record_of(first))
        partition = partition_for(first.assistant_request_id.encode(), self.partitions)
        original = Record(wire.topic, partition, -1, wire.key, wire.value, wire.headers)
        headers = dead_letter_headers(original, error, at_ms=self._now_ms())
        return Outgoing(topic=self._topics.dead_letters, key=wire.key, value=wire.value, headers=headers)

    def _forwarded(self, record: Record, wire: WireEvent, key: bytes, event_id: str) -> Forwarded:
        kept = WireEvent(
            id=event_id,
            request_id=key.decode(),
            topic=wire.topic,
            kind=wire.kind,
            offset=wire.offset,
            data=wire.data,
            publisher=wire.publisher,
            publisher_type=wire.publisher_type,
            consumed=wire.consumed,
            context=wire.context,
            created_at=wire.created_at or record.timestamp_ms,
        )
        try:
            outgoing = self._outgoing(record.topic, kept, ((_FORWARDED, b"1"),))
        except (EventTooLarge, ValueRefused) as error:
            raise Unreadable(
                Reason.TOO_LARGE if isinstance(error, EventTooLarge) else Reason.WRONG_TYPE,
                f"it is not on the partition of its request, and cannot be produced there: {exception_text(error)}",
            ) from error
        return Forwarded(outgoing, any(name == _FORWARDED for name, _ in record.headers))

    def _outgoing(self, topic: str, wire: WireEvent, more: Headers = ()) -> Outgoing:
        key = wire.request_id.encode()
        value = self._json(wire) if self._is_json else self._codec.encode(wire, topic)
        headers = self._headers.of(
            event_id=wire.id, request_id=wire.request_id, at_ms=wire.created_at or self._now_ms(), more=more
        )
        return Outgoing(topic=topic, key=key, value=value, headers=headers)

    def _json(self, wire: WireEvent) -> bytes:
        entries: dict[str, object] = {"type": "TopicEvent"}
        entries |= {name: value for name in _FIELDS if (value := getattr(wire, name)) not in (None, "")}
        entries["data"] = _checked(wire)
        value = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
        if len(value) > self._max_bytes:
            raise EventTooLarge("record TopicEvent", len(value), self._max_bytes)
        return value

    def _json_message(self, record: Record) -> WireEvent:
        """Return an event written as JSON: as ours, which say their type, or any other JSON as the event's data."""
        value = record.value or b""
        entries = read_json_value(value)
        if isinstance(entries, dict) and entries.get("type") == "TopicEvent":
            message = self._codec.decode(value, record.headers, json_allowed=True)
        else:
            message = build_message(shape_of("TopicEvent"), {"data": entries})
        assert isinstance(message, WireEvent)
        return message


def _checked(wire: WireEvent) -> object:
    try:
        return check_json(wire.data)
    except Refused as refused:
        error = refused.at("TopicEvent.data")
        raise ValueRefused(error.path, error.afl_type, error.found) from None


def _id_of_place(record: Record) -> str:
    """Return the id of an event that has none: the record's place in its log, where it is once, and its time.

    A topic that was made again has another record at the same place. The form is the dedup key of records that are read
    again: never change it.
    """
    place = f"{record.topic}\0{record.partition}\0{record.offset}\0{record.timestamp_ms}"
    return blake2b(place.encode(), digest_size=_DIGEST_BYTES).hexdigest()
