"""The codec: it turns records into bytes and bytes into records, with framing, schema and body in one place."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.declared_returns import DeclaredReturns
from afl.core.text.exception_text import exception_line
from afl_stream.errors import (
    EventTooLarge,
    IdRefused,
    NewerFormat,
    Reason,
    SchemaGone,
    SchemaUnknown,
    Unreadable,
)
from afl_stream.limits import (
    MAX_CACHED_SCHEMAS,
    MAX_EVENT_BYTES,
    SCHEMA_WAIT_S,
)
from afl_stream.transport import UnreadableHeaders
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.control_json import decode_json, looks_like_json, returns_in_json
from afl_stream.wire.event_writers import CLOUD_EVENT_CONTENT, JSON_CONTENT, EventForm, EventWriter, JsonEventWriter
from afl_stream.wire.event_writers import used_schemas as _used
from afl_stream.wire.framing import (
    VALUE_SCHEMA_HEADER,
    Framing,
    RegistryFraming,
    SingleObjectFraming,
    schema_of_header,
)
from afl_stream.wire.messages import Event, ExternalEvent, Message, StepContinue, check_workflow_id
from afl_stream.wire.new_records import NewContinue
from afl_stream.wire.payload_schema import event_schema_text, returns_of
from afl_stream.wire.reader import BodyReader, compile_body_reader
from afl_stream.wire.schema_source import SchemaLog, SchemaSource, SchemasTopicSource
from afl_stream.wire.shapes import RECORD_TYPES, shape_of
from afl_stream.wire.structured_header import (
    CURRENT_START,
    STRUCTURED_HEADER,
    HeaderForm,
    attributes_of,
    check_structured,
    header,
)
from afl_stream.wire.versions import CURRENT, HEADERS, check_version
from afl_stream.wire.writer import BodyWriter, compile_body_writer, compile_event_writer

CONTENT_TYPE_HEADER: Final = "content-type"
_JSON_CONTENTS: Final = frozenset({JSON_CONTENT, CLOUD_EVENT_CONTENT})
_TELLING_HEADERS: Final = frozenset({*HEADERS, CONTENT_TYPE_HEADER, VALUE_SCHEMA_HEADER})
#: The headers of every record that a release of ours has written, or what its structured header has instead.
_OWN_HEADERS: Final = frozenset({*HEADERS, "ce_id", "ce_type", "ce_source"})
#: The headers that say nothing new: nearly every record has just these.
_USUAL_CONTENTS: Final = frozenset({*(version.encode() for version in CURRENT), b"application/avro"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A framing, and the place where the schemas of its ids are kept.

    `by_guid` returns the schema of a GUID, and raises as the source does; records name those in a header, or the ids of
    the source. None: no header names a schema of the source.
    """

    framing: Framing
    source: SchemaSource
    by_guid: Callable[[UUID], WriterSchema] | None = None


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
        header_form: HeaderForm = HeaderForm.COMPACT,
        event_form: Callable[[str], EventForm | None] = lambda _facet: None,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        """Take the framing to write with, and others to read.

        `event_form` says how events of a facet are written; None: with the framing.
        """
        #: How those who write records with this codec write their headers. Either form is read.
        self.header_form = header_form
        self._event_form = event_form
        self._wire = wire
        self._wires = (wire, *also_reads)
        self._max_bytes = max_event_bytes
        self._lock = threading.Lock()
        self._writers: dict[tuple[type, str], tuple[bytes, BodyWriter]] = {}
        self._event_writers: dict[tuple[str, str], EventWriter] = {}
        #: Readers by what names the schema: the first bytes of a record, framing and id, or the header that names it.
        self._readers: dict[bytes, BodyReader] = {}
        #: The returns that schemas of events describe, by the first bytes of their records.
        self._returns: dict[bytes, DeclaredReturns] = {}
        self._head_sizes = tuple(dict.fromkeys(len(each.framing.frame(0, b"")) for each in self._wires))
        self._clock_s = clock_s
        #: By wire: how many losses its source had when schemas were first found missing, and when that was.
        self._missing_since: dict[int, tuple[int, float]] = {}

    def encode(self, message: Message | NewContinue, topic: str = "") -> bytes:
        """Return the value of a record; an Event gets no typed payload here.

        Raises ValueRefused, EventTooLarge, and SchemaUnavailable when its schema could not be announced.
        """
        entry = self._writers.get((message.__class__, topic))
        if entry is None:
            entry = self.announce(message, topic)
        out = bytearray(entry[0])
        entry[1](out, message)  # type: ignore[arg-type]  # a new record has the fields that are written
        if len(out) > self._max_bytes:
            raise EventTooLarge(f"record {_record_name(message)}", len(out), self._max_bytes)
        return bytes(out)

    def has_announced(self, message: Message, topic: str = "") -> bool:
        """Return whether records of this type can be encoded for the topic without asking for their schema."""
        return (message.__class__, topic) in self._writers

    def announce(self, message: Message | NewContinue, topic: str = "") -> tuple[bytes, BodyWriter]:
        """Announce the schema of a record's type, and return the beginning of its values and the writer of the rest.

        Raises SchemaUnavailable.
        """
        name = _record_name(message)
        header = self._announced_header(shape_of(name).schema, topic)
        made = self._writers[(message.__class__, topic)] = (header, compile_body_writer(name))
        return made

    def announce_schema(self, schema: WriterSchema, topic: str) -> None:
        """Announce the schema of records that others will write to a topic. Raises SchemaUnavailable."""
        self._announced_header(schema, topic)

    def can_read(self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> bool:
        """Return whether `decode` would ask no one for the value's schema, or finds that it cannot be read."""
        try:
            for name, content in headers:
                if name == VALUE_SCHEMA_HEADER and content is not None:
                    schema_of_header(content)
                    return content in self._readers
            for wire in self._wires:
                if value and wire.framing.claims(value):
                    return value[: wire.framing.unframe(value)[1]] in self._readers
        except Unreadable:
            return True
        return True

    def event_writer(
        self,
        facet: str,
        params: Sequence[Mapping[str, Any]],
        scope: TypeScope | None = None,
        topic: str = "",
        *,
        returns: DeclaredReturns | None = None,
        source: str = "/afl-stream",
    ) -> EventWriter:
        """Return the writer of a facet's events; the same signature gives the same writer.

        `params` are [{"name", "type"}] with qualified type names; the schema describes `returns`, and a CloudEvent
        names its `source`. Raises TypeUnknown and SchemaUnavailable.
        """
        scope = scope or TypeScope()
        key = (topic, json.dumps([facet, [(p["name"], p["type"]) for p in params], _used(params, scope), returns]))
        writer = self._event_writers.get(key)
        if writer is None:
            body = compile_event_writer(params, scope)
            schema = parse_schema_text(event_schema_text(facet, params, scope, returns))
            form = self._event_form(facet)
            if form is not None and form.is_json:
                writer = JsonEventWriter(
                    facet, schema, params, scope, returns, max_bytes=self._max_bytes, source=source,
                    in_cloud_event=form is EventForm.CLOUDEVENTS,
                )  # fmt: skip
            else:
                header = self._announced_header(schema, topic, self._wire_of(form))
                writer = EventWriter(facet, schema, header, body, self._max_bytes)
            self._event_writers[key] = writer
        return writer

    def decode(
        self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = (), *, json_allowed: bool = False
    ) -> Message:
        """Return the record in a value. JSON is read where it is allowed: answers, commands, events of both kinds.

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
        declared_json, named_schema = False, None
        for name, content in headers:
            if content is None:
                continue
            if name == STRUCTURED_HEADER:
                if not content.startswith(CURRENT_START):
                    check_structured(content)
            elif content not in _USUAL_CONTENTS and name in _TELLING_HEADERS:
                if name == CONTENT_TYPE_HEADER:
                    declared_json = content.partition(b";")[0].strip().lower() in _JSON_CONTENTS
                elif name == VALUE_SCHEMA_HEADER:
                    named_schema = content
                else:
                    check_version(HEADERS[name], content.decode("utf-8", "replace"))
        if named_schema is not None:
            return self._reader_of_header(named_schema, headers)(value, 0)
        if not declared_json or not json_allowed:
            for size in self._head_sizes:
                reader = self._readers.get(value[:size])
                if reader is not None:
                    return reader(value, size)
        if json_allowed and (declared_json or looks_like_json(value)):
            return decode_json(value)
        for index, wire in enumerate(self._wires):
            if wire.framing.claims(value):
                schema_id, start = wire.framing.unframe(value)
                return self._compile_reader(index, schema_id, value[:start], headers)(value, start)
        raise Unreadable(Reason.BAD_MAGIC, f"the value begins with {value[:2].hex(' ')}, which is no known framing")

    def returns_of(self, value: bytes | None) -> DeclaredReturns | None:
        """Return what the schema of an event that was decoded here says about its facet's returns; None: nothing."""
        if value is not None:
            for size in self._head_sizes:
                returns = self._returns.get(value[:size])
                if returns is not None:
                    return returns
            if looks_like_json(value):
                return returns_in_json(value)
        return None

    def _announced_header(self, schema: WriterSchema, topic: str, wire: Wire | None = None) -> bytes:
        wire = wire or self._wire
        return wire.framing.frame(wire.source.announce(schema, topic), b"")

    def _wire_of(self, form: EventForm | None) -> Wire | None:
        """Return what writes Avro in this form; None: what writes all records."""
        if form is None:
            return None
        framing = SingleObjectFraming if form is EventForm.AVRO else RegistryFraming
        return next((wire for wire in self._wires if isinstance(wire.framing, framing)), None)

    def keep_announced(self) -> None:
        """Announce again the schemas that were announced and are gone. Raises SchemaUnavailable."""
        for wire in self._wires:
            wire.source.keep_announced()

    def _reader_of_header(self, content: bytes, headers: Iterable[tuple[str, bytes | None]]) -> BodyReader:
        """Return the reader for the schema that a header names, which only a registry can know."""
        reader = self._readers.get(content)
        if reader is not None:
            return reader
        schema_id = schema_of_header(content)
        for index, wire in enumerate(self._wires):
            if wire.by_guid is not None:
                return self._compile_reader(index, schema_id, content, headers)
        wanted = "its schema is in a registry, and no registry is set (registry.url)"
        raise Unreadable(Reason.UNKNOWN_SCHEMA, f"header {VALUE_SCHEMA_HEADER} names {schema_id}: {wanted}")

    def _compile_reader(
        self, index: int, schema_id: int | UUID, head: bytes, headers: Iterable[tuple[str, bytes | None]]
    ) -> BodyReader:
        """Make the reader of the records whose first bytes, or whose header, are `head`, which names a schema."""
        source, by_guid = self._wires[index].source, self._wires[index].by_guid
        try:
            if isinstance(schema_id, UUID):
                assert by_guid is not None
                schema = by_guid(schema_id)
            else:
                schema = source.by_id(schema_id)
        except SchemaUnknown as error:
            waited = ""
            # Its writer announced the schema before it wrote the record: a topic that lacks it has lost it.
            if _is_ours(headers) and (why := source.lack(_time_ms(header(headers, "ce_time")))) is not None:
                if self._waits_for_schemas(index, source.losses):
                    raise SchemaGone(error.schema_id, why) from error
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
                self._returns.pop(forgotten, None)
            self._readers[head] = reader
            # A value whose schema a header names has no first bytes to tell it by.
            if not isinstance(schema_id, UUID) and (returns := returns_of(schema.root)) is not None:
                self._returns[head] = returns
        return reader

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


def single_object_codec(
    log: SchemaLog,
    *,
    max_event_bytes: int = MAX_EVENT_BYTES,
    header_form: HeaderForm = HeaderForm.COMPACT,
    event_form: Callable[[str], EventForm | None] = lambda _facet: None,
) -> Codec:
    """Return the codec for deployments without a schema registry, over the schemas topic."""
    wire = single_object_wire(log)
    return Codec(wire, max_event_bytes=max_event_bytes, header_form=header_form, event_form=event_form)


def single_object_wire(log: SchemaLog) -> Wire:
    """Return Avro's single-object encoding, over the schemas topic.

    The schemas of this release's own records are built in: no record of the topic replaces them.
    """
    known = [shape_of(name).schema for name in RECORD_TYPES if name != Event.__name__]
    return Wire(framing=SingleObjectFraming(), source=SchemasTopicSource(log, known))


def _record_name(message: object) -> str:
    return StepContinue.__name__ if isinstance(message, NewContinue) else type(message).__name__


def _is_ours(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Return whether these headers are those that a release of ours gives its records."""
    given = dict(headers)
    return {*given, *attributes_of(given.get(STRUCTURED_HEADER))} >= _OWN_HEADERS


def _time_ms(written: str | None) -> int | None:
    """Return when a record says that it was written; None when it does not say so in one of our forms."""
    try:
        return int(datetime.fromisoformat(written or "").timestamp() * 1000)
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
