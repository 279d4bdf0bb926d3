"""Writers of a facet's events: as Avro behind a framing, or as JSON that any language reads without a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from afl.core.declared_returns import DeclaredReturns
from afl.core.types import AflType, check_typed
from afl.core.values import Refused, check_json, check_key, describe_value, refused_in, segment
from afl_stream.errors import EventTooLarge
from afl_stream.limits import MAX_DESCRIBED_RETURNS
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.afl_values import value_refused
from afl_stream.wire.avro.schema import WriterSchema
from afl_stream.wire.messages import Event
from afl_stream.wire.new_records import NewEvent
from afl_stream.wire.structured_header import SPEC_VERSION, quoted, rfc3339
from afl_stream.wire.versions import CURRENT, SUPPORTED
from afl_stream.wire.writer import BodyWriter

AVRO_CONTENT: Final = b"application/avro"
JSON_CONTENT: Final = b"application/json"
#: The content type of a CloudEvent in structured mode.
CLOUD_EVENT_CONTENT: Final = b"application/cloudevents+json"
#: The member of an event in JSON that says which returns its answer must have, and which it may have.
RETURNS_MEMBER: Final = "returns"
_PAYLOAD: Final = "payload"


class EventForm(StrEnum):
    """How an event's value is written. Readers take every form."""

    AVRO = "avro"
    CONFLUENT = "confluent"
    JSON = "json"
    CLOUDEVENTS = "cloudevents"

    @property
    def is_json(self) -> bool:
        """Return whether any reader of JSON reads it."""
        return self in (EventForm.JSON, EventForm.CLOUDEVENTS)


class EventWriter:
    """A writer of the events of one facet, typed by its signature."""

    #: The content type of what it writes.
    content = AVRO_CONTENT

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


class JsonEventWriter(EventWriter):
    """A writer of events as JSON: the fields of the Avro record by their names, with the payload as plain JSON.

    An absent parameter has no member, and one that is null is null; undeclared entries stand beside the others. In
    structured mode (`in_cloud_event`) that object is the `data` of a CloudEvent.
    """

    def __init__(
        self,
        facet: str,
        schema: WriterSchema,
        params: Sequence[Mapping[str, Any]],
        scope: TypeScope,
        returns: DeclaredReturns | None,
        *,
        max_bytes: int,
        source: str,
        in_cloud_event: bool,
    ) -> None:
        self.facet = facet
        self.schema = schema
        self.content = CLOUD_EVENT_CONTENT if in_cloud_event else JSON_CONTENT
        self._max_bytes = max_bytes
        self._types: dict[str, AflType] = {param["name"]: param["type"] for param in params}
        self._fields = {
            name: {entry["name"]: entry["type"] for entry in entries} for name, entries in scope.schemas.items()
        }
        members = [f'"type":"Event","event_type":{quoted(facet)}']
        if returns is not None and len(returns.required) + len(returns.optional) <= MAX_DESCRIBED_RETURNS:
            described = {"required": list(returns.required), "optional": list(returns.optional)}
            members.append(f'"{RETURNS_MEMBER}":{_compact(described)}')
        members += [f'"{name}":{quoted(version)}' for name, version in zip(SUPPORTED, CURRENT, strict=True)]
        #: What is the same in all events of the facet comes first.
        self._start = f"{{{','.join(members)},"
        self._cloud_event = None
        if in_cloud_event:
            self._cloud_event = (
                f'{{"specversion":"{SPEC_VERSION}","source":{quoted(source)},"type":{quoted(f"afl.event.{facet}")},'
                f'"datacontenttype":"{JSON_CONTENT.decode()}","id":'
            )

    def encode(self, event: Event | NewEvent) -> bytes:
        """Return the record's value. Raises ValueRefused, which names the path, and EventTooLarge."""
        event_id, step_id = quoted(event.id), quoted(event.step_id)
        deadline = "" if event.deadline is None else f'"deadline":{event.deadline},'
        token = "" if event.answer_token is None else f'"answer_token":{quoted(event.answer_token)},'
        text = (
            f'{self._start}"id":{event_id},"workflow_id":{quoted(event.workflow_id)},'
            f'"execution_id":{quoted(event.execution_id)},"step_id":{step_id},"state":{quoted(event.state)},'
            f'"attempt":{event.attempt},"created_at":{event.created_at},{deadline}{token}'
            f'"{_PAYLOAD}":{_compact(self._fitted(event.payload))}}}'
        )
        if self._cloud_event is not None:
            text = (
                f'{self._cloud_event}{event_id},"subject":{step_id},"time":"{rfc3339(event.created_at)}",'
                f'"attempt":{event.attempt},"data":{text}}}'
            )
        value = text.encode()
        if len(value) > self._max_bytes:
            raise EventTooLarge(f"event {event.id} of {self.facet}", len(value), self._max_bytes)
        return value

    def _fitted(self, payload: Any) -> dict[str, Any]:
        """Return the payload as its types take it, declared parameters first. Raises ValueRefused."""
        try:
            if not isinstance(payload, Mapping):
                raise Refused("map of parameters", describe_value(payload))
            fitted: dict[str, Any] = {}
            for name, afl_type in self._types.items():
                if name in payload:
                    fitted[name] = _checked(name, payload[name], afl_type, self._fields)
            for name, value in payload.items():
                if name not in self._types:
                    key = check_key(name, "Json")
                    fitted[key] = _checked(key, value, "Json", self._fields)
            return fitted
        except Refused as refused:
            raise value_refused(refused_in(refused, payload), _PAYLOAD) from None


def _checked(name: str, value: Any, afl_type: AflType, fields: Mapping[str, Mapping[str, AflType]]) -> Any:
    try:
        return check_json(value) if afl_type == "Json" else check_typed(value, afl_type, fields.get)
    except Refused as refused:
        raise refused.inside(segment(name)) from None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def used_schemas(params: Sequence[Mapping[str, Any]], scope: TypeScope) -> list[object]:
    """Return the schemas that a signature reaches: a changed schema under the same name makes another writer."""
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
