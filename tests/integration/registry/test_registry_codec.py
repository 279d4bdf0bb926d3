"""A codec on a real registry: subjects, refusals, faults on the way, and Confluent's serializers on the other side."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from afl_stream.errors import Reason, SchemaUnavailable, Unreadable
from afl_stream.registry.errors import SchemaIncompatible, SchemaNotRegistered
from afl_stream.resources import schema_text
from afl_stream.wire.framing import VALUE_SCHEMA_HEADER
from afl_stream.wire.messages import Event, ExternalEvent, FailureReason, Message, StepContinue, StepFailed
from tests.eventually import eventually
from tests.integration.registry.faulty_proxy import Fault, FaultyProxy
from tests.integration.registry.world import RegistryParties
from tests.unit.stream.wire.test_record_codec import MESSAGES
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

TAGS: dict[str, Any] = {"name": "tags", "type": {"type": "ArrayType", "elementType": "String"}}
PARAMS: list[dict[str, Any]] = [{"name": "amount", "type": "Double"}, TAGS]
#: Other types for the same names.
OTHER_PARAMS: list[dict[str, Any]] = [{"name": "amount", "type": "String"}, TAGS]
API = "/apis/ccompat/v7"


def an_event(**payload: object) -> Event:
    return Event(
        id="w:1#1", workflow_id="w", execution_id="e", step_id="w:1", event_type="shop.Pay", state="event.Created",
        payload=payload, attempt=1, created_at=1,
    )  # fmt: skip


def a_topic() -> str:
    return f"afl.events.{uuid.uuid4().hex}"


def test_confluents_deserializer_reads_our_events(registry: RegistryServer, parties: RegistryParties) -> None:
    topic = a_topic()
    event = an_event(amount=2.5, tags=["a", None, "ö"])
    value = parties.codec(registry.url).event_writer("shop.Pay", PARAMS, topic=topic).encode(event)

    context = SerializationContext(topic, MessageField.VALUE)
    read = AvroDeserializer(parties.client(registry.url))(value, context)

    assert read["step_id"] == "w:1"
    assert (read["payload"]["amount"], read["payload"]["tags"]) == (2.5, ["a", None, "ö"])


def test_confluents_serializer_writes_what_we_read_and_the_same_bytes(
    registry: RegistryServer, parties: RegistryParties
) -> None:
    topic = a_topic()
    text = schema_text("step_continue")
    codec = parties.codec(registry.url, subject_strategy="topic_record_name")
    answer = StepContinue(step_id="w:1", result={"total": 7}, workflow_id="w")
    ours = codec.encode(answer, topic)
    theirs = AvroSerializer(parties.client(registry.url), text)
    fields = {"step_id": "w:1", "result": {"total": {"value": 7}}, "workflow_id": "w"}

    value = theirs(fields, SerializationContext(topic, MessageField.VALUE))

    assert value[:1] == ours[:1] == b"\0"
    assert value[5:] == ours[5:]
    assert parties.codec(registry.url).decode(value) == answer


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_confluents_classes_read_each_record_and_write_its_bytes_again(
    message: Message, registry: RegistryServer, parties: RegistryParties
) -> None:
    topic = a_topic()
    ours = parties.codec(registry.url, subject_strategy="topic_record_name").encode(message, topic)

    theirs = read_and_written_by_confluent(ours, topic, parties.client(registry.url))

    assert theirs[5:] == ours[5:]
    assert parties.codec(registry.url).decode(theirs) == message


@pytest.mark.parametrize("tags", [None, [], ["a", None, "ö" * 100]])
def test_confluents_classes_read_events_and_write_their_bytes_again(
    tags: list[str | None] | None, registry: RegistryServer, parties: RegistryParties
) -> None:
    topic, event = a_topic(), an_event(amount=-0.5, tags=tags)
    ours = parties.codec(registry.url).event_writer("shop.Pay", PARAMS, topic=topic).encode(event)

    theirs = read_and_written_by_confluent(ours, topic, parties.client(registry.url))

    assert theirs == ours
    assert parties.codec(registry.url).decode(theirs) == event


def read_and_written_by_confluent(value: bytes, topic: str, client: SchemaRegistryClient) -> bytes:
    """Return a value that Confluent's classes have read, and written again with the schema that it names."""
    context = SerializationContext(topic, MessageField.VALUE)
    text = client.get_schema(int.from_bytes(value[1:5], "big")).schema_str
    assert text is not None
    written = AvroSerializer(client, text)(AvroDeserializer(client)(value, context), context)
    assert isinstance(written, bytes)
    return written


