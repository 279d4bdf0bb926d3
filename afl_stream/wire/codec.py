"""The codec: it turns records into bytes and bytes into records, with framing, schema and body in one place."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.declared_returns import DeclaredReturns
from afl.core.text.exception_text import exception_line
from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION
from afl_stream.errors import EventTooLarge, IdRefused, NewerFormat, Reason, SchemaGone, SchemaUnknown, Unreadable
from afl_stream.limits import (
    MAX_CACHED_SCHEMAS,
    MAX_EVENT_BYTES,
    SCHEMA_WAIT_S,
)
from afl_stream.transport import UnreadableHeaders
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.control_json import decode_json, looks_like_json
from afl_stream.wire.framing import Framing, SingleObjectFraming
from afl_stream.wire.messages import Event, ExternalEvent, Message, check_workflow_id
from afl_stream.wire.payload_schema import event_schema_text, returns_of
from afl_stream.wire.reader import BodyReader, compile_body_reader
from afl_stream.wire.schema_source import SchemaLog, SchemaSource, SchemasTopicSource
from afl_stream.wire.shapes import RECORD_TYPES, shape_of
from afl_stream.wire.versions import CURRENT, HEADERS, check_version
from afl_stream.wire.writer import BodyWriter, compile_body_writer, compile_event_writer

CONTENT_TYPE_HEADER: Final = "content-type"
_JSON_CONTENT: Final = b"application/json"
_TELLING_HEADERS: Final = frozenset({*HEADERS, CONTENT_TYPE_HEADER})
#: The headers of every record that a release of ours has written.
_OWN_HEADERS: Final = frozenset({*HEADERS, "ce_id", "ce_type", "ce_source"})
#: The headers that say nothing new: nearly every record has just these.
_USUAL_CONTENTS: Final = frozenset({*(version.encode() for version in CURRENT), b"application/avro"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A framing, and the place where the schemas of its ids are kept."""

    framing: Framing
    source: SchemaSource


class NewEvent:
    """An event of this release that is written once and not kept: it takes a third of the time of an Event."""

    __slots__ = (
        "answer_token",
        "attempt",
        "created_at",
        "deadline",
        "event_type",
        "execution_id",
        "id",
        "payload",
        "step_id",
        "workflow_id",
    )
    state = "Created"
    workflow_version = WORKFLOW_VERSION
    step_schema_version = STEP_SCHEMA_VERSION
    runtime_version = RUNTIME_VERSION

    def __init__(  # noqa: PLR0913 - the fields of the record
        self,
        event_id: str,
        workflow_id: str,
        execution_id: str,
        step_id: str,
        event_type: str,
        payload: Mapping[str, object],
        attempt: int,
        created_at: int,
        deadline: int | None,
        answer_token: str | None,
    ) -> None:
        self.id = event_id
        self.workflow_id = workflow_id
        self.execution_id = execution_id
        self.step_id = step_id
        self.event_type = event_type
        self.payload = payload
        self.attempt = attempt
        self.created_at = created_at
        self.deadline = deadline
        self.answer_token = answer_token


class EventWriter:
    """A writer of the events of one facet, typed by its signature."""

    def __init__(self, facet: str, schema: WriterSchema, header: bytes, body: BodyWriter, max_bytes: int) -> None:
        self.facet = facet
        self.schema = schema
        self._header = header
        self._body = body
        self._max_bytes = max_bytes

    def encode(self, event: Event | NewEvent) -> bytes:
        """Return the record's value. Raises ValueRefused, which names the path, and EventTooLarge."""
        out = bytearray(self._header)
        self._body(out, event)  # type: ignore[arg-type]  # both have the fields that are written
        if len(out) > self._max_bytes:
            raise EventTooLarge(f"event {event.id} of {self.facet}", len(out), self._max_bytes)
        return bytes(out)


