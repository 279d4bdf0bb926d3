"""External events as anybody writes them: in JSON with kcat, in Avro with a schema of ours or of their own."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import fastavro
import pytest

from afl_stream.errors import EventTooLarge, Reason, Unreadable
from afl_stream.wire.codec import Codec, addressed, single_object_codec
from afl_stream.wire.messages import ExternalEvent
from afl_stream.wire.schema_source import InMemorySchemaLog


@pytest.fixture
def log() -> InMemorySchemaLog:
    return InMemorySchemaLog()


@pytest.fixture
def codec(log: InMemorySchemaLog) -> Codec:
    return single_object_codec(log)


def in_json(codec: Codec, entries: dict[str, object], key: bytes | None = b"w") -> ExternalEvent:
    event = codec.decode(json.dumps(entries).encode(), json_allowed=True)
    assert isinstance(event, ExternalEvent)
    return addressed(event, key)


def in_avro(log: InMemorySchemaLog, fields: list[dict[str, Any]], record: dict[str, object]) -> bytes:
    """Write an event as a client with its own schema would."""
    schema = {"type": "record", "name": "afl.v1.ExternalEvent", "fields": fields}
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    text = json.dumps(schema).encode()
    log.append(hashlib.sha256(text).hexdigest().encode(), text)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + body.getvalue()


@pytest.mark.parametrize("data", ["", "yes", 0, -1.5, False, None, [], {}, {"by": "ann", "lines": [1, {"n": None}]}])
def test_the_three_entries_of_a_person_with_kcat_are_enough(codec: Codec, data: object) -> None:
    event = in_json(codec, {"workflow_id": "order-17", "name": "paid", "data": data})

    assert event == ExternalEvent(workflow_id="order-17", name="paid", value=data)


@pytest.mark.parametrize(
    ("entries", "value"),
    [
        ({}, None),
        ({"value": 1}, 1),  # The entry of the release before.
        ({"data": 2, "value": 1}, 2),
        ({"data": None, "value": 1}, None),
    ],
)
def test_data_counts_before_value_and_neither_is_null(codec: Codec, entries: dict[str, object], value: object) -> None:
    assert in_json(codec, {"workflow_id": "w", "name": "paid", **entries}).value == value


@pytest.mark.parametrize("entries", [{}, {"workflow_id": ""}])
def test_an_event_that_names_no_workflow_is_for_that_of_its_key(codec: Codec, entries: dict[str, object]) -> None:
    assert in_json(codec, {"name": "paid", **entries}, key=b"order-18").workflow_id == "order-18"


def test_the_workflow_that_an_event_names_counts_before_its_key(codec: Codec) -> None:
    assert in_json(codec, {"name": "paid", "workflow_id": "order-17"}, key=b"order-18").workflow_id == "order-17"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, Reason.MISSING_FIELD),
        (b"", Reason.MISSING_FIELD),
        (b"\xff", Reason.BAD_KEY),
        (b"no such id", Reason.BAD_ID),
        (b"x" * 129, Reason.BAD_ID),
    ],
)
def test_an_event_without_a_workflow_in_it_or_its_key_is_unreadable(
    codec: Codec, key: bytes | None, reason: Reason
) -> None:
    with pytest.raises(Unreadable, match=r"ExternalEvent|key") as caught:
        in_json(codec, {"name": "paid"}, key=key)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("entries", "reason", "named"),
    [
        ({"name": ""}, Reason.BAD_ID, "1 to 249 characters"),
        ({"name": "x" * 250}, Reason.BAD_ID, "1 to 249 characters"),
        ({"name": 7}, Reason.WRONG_TYPE, "ExternalEvent.name"),
        ({"name": None}, Reason.WRONG_TYPE, "ExternalEvent.name"),
        ({"name": "paid", "id": 7}, Reason.WRONG_TYPE, "ExternalEvent.id"),
        ({"name": "paid", "workflow_id": "a b"}, Reason.BAD_ID, "workflow id"),
        ({"name": "paid", "data": 2**63}, Reason.NUMBER_OUT_OF_RANGE, "ExternalEvent.data"),
        ({"name": "paid", "value": 2**63}, Reason.NUMBER_OUT_OF_RANGE, "ExternalEvent.value"),
        ({"type": "ExternalEvent", "data": 1}, Reason.MISSING_FIELD, "without name"),
    ],
)
def test_what_is_wrong_with_an_event_is_said_by_the_name_of_the_entry(
    codec: Codec, entries: dict[str, object], reason: Reason, named: str
) -> None:
    with pytest.raises(Unreadable, match=named) as caught:
        in_json(codec, entries)
    assert caught.value.reason is reason


@pytest.mark.parametrize("name", ["data", "value"])
@pytest.mark.parametrize(("avro_type", "data"), [("string", "yes"), (["null", "long"], None), ("double", 0.5)])
def test_a_client_writes_data_of_its_own_type_under_either_name(
    codec: Codec, log: InMemorySchemaLog, name: str, avro_type: object, data: object
) -> None:
    fields = [{"name": "workflow_id", "type": "string"}, {"name": "name", "type": "string"}]
    value = in_avro(log, [*fields, {"name": name, "type": avro_type}], {"workflow_id": "w", "name": "n", name: data})

    assert codec.decode(value) == ExternalEvent(workflow_id="w", name="n", value=data)


def test_a_client_may_leave_out_the_workflow_and_the_data(codec: Codec, log: InMemorySchemaLog) -> None:
    value = in_avro(log, [{"name": "name", "type": "string"}], {"name": "n"})

    event = codec.decode(value)

    assert event == ExternalEvent(workflow_id="", name="n")
    assert addressed(event, b"w").workflow_id == "w"


def test_bytes_are_no_data(codec: Codec, log: InMemorySchemaLog) -> None:
    fields = [{"name": "name", "type": "string"}, {"name": "data", "type": "bytes"}]
    value = in_avro(log, fields, {"name": "n", "data": b"raw"})

    with pytest.raises(Unreadable, match=r"ExternalEvent\.data"):
        codec.decode(value)


@pytest.mark.parametrize("data", ["x" * 100_000, {"lines": ["é" * 1_000] * 50}])
def test_data_of_a_hundred_kilobytes_arrives_whole(codec: Codec, data: object) -> None:
    event = ExternalEvent(workflow_id="w", name="n", value=data)

    assert codec.decode(codec.encode(event)) == event
    assert in_json(codec, {"workflow_id": "w", "name": "n", "data": data}) == event


def test_an_event_over_the_limit_is_refused_at_its_sender(log: InMemorySchemaLog) -> None:
    codec = single_object_codec(log, max_event_bytes=1_000)

    with pytest.raises(EventTooLarge, match=r"ExternalEvent takes 2\d\d\d bytes, max_event_bytes allows 1000"):
        codec.encode(ExternalEvent(workflow_id="w", name="n", value="x" * 2_000))