def test_a_schema_that_a_header_names_is_read(registry: RegistryServer, parties: RegistryParties) -> None:
    answer = StepContinue(step_id="w:1", result={"total": 7})
    value = parties.codec(registry.url).encode(answer, a_topic())

    read = parties.codec(registry.url).decode(value[5:], [(VALUE_SCHEMA_HEADER, value[:5])], json_allowed=True)

    assert read == answer


def test_a_guid_is_refused_for_good_by_a_registry_that_knows_none(
    registry: RegistryServer, parties: RegistryParties
) -> None:
    headers: list[tuple[str, Any]] = []
    context = SerializationContext("t", MessageField.VALUE, headers)
    body = header_schema_id_serializer(b"\x02a\0", context, SchemaId("AVRO", 1, str(uuid.uuid4())))

    with pytest.raises(Unreadable, match="does not know schemas by GUID") as refused:
        parties.codec(registry.url).decode(body, headers)

    assert refused.value.reason is Reason.UNKNOWN_SCHEMA


@pytest.mark.parametrize(
    ("strategy", "subject", "shared"),
    [
        ("topic_name", "{topic}-value", "afl.control-afl.v1.StepFailed"),
        ("record_name", "afl.payload.shop.Pay", "afl.v1.StepFailed"),
        ("topic_record_name", "{topic}-afl.payload.shop.Pay", "afl.control-afl.v1.StepFailed"),
    ],
)
def test_schemas_are_under_the_subjects_of_the_strategy(
    strategy: str, subject: str, shared: str, registry: RegistryServer, parties: RegistryParties
) -> None:
    topic, codec = a_topic(), parties.codec(registry.url, subject_strategy=strategy)

    codec.event_writer("shop.Pay", PARAMS, topic=topic)
    codec.encode(StepFailed(step_id="w:1", error=FailureReason(type="T", message="m")), "afl.control")

    subjects = parties.client(registry.url).get_subjects()
    assert subject.format(topic=topic) in subjects
    assert shared in subjects


def test_without_registering_a_schema_has_to_be_there(registry: RegistryServer, parties: RegistryParties) -> None:
    topic = a_topic()
    careful = parties.codec(registry.url, auto_register="off")

    with pytest.raises(SchemaNotRegistered, match=rf"{topic}: .*subject {topic}-value.*afl-stream schemas register"):
        careful.event_writer("shop.Pay", PARAMS, topic=topic)
    parties.codec(registry.url).event_writer("shop.Pay", PARAMS, topic=topic)
    value = careful.event_writer("shop.Pay", PARAMS, topic=topic).encode(an_event(amount=1.0))

    assert value.startswith(b"\0")
    assert parties.client(registry.url).get_versions(f"{topic}-value") == [1]


def test_an_incompatible_schema_is_refused_by_topic_subject_and_place(
    registry: RegistryServer, parties: RegistryParties
) -> None:
    topic = a_topic()
    parties.codec(registry.url).event_writer("shop.Pay", PARAMS, topic=topic)
    parties.client(registry.url).set_compatibility(f"{topic}-value", "FULL_TRANSITIVE")

    with pytest.raises(SchemaIncompatible) as refused:
        parties.codec(registry.url).event_writer("shop.Pay", OTHER_PARAMS, topic=topic)

    text = str(refused.value)
    assert f"{topic}: a record with the schema of subject {topic}-value cannot be written" in text
    assert "afl.payload.shop.Pay" in text
    assert "DOUBLE" in text
    assert "STRING" in text