class Codec:
    """Encodes with one framing, decodes every framing that it was given.

    A schema is announced, and its acknowledgement awaited, when it is first used; so make the event writers of a
    program before its first step commits. Threads may share a codec.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        also_reads: Sequence[Wire] = (),
        max_event_bytes: int = MAX_EVENT_BYTES,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._wire = wire
        self._wires = (wire, *also_reads)
        self._max_bytes = max_event_bytes
        self._lock = threading.Lock()
        self._writers: dict[tuple[str, str], tuple[bytes, BodyWriter]] = {}
        self._event_writers: dict[tuple[str, str], EventWriter] = {}
        self._readers: dict[tuple[int, int], BodyReader] = {}
        #: The returns that schemas of events describe, by the first bytes of their records.
        self._returns: dict[bytes, DeclaredReturns] = {}
        self._head_sizes = tuple({len(each.framing.frame(0, b"")) for each in self._wires})
        self._clock_s = clock_s
        #: By wire: how many losses its source had when schemas were first found missing, and when that was.
        self._missing_since: dict[int, tuple[int, float]] = {}

    def encode(self, message: Message, topic: str = "") -> bytes:
        """Return the value of a record; an Event gets no typed payload here.

        Raises ValueRefused, EventTooLarge, and SchemaUnavailable when its schema could not be announced.
        """
        name = type(message).__name__
        entry = self._writers.get((name, topic))
        if entry is None:
            header = self._announced_header(shape_of(name).schema, topic)
            entry = self._writers[(name, topic)] = (header, compile_body_writer(name))
        out = bytearray(entry[0])
        entry[1](out, message)
        if len(out) > self._max_bytes:
            raise EventTooLarge(f"record {name}", len(out), self._max_bytes)
        return bytes(out)

    def event_writer(
        self,
        facet: str,
        params: Sequence[Mapping[str, Any]],
        scope: TypeScope | None = None,
        topic: str = "",
        *,
        returns: DeclaredReturns | None = None,
    ) -> EventWriter:
        """Return the writer of a facet's events; the same signature gives the same writer.

        `params` are [{"name", "type"}] with qualified type names; the schema describes `returns`. Raises TypeUnknown
        and SchemaUnavailable.
        """
        scope = scope or TypeScope()
        key = (topic, json.dumps([facet, [(p["name"], p["type"]) for p in params], _used(params, scope), returns]))
        writer = self._event_writers.get(key)
        if writer is None:
            body = compile_event_writer(params, scope)
            schema = parse_schema_text(event_schema_text(facet, params, scope, returns))
            header = self._announced_header(schema, topic)
            writer = self._event_writers[key] = EventWriter(facet, schema, header, body, self._max_bytes)
        return writer

    def decode(
        self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = (), *, json_allowed: bool = False
    ) -> Message:
        """Return the record in a value. JSON is read where it is allowed: on control, commands and external.

        Raises Unreadable for what can never be read, NewerFormat for what a newer release wrote, and SchemaUnavailable
        when the schema cannot be looked up right now (SchemaGone: its topic has lost it, so that only its own records
        have to wait); nothing else.
        """
        if value is None:
            raise Unreadable(Reason.NULL_VALUE, "the record has no value")
        if not value:
            raise Unreadable(Reason.EMPTY_VALUE, "the record's value has no bytes")
        if headers.__class__ is UnreadableHeaders:
            raise Unreadable(Reason.BAD_HEADERS, "the name of a header is not UTF-8: no client can read the headers")
        declared_json = False
        for name, content in headers:
            if name in _TELLING_HEADERS and content is not None and content not in _USUAL_CONTENTS:
                if name == CONTENT_TYPE_HEADER:
                    declared_json = content.partition(b";")[0].strip().lower() == _JSON_CONTENT
                else:
                    check_version(HEADERS[name], content.decode("utf-8", "replace"))
        if json_allowed and (declared_json or looks_like_json(value)):
            return decode_json(value)
        for index, wire in enumerate(self._wires):
            if wire.framing.claims(value):
                schema_id, start = wire.framing.unframe(value)
                reader = self._readers.get((index, schema_id)) or self._compile_reader(index, schema_id, headers)
                return reader(value, start)
        raise Unreadable(Reason.BAD_MAGIC, f"the value begins with {value[:2].hex(' ')}, which is no known framing")

    def returns_of(self, value: bytes | None) -> DeclaredReturns | None:
        """Return what the schema of an event that was decoded here says about its facet's returns; None: nothing."""
        if value is not None:
            for size in self._head_sizes:
                returns = self._returns.get(value[:size])
                if returns is not None:
                    return returns
        return None

    def _announced_header(self, schema: WriterSchema, topic: str) -> bytes:
        return self._wire.framing.frame(self._wire.source.announce(schema, topic), b"")

    def keep_announced(self) -> None:
        """Announce again the schemas that were announced and are gone. Raises SchemaUnavailable."""
        for wire in self._wires:
            wire.source.keep_announced()

    def _compile_reader(self, index: int, schema_id: int, headers: Iterable[tuple[str, bytes | None]]) -> BodyReader:
        source = self._wires[index].source
        try:
            schema = source.by_id(schema_id)
        except SchemaUnknown as error:
            given_headers, waited = dict(headers), ""
            # Its writer announced the schema before it wrote the record: a topic that lacks it has lost it.
            if (
                given_headers.keys() >= _OWN_HEADERS
                and (why := source.lack(_time_ms(given_headers.get("ce_time")))) is not None
            ):
                if self._waits_for_schemas(index, source.losses):
                    raise SchemaGone(f"{schema_id:016x}", why) from error
                waited = f"; {why}, and the schema was not announced again within {SCHEMA_WAIT_S:g} s"
            raise Unreadable(Reason.UNKNOWN_SCHEMA, f"{error}{waited}") from error
        try:
            reader = compile_body_reader(schema)
        except (Unreadable, NewerFormat):
            raise
        except Exception as error:  # a schema that parses is anybody's all the same
            raise Unreadable(Reason.BAD_SCHEMA, f"no reader can be made ({exception_line(error)})") from error
        with self._lock:
            if len(self._readers) >= MAX_CACHED_SCHEMAS:
                forgotten = next(iter(self._readers))
                self._readers.pop(forgotten)
                self._returns.pop(self._head(*forgotten), None)
            self._readers[(index, schema_id)] = reader
            if (returns := returns_of(schema.root)) is not None:
                self._returns[self._head(index, schema_id)] = returns
        return reader

    def _head(self, index: int, schema_id: int) -> bytes:
        return self._wires[index].framing.frame(schema_id, b"")

    def _waits_for_schemas(self, index: int, losses: int) -> bool:
        """Return whether a schema that is gone may still be announced again.

        There is one wait for each loss, which covers all schemas that it took: every process that knows a schema
        announces it within that time. A schema that is unknown after it has no owner.
        """
        now_s = self._clock_s()
        of_losses, since_s = self._missing_since.get(index, (-1, now_s))
        if of_losses != losses:
            since_s = now_s
            self._missing_since[index] = losses, since_s
        return now_s - since_s < SCHEMA_WAIT_S


