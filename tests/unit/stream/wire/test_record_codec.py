"""Records as bytes: what is written reads as it was, and what cannot be read says why."""

import hashlib
import io
import json
import math
from typing import Any

import fastavro
import pytest

from afl_stream.errors import (
    EventTooLarge,
    NewerFormat,
    Reason,
    SchemaGone,
    SchemaUnavailable,
    Unreadable,
    ValueRefused,
)
from afl_stream.limits import SCHEMA_WAIT_S
from afl_stream.resources import schema_text
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.schema import WriterSchema
from afl_stream.wire.codec import Codec, Wire, decode_key, single_object_codec
from afl_stream.wire.framing import SingleObjectFraming
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import (
    CancelWorkflow,
    Event,
    ExternalEvent,
    FailureReason,
    Lifecycle,
    Message,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
    StoreClaim,
)
from afl_stream.wire.schema_source import InMemorySchemaLog, SchemasTopicSource
from afl_stream.wire.shapes import shape_of
from afl_stream.wire.versions import HEADERS
from tests.bad_values import nested
from tests.scenarios.other_writers import written_by_another

VALUES: dict[str, object] = {
    "null": None,
    "yes": True,
    "no": False,
    "least": -(2**63),
    "most": 2**63 - 1,
    "double": -0.1,
    "text": "Grüße 🐢" * 50,
    "array": [1, [2.5, []], {}],
    "map": {"": {"a": None}},
}

MESSAGES: list[Message] = [
    StepContinue(step_id="w:ab", result=VALUES),
    StepContinue(
        step_id="w:ab", workflow_id="w", event_id="w:ab#1", attempt=1, answer_token="t", agent="host-1", group="g"
    ),
    StepFailed(step_id="w:ab", error=FailureReason(type="Declined", message="no funds"), attempt=2),
    StepUpdate(step_id="w:ab", partial={"pct": 40}),
    StartWorkflow(workflow_id="w", workflow="shop.Buy", inputs=VALUES, program="f", requested_by="me", created_at=1),
    StartWorkflow(workflow_id="w", workflow="shop.Buy"),
    CancelWorkflow(workflow_id="w", reason="late"),
    ExternalEvent(workflow_id="w", name="paid", value=VALUES, id="x", created_at=5),
    ExternalEvent(workflow_id="w", name="paid"),
    Lifecycle(workflow_id="w", kind="workflow.completed", at=7, workflow="shop.Buy", outputs={"a": 1}),
    Lifecycle(
        workflow_id="w",
        kind="step.failed",
        at=7,
        step_id="w:ab",
        facet="shop.Pay",
        error=FailureReason(type="T", message="m"),
    ),
    ProgramDefinition.packed("f", '{"type":"Program"}'),
    ProgramPointer(workflow="shop.Buy", fingerprint="f"),
    StoreClaim(store="s", mark="m", number=3, location="host:/store", host="host", at=5),
    Pause(scope="facet", name="shop.Charge", is_paused=True, at=5, reason="the bank is down"),
]


def an_event(**payload: object) -> Event:
    return Event(
        id="w:ab#1",
        workflow_id="w",
        execution_id="e",
        step_id="w:ab",
        event_type="shop.Pay",
        state="event.Created",
        payload=payload,
        attempt=1,
        created_at=1_764_000_000_000,
    )


@pytest.fixture
def log() -> InMemorySchemaLog:
    return InMemorySchemaLog()


@pytest.fixture
def codec(log: InMemorySchemaLog) -> Codec:
    return single_object_codec(log)


def written_by_client(log: InMemorySchemaLog, schema: dict[str, Any], record: object) -> bytes:
    """Write a record as a client with its own schema would: announced, framed, encoded by a library."""
    parsed = fastavro.parse_schema(schema)
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    text = json.dumps(schema).encode()
    log.append(hashlib.sha256(text).hexdigest().encode(), text)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, parsed, record)
    return b"\xc3\x01" + fingerprint + body.getvalue()