def test_an_id_that_the_registry_does_not_have_is_unreadable_for_good(
    registry: RegistryServer, parties: RegistryParties
) -> None:
    with pytest.raises(Unreadable, match="no schema with id 99999999 is in the registry") as refused:
        parties.codec(registry.url).decode(b"\0" + (99_999_999).to_bytes(4, "big") + b"\x02a")

    assert refused.value.reason is Reason.UNKNOWN_SCHEMA


def test_a_schema_that_refers_to_another_is_read_whole(registry: RegistryServer, parties: RegistryParties) -> None:
    client, stem = parties.client(registry.url), uuid.uuid4().hex
    whole = json.loads(schema_text("external_event"))
    value_field = next(
        entry for entry in whole["fields"] if "afl.v1.Value" in json.dumps(entry) or "Value" in json.dumps(entry)
    )
    shared = _definition(value_field["type"], "Value")
    client.register_schema(f"{stem}-part", Schema(json.dumps(shared), "AVRO"))
    _replace(value_field, "Value", "afl.v1.Value")
    reference = SchemaReference("afl.v1.Value", f"{stem}-part", 1)
    schema_id = client.register_schema(f"{stem}-value", Schema(json.dumps(whole), "AVRO", [reference]))
    event = ExternalEvent(name="paid", value={"sum": 3}, workflow_id="w", id="e-1")
    ours = parties.codec(registry.url).encode(event, "afl.external")

    read = parties.codec(registry.url).decode(b"\0" + schema_id.to_bytes(4, "big") + ours[5:])

    assert read == event


def test_another_url_is_tried_when_the_first_does_not_answer(
    registry: RegistryServer, parties: RegistryParties
) -> None:
    answer = StepContinue(step_id="w:1", result={})

    with FaultyProxy(registry.port) as proxy:
        proxy.fault = Fault.RESET
        codec = parties.codec(f"{proxy.url(API)}, {registry.url}")
        value = codec.encode(answer, a_topic())

    assert proxy.met > 0
    assert parties.codec(registry.url).decode(value) == answer


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in (Fault.NONE, Fault.SLOW)])
def test_a_registry_that_answers_wrongly_is_waited_for_and_not_believed(
    fault: Fault, registry: RegistryServer, parties: RegistryParties
) -> None:
    answer = StepContinue(step_id="w:1", result={"total": 7})
    value = parties.codec(registry.url).encode(answer, a_topic())
    with FaultyProxy(registry.port) as proxy:
        url = proxy.url(API)
        reader, writer = parties.codec(url, timeout_s=1), parties.codec(url, timeout_s=1)
        proxy.fault = fault

        with pytest.raises(SchemaUnavailable, match=r"in the registry http://127\.0\.0\.1:"):
            reader.decode(value)
        with pytest.raises(SchemaUnavailable, match=r"in the registry http://127\.0\.0\.1:"):
            writer.encode(answer, a_topic())
        proxy.fault = Fault.NONE

        # A registry that was silent is left alone for a moment.
        eventually(lambda: not is_away(lambda: reader.decode(value)))
        eventually(lambda: not is_away(lambda: writer.encode(answer, a_topic())))
        assert reader.decode(value) == reader.decode(writer.encode(answer, a_topic())) == answer


def is_away(step: Callable[[], object]) -> bool:
    try:
        step()
    except SchemaUnavailable:
        return True
    return False


def _definition(node: object, name: str) -> object:
    """Return the definition of a named type inside a type."""
    if isinstance(node, dict):
        if node.get("name") == name and node.get("type") == "record":
            return {"namespace": "afl.v1", **node}
        return next((found for each in node.values() if (found := _definition(each, name)) is not None), None)
    if isinstance(node, list):
        return next((found for each in node if (found := _definition(each, name)) is not None), None)
    return None


def _replace(node: object, name: str, by: str) -> None:
    """Put a name in the place of a definition inside a type."""
    places = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, each in list(places):
        if isinstance(each, dict) and each.get("name") == name and each.get("type") == "record":
            node[key] = by  # type: ignore[index]  # it is one of the two that have places
        else:
            _replace(each, name, by)