def single_object_codec(log: SchemaLog, *, max_event_bytes: int = MAX_EVENT_BYTES) -> Codec:
    """Return the codec for deployments without a schema registry, over the schemas topic.

    The schemas of this release's own records are built in: no record of the topic replaces them.
    """
    known = [shape_of(name).schema for name in RECORD_TYPES if name != Event.__name__]
    wire = Wire(framing=SingleObjectFraming(), source=SchemasTopicSource(log, known))
    return Codec(wire, max_event_bytes=max_event_bytes)


def _time_ms(ce_time: bytes | None) -> int | None:
    """Return when a record says that it was written; None when it does not say so in one of our forms."""
    try:
        return int(datetime.fromisoformat((ce_time or b"").decode()).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def decode_key(key: bytes | None) -> str:
    """Return a record's key as text. Raises Unreadable (EMPTY_KEY, BAD_KEY)."""
    if not key:
        raise Unreadable(Reason.EMPTY_KEY, "the record has no key")
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.BAD_KEY, f"the key is not UTF-8: {error}") from error


def addressed(event: ExternalEvent, key: bytes | None) -> ExternalEvent:
    """Return an external event with its workflow id, which is the record's key if the event itself does not say it.

    Raises Unreadable (MISSING_FIELD, BAD_KEY, BAD_ID).
    """
    if event.workflow_id:
        return event
    if not key:
        raise Unreadable(Reason.MISSING_FIELD, "ExternalEvent without workflow_id, and its record has no key")
    try:
        return replace(event, workflow_id=check_workflow_id(decode_key(key)))
    except IdRefused as error:
        raise Unreadable(Reason.BAD_ID, f"ExternalEvent without workflow_id, and its record's key: {error}") from error


def _used(params: Sequence[Mapping[str, Any]], scope: TypeScope) -> list[object]:
    """List the schemas that a signature reaches: a changed schema under the same name makes another writer."""
    used: dict[str, list[tuple[str, object]]] = {}
    pending = [param["type"] for param in params]
    while pending:
        afl_type = pending.pop()
        if isinstance(afl_type, Mapping):
            pending.append(afl_type.get("elementType"))
        elif isinstance(afl_type, str) and afl_type in scope.schemas and afl_type not in used:
            used[afl_type] = [(entry["name"], entry["type"]) for entry in scope.schemas[afl_type]]
            pending.extend(entry["type"] for entry in scope.schemas[afl_type])
    return [sorted(used.items(), key=lambda entry: entry[0])]