def an_answer_schema(*fields: dict[str, Any], name: str = "afl.v1.StepContinue") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "step_id", "type": "string"}, *fields]}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_record_reads_as_it_was_written_also_in_another_process(log: InMemorySchemaLog, message: Message) -> None:
    value = single_object_codec(log).encode(message)

    assert single_object_codec(log.reader()).decode(value) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_an_avro_library_reads_the_same_body(codec: Codec, message: Message) -> None:
    body = io.BytesIO(codec.encode(message)[10:])
    file = {
        "StepContinue": "step_continue",
        "StepFailed": "step_failed",
        "StepUpdate": "step_update",
        "StartWorkflow": "start_workflow",
        "CancelWorkflow": "cancel_workflow",
        "ExternalEvent": "external_event",
        "Lifecycle": "lifecycle",
        "ProgramDefinition": "program_definition",
        "ProgramPointer": "program_pointer",
        "StoreClaim": "store_claim",
        "Pause": "pause",
    }[type(message).__name__]
    schema = fastavro.parse_schema(json.loads(schema_text(file)))

    record = fastavro.schemaless_reader(body, schema, None)

    assert body.read() == b""
    again = io.BytesIO()
    fastavro.schemaless_writer(again, schema, record)
    assert again.getvalue() == body.getvalue()


def test_an_event_without_a_signature_keeps_every_entry(codec: Codec) -> None:
    event = an_event(amount=1.5, items=[{"sku": "a"}], note=None)

    assert codec.decode(codec.encode(event)) == event


def test_a_value_is_framed_as_single_object(codec: Codec) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    assert value[:2] == b"\xc3\x01"
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(schema_text("step_continue")))
    assert value[2:10].hex() == fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")


def test_a_schema_is_announced_before_its_first_use_and_once(log: InMemorySchemaLog, codec: Codec) -> None:
    codec.encode(StepContinue(step_id="w:ab"))
    codec.encode(StepContinue(step_id="w:cd"))
    single_object_codec(log.reader()).encode(StepContinue(step_id="w:ef"))

    assert [value for _, value in log.records] == [schema_text("step_continue").encode()]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"", Reason.EMPTY_VALUE),
        (b"\x00\x00\x00\x00\x07abc", Reason.BAD_MAGIC),
        (b"plain text", Reason.BAD_MAGIC),
        (b"\xc3\x01short", Reason.TRUNCATED),
        (b"\xc3\x01" + b"\x11" * 8 + b"body", Reason.UNKNOWN_SCHEMA),
    ],
)
def test_what_is_no_record_is_unreadable_for_a_reason(codec: Codec, value: bytes | None, reason: Reason) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(value)
    assert caught.value.reason is reason


def named_values_in_records(values: dict[str, Any]) -> list[Message]:
    return [
        StepContinue(step_id="w:ab", result=values),
        StepUpdate(step_id="w:ab", partial=values),
        StartWorkflow(workflow_id="w", workflow="shop.Buy", inputs=values),
    ]


def test_each_named_value_of_a_record_is_as_deep_as_values_may_be(codec: Codec) -> None:
    for message in named_values_in_records({"order": nested(100)}):
        assert codec.decode(codec.encode(message)) == message

    written = json.dumps({"step_id": "w:ab", "result": {"order": nested(100)}}).encode()
    assert codec.decode(written, json_allowed=True) == StepContinue(step_id="w:ab", result={"order": nested(100)})


def test_a_named_value_of_a_record_that_nests_deeper_is_refused(codec: Codec) -> None:
    for message in named_values_in_records({"order": nested(101)}):
        with pytest.raises(ValueRefused, match="found a value nested deeper than 100 levels"):
            codec.encode(message)


def test_an_event_takes_parameters_as_deep_as_values_may_be(codec: Codec) -> None:
    writer = codec.event_writer("shop.Pay", [{"name": "order", "type": "Json"}])
    event = an_event(order=nested(100), extra=nested(100))

    assert codec.decode(writer.encode(event)) == event


def test_a_record_cut_short_anywhere_is_unreadable(codec: Codec) -> None:
    value = codec.encode(StepContinue(step_id="w:ab", result=VALUES, agent="host"))

    for size in range(len(value)):
        with pytest.raises(Unreadable):
            codec.decode(value[:size])


