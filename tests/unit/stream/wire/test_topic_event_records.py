"""Topic events as anybody writes them: in Avro by us or by others, in JSON with kcat."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import fastavro
import pytest

from afl_stream.audit.lines import line_of
from afl_stream.errors import Reason, Unreadable, ValueRefused
from afl_stream.resources import schema_text
from afl_stream.transport import Record
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.headers import cloud_event_id, header, headers_for
from afl_stream.wire.messages import TopicEvent
from afl_stream.wire.schema_source import InMemorySchemaLog

EVENT = TopicEvent(
    id="e-1",
    request_id="r-17",
    topic="answers",
    kind="output",
    offset=3,
    data={"text": "Grüße 🐢", "tokens": [1, 2.5, None, True]},
    publisher="writer",
    publisher_type="Node",
    consumed=["e-0", "d-4"],
    context={"assistant_request_id": "r-17", "attributes": {}},
    created_at=1_764_000_000_123,
    status="running",
    number=7,
    last=8,
    after="a1b2",
)
LONE = TopicEvent(data="hello")


@pytest.fixture
def log() -> InMemorySchemaLog:
    return InMemorySchemaLog()


@pytest.fixture
def codec(log: InMemorySchemaLog) -> Codec:
    return single_object_codec(log)


def entries_of(event: TopicEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in TopicEvent.__slots__}


def in_avro(log: InMemorySchemaLog, schema: dict[str, Any], record: dict[str, object]) -> bytes:
    """Write a record as a service with its own schema would."""
    text = json.dumps(schema).encode()
    log.append(hashlib.sha256(text).hexdigest().encode(), text)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + body.getvalue()


@pytest.mark.parametrize("event", [EVENT, LONE], ids=["in full", "data alone"])
def test_an_event_reads_as_it_was_written(codec: Codec, event: TopicEvent) -> None:
    assert codec.decode(codec.encode(event)) == event


def test_another_avro_library_reads_it_by_the_schema_alone(codec: Codec) -> None:
    schema = fastavro.parse_schema(json.loads(schema_text("topic_event")))

    read = fastavro.schemaless_reader(io.BytesIO(codec.encode(EVENT)[10:]), schema)

    assert isinstance(read, dict)
    assert {name: read[name] for name in ("id", "kind", "offset", "consumed", "number")} == {
        "id": "e-1",
        "kind": "output",
        "offset": 3,
        "consumed": {"value": [{"value": "e-0"}, {"value": "d-4"}]},
        "number": 7,
    }
    assert read["data"]["value"]["text"] == {"value": "Grüße 🐢"}


def test_a_service_with_a_schema_of_its_own_writes_what_it_has_to_say(codec: Codec, log: InMemorySchemaLog) -> None:
    schema = {
        "type": "record",
        "name": "afl.v1.TopicEvent",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Answer", "fields": [{"name": "n", "type": "int"}]}},
            {"name": "consumed", "type": {"type": "array", "items": "string"}},
            {"name": "colour", "type": "string"},
        ],
    }

    value = in_avro(log, schema, {"data": {"n": 4}, "consumed": ["e-1"], "colour": "red"})

    assert codec.decode(value) == TopicEvent(data={"n": 4}, consumed=["e-1"])


@pytest.mark.parametrize("event", [EVENT, LONE], ids=["in full", "data alone"])
def test_an_event_is_written_in_json_too(codec: Codec, event: TopicEvent) -> None:
    entries = {name: value for name, value in entries_of(event).items() if value not in ("", None)}

    assert codec.decode(json.dumps({"type": "TopicEvent", **entries}).encode(), json_allowed=True) == event


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"kind": "shout"}, Reason.WRONG_TYPE),
        ({"kind": None}, Reason.WRONG_TYPE),
        ({"offset": -1}, Reason.NUMBER_OUT_OF_RANGE),
        ({"offset": 2**63}, Reason.NUMBER_OUT_OF_RANGE),
        ({"consumed": "e-1"}, Reason.WRONG_TYPE),
        ({"consumed": ["e-1", 2]}, Reason.WRONG_TYPE),
        ({"context": ["r"]}, Reason.WRONG_TYPE),
        ({"number": "7"}, Reason.WRONG_TYPE),
        ({"data": "\ud800"}, Reason.BAD_UTF8),
    ],
)
def test_an_event_without_a_meaning_is_unreadable_for_a_reason(
    codec: Codec, entries: dict[str, object], reason: Reason
) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(json.dumps({"type": "TopicEvent", **entries}).encode(), json_allowed=True)
    assert caught.value.reason is reason


def test_what_avro_may_say_and_has_no_meaning_is_unreadable_too(codec: Codec) -> None:
    with pytest.raises(Unreadable, match=r"TopicEvent\.kind: 'shout' is none of"):
        codec.decode(codec.encode(TopicEvent(kind="shout")))


def test_data_that_is_no_value_is_refused_by_its_place(codec: Codec) -> None:
    with pytest.raises(ValueRefused, match=r"TopicEvent\.data\.items\[1\]: .*Python type set"):
        codec.encode(TopicEvent(data={"items": [1, {2}]}))


def test_an_event_that_is_sent_again_has_the_same_id() -> None:
    assert cloud_event_id(EVENT) == "e-1"
    assert header(headers_for(EVENT, source="/here"), "ce_subject") == "r-17"
    assert header(headers_for(EVENT, source="/here"), "ce_type") == "afl.TopicEvent"


def test_what_two_consumers_take_are_two_records() -> None:
    taken = [TopicEvent(id="e-1", kind="consume", publisher=name) for name in ("a", "b")]

    assert [cloud_event_id(event) for event in taken] == ["e-1:a", "e-1:b"]


def test_an_audit_tells_what_was_published_and_by_whom() -> None:
    line = line_of(Record("afl.pubsub.Desk.answers", 0, 1, b"r-17", b"v", (), 0), EVENT)

    assert {name: line[name] for name in ("kind", "request", "name", "publisher", "event_id", "data")} == {
        "kind": "topic.output",
        "request": "r-17",
        "name": "answers",
        "publisher": "writer",
        "event_id": "e-1",
        "data": EVENT.data,
    }