def test_bytes_after_the_end_are_not_ignored(codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(codec.encode(CancelWorkflow(workflow_id="w")) + b"\x00")
    assert caught.value.reason is Reason.TRAILING_BYTES


def test_text_that_is_no_utf8_is_unreadable(codec: Codec) -> None:
    value = codec.encode(CancelWorkflow(workflow_id="w", reason="abc")).replace(b"abc", b"a\xffc")

    with pytest.raises(Unreadable) as caught:
        codec.decode(value)
    assert caught.value.reason is Reason.BAD_UTF8


def test_an_answer_with_a_step_id_that_is_none_is_unreadable(codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(codec.encode(StepContinue(step_id="nonsense")))
    assert caught.value.reason is Reason.BAD_ID


def test_a_writer_may_declare_a_record_in_place_of_the_result(log: InMemorySchemaLog, codec: Codec) -> None:
    result = {
        "type": "record",
        "name": "acme.Receipt",
        "fields": [
            {"name": "receipt", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "kind", "type": {"type": "enum", "name": "acme.Kind", "symbols": ["CARD", "CASH"]}},
        ],
    }
    value = written_by_client(
        log,
        an_answer_schema({"name": "result", "type": result}, {"name": "debug", "type": "int"}),
        {"step_id": "w:ab", "result": {"receipt": "r-17", "at": 1000, "kind": "CASH"}, "debug": 4},
    )

    assert codec.decode(value) == StepContinue(step_id="w:ab", result={"receipt": "r-17", "at": 1000, "kind": "CASH"})


def test_a_writer_may_leave_out_every_optional_field(log: InMemorySchemaLog, codec: Codec) -> None:
    value = written_by_client(log, an_answer_schema(), {"step_id": "w:ab"})

    assert codec.decode(value) == StepContinue(step_id="w:ab")


def test_a_field_of_another_type_is_checked_record_by_record(log: InMemorySchemaLog, codec: Codec) -> None:
    schema = an_answer_schema({"name": "attempt", "type": ["string", "long"]})

    assert codec.decode(written_by_client(log, schema, {"step_id": "w:ab", "attempt": 2})) == StepContinue(
        step_id="w:ab", attempt=2
    )
    with pytest.raises(Unreadable) as caught:
        codec.decode(written_by_client(log, schema, {"step_id": "w:ab", "attempt": "2"}))
    assert caught.value.reason is Reason.WRONG_TYPE


def test_bytes_in_a_result_are_no_afl_value(log: InMemorySchemaLog, codec: Codec) -> None:
    schema = an_answer_schema({"name": "result", "type": {"type": "map", "values": "bytes"}})

    with pytest.raises(Unreadable) as caught:
        codec.decode(written_by_client(log, schema, {"step_id": "w:ab", "result": {"x": b"raw"}}))
    assert caught.value.reason is Reason.WRONG_TYPE


def test_a_record_without_a_required_field_is_unreadable(log: InMemorySchemaLog, codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(written_by_client(log, an_answer_schema(name="afl.v1.StepFailed"), {"step_id": "w:ab"}))
    assert caught.value.reason is Reason.MISSING_FIELD


def test_a_record_that_is_none_of_ours_is_unreadable(log: InMemorySchemaLog, codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(written_by_client(log, an_answer_schema(name="acme.StepContinue"), {"step_id": "w:ab"}))
    assert caught.value.reason is Reason.UNKNOWN_TYPE


def test_a_record_of_a_newer_namespace_pauses(log: InMemorySchemaLog, codec: Codec) -> None:
    with pytest.raises(NewerFormat):
        codec.decode(written_by_client(log, an_answer_schema(name="afl.v2.StepContinue"), {"step_id": "w:ab"}))


def test_an_event_of_a_newer_step_schema_pauses(codec: Codec) -> None:
    newer = Event(
        id="w:ab#1",
        workflow_id="w",
        execution_id="e",
        step_id="w:ab",
        event_type="shop.Pay",
        state="event.Created",
        payload={},
        attempt=1,
        created_at=1,
        step_schema_version="2.0",
    )

    with pytest.raises(NewerFormat, match=r"step_schema_version 2\.0"):
        codec.decode(codec.encode(newer))


def test_a_header_of_a_newer_step_schema_pauses_before_anything_is_read(codec: Codec) -> None:
    with pytest.raises(NewerFormat):
        codec.decode(b"\xc3\x01", [("afl_step_schema_version", b"2.1")])


@pytest.mark.parametrize("header", HEADERS)
def test_each_of_the_three_versions_in_the_headers_pauses_when_it_is_newer(codec: Codec, header: str) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    with pytest.raises(NewerFormat, match=rf"{HEADERS[header]} 7\.0.*upgrade"):
        codec.decode(value, [(header, b"7.0")])
    assert codec.decode(value, [(header, b"0.9")]) == StepContinue(step_id="w:ab")


@pytest.mark.parametrize("component", HEADERS.values())
def test_each_of_the_three_versions_in_an_event_pauses_when_it_is_newer(codec: Codec, component: str) -> None:
    event = Event(
        id="w:ab#1",
        workflow_id="w",
        execution_id="e",
        step_id="w:ab",
        event_type="shop.Pay",
        state="event.Created",
        payload={},
        attempt=1,
        created_at=1,
        **{component: "7.0"},  # type: ignore[arg-type]  # by name
    )

    with pytest.raises(NewerFormat, match=rf"{component} 7\.0.*upgrade"):
        codec.decode(codec.encode(event))


def test_a_newer_minor_version_is_read(codec: Codec) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    assert codec.decode(value, [("afl_step_schema_version", b"1.9")]) == StepContinue(step_id="w:ab")


def test_an_event_over_the_limit_is_refused_with_both_sizes(log: InMemorySchemaLog) -> None:
    codec = single_object_codec(log, max_event_bytes=2_000)
    writer = codec.event_writer("shop.Pay", [{"name": "note", "type": "String"}])

    assert writer.encode(an_event(note="x" * 1_800))
    with pytest.raises(
        EventTooLarge, match=r"event w:ab#1 of shop\.Pay takes 20\d\d bytes, max_event_bytes allows 2000"
    ):
        writer.encode(an_event(note="x" * 2_000))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (StepContinue(step_id="w:ab", result={"x": 2**70}), "StepContinue.result.x: a JSON value was expected"),
        (
            StepContinue(step_id="w:ab", result={"x": [math.nan]}),
            r"result.x\[0\]: a JSON value was expected",
        ),
        (StepContinue(step_id="w:\ud800"), "StepContinue.step_id: a String was expected, found a lone surrogate"),
        (CancelWorkflow(workflow_id=7), "CancelWorkflow.workflow_id: a String was expected, found the integer 7"),  # type: ignore[arg-type] # a caller's mistake
        (StepContinue(step_id="w:ab", attempt="1"), "StepContinue.attempt: a Long was expected"),  # type: ignore[arg-type] # a caller's mistake
    ],
)
def test_what_is_no_afl_value_is_refused_when_it_is_written(codec: Codec, message: Message, said: str) -> None:
    with pytest.raises(ValueRefused, match=said):
        codec.encode(message)


def test_a_second_framing_is_read_beside_the_first(log: InMemorySchemaLog) -> None:
    class NumberedSchemas:
        """A registry that numbers its schemas from 1."""

        losses = 0

        def __init__(self) -> None:
            self.schemas: list[WriterSchema] = []

        def announce(self, schema: WriterSchema, topic: str) -> int:
            self.schemas.append(schema)
            return len(self.schemas)

        def by_id(self, schema_id: int) -> WriterSchema:
            return self.schemas[schema_id - 1]

        def lack(self, written_at_ms: int | None) -> str | None:
            return None

        def keep_announced(self) -> None:
            pass

    class FiveBytes:
        """A zero byte and four bytes of schema id."""

        def claims(self, value: bytes) -> bool:
            return value[:1] == b"\x00"

        def frame(self, schema_id: int, body: bytes) -> bytes:
            return b"\x00" + schema_id.to_bytes(4, "big") + body

        def unframe(self, value: bytes) -> tuple[int, int]:
            return int.from_bytes(value[1:5], "big"), 5

    registry = Wire(framing=FiveBytes(), source=NumberedSchemas())
    single_object = Wire(framing=SingleObjectFraming(), source=SchemasTopicSource(log))
    first = Codec(single_object)
    both = Codec(registry, also_reads=[single_object])
    message = StepContinue(step_id="w:ab", result={"a": 1})

    assert both.encode(message)[:5] == b"\x00\x00\x00\x00\x01"
    assert both.decode(both.encode(message)) == message
    assert both.decode(first.encode(message)) == message


def test_a_schemas_topic_that_is_away_is_not_an_unknown_schema(codec: Codec) -> None:
    class Away(InMemorySchemaLog):
        def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
            raise SchemaUnavailable("all", "the broker is away")

    value = written_by_another(codec, StepContinue(step_id="w:ab"))

    with pytest.raises(SchemaUnavailable):
        single_object_codec(Away()).decode(value)


def test_the_records_of_this_release_are_read_without_the_schemas_topic(codec: Codec) -> None:
    message = StepContinue(step_id="w:ab", result={"a": 1})

    assert single_object_codec(InMemorySchemaLog()).decode(codec.encode(message)) == message


def test_a_signature_gives_one_writer_and_a_changed_schema_another(codec: Codec) -> None:
    params = [{"name": "item", "type": "shop.Item"}]
    old = TypeScope(schemas={"shop.Item": [{"name": "sku", "type": "String"}]})
    new = TypeScope(schemas={"shop.Item": [{"name": "sku", "type": "Long"}]})

    assert codec.event_writer("shop.Pay", params, old) is codec.event_writer("shop.Pay", params, old)
    assert codec.event_writer("shop.Pay", params, old).schema != codec.event_writer("shop.Pay", params, new).schema


@pytest.mark.parametrize(
    ("key", "reason"), [(None, Reason.EMPTY_KEY), (b"", Reason.EMPTY_KEY), (b"\xff", Reason.BAD_KEY)]
)
def test_a_key_that_is_no_text_is_unreadable(key: bytes | None, reason: Reason) -> None:
    with pytest.raises(Unreadable) as caught:
        decode_key(key)
    assert caught.value.reason is reason


def test_a_key_is_text() -> None:
    assert decode_key(b"w:ab") == "w:ab"


def test_schemas_that_are_gone_are_waited_for_once_after_each_loss_and_not_for_good() -> None:
    class EmptiedLog(InMemorySchemaLog):
        """A schemas topic whose records are gone, for whatever reason it is."""

        def lack(self, written_at_ms: int | None) -> str | None:
            return "the topic is empty"

    now_s = [0.0]
    lost, other = (
        StepContinue(step_id="w:ab", result={"a": 1}),
        StepFailed(step_id="w:ab", error=FailureReason(type="E", message="no")),
    )
    writer, log = single_object_codec(InMemorySchemaLog()), EmptiedLog()
    wire = Wire(framing=SingleObjectFraming(), source=SchemasTopicSource(log))
    reader = Codec(wire, clock_s=lambda: now_s[0])
    reported = [headers_for(message, source="/agent", at_ms=0) for message in (lost, other)]
    values = [writer.encode(message) for message in (lost, other)]

    def is_given_up() -> None:
        with pytest.raises(Unreadable, match="was not announced again within 600 s") as caught:
            reader.decode(values[1], reported[1])
        assert caught.value.reason is Reason.UNKNOWN_SCHEMA

    with pytest.raises(SchemaGone, match="it was announced, and the topic is empty"):
        reader.decode(values[0], reported[0])
    now_s[0] = SCHEMA_WAIT_S - 1
    with pytest.raises(SchemaGone):
        reader.decode(values[1], reported[1])
    now_s[0] = SCHEMA_WAIT_S
    is_given_up()

    SchemasTopicSource(log.reader()).announce(shape_of("StepContinue").schema, "")
    assert reader.decode(values[0], reported[0]) == lost
    is_given_up()
    now_s[0] += 10 * SCHEMA_WAIT_S
    is_given_up()

    log.losses += 1
    with pytest.raises(SchemaGone):
        reader.decode(values[1], reported[1])
    now_s[0] += SCHEMA_WAIT_S
    is_given_up()
