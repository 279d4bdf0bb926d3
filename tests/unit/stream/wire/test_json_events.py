"""Events as JSON: what any reader of JSON sees, and what our own readers make of it."""

import json
from typing import Any

import fastavro
import pytest

from afl.core.declared_returns import DeclaredReturns
from afl_stream.errors import ConfigError, EventTooLarge, Unreadable, ValueRefused
from afl_stream.settings.config import RegistrySettings, StreamConfig, WireSettings
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.schema import parse_schema_text
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.event_writers import EventForm, EventWriter
from afl_stream.wire.messages import Event, StepContinue
from afl_stream.wire.schema_source import InMemorySchemaLog, schema_headers
from tests.unit.stream.wire.test_payload_records import SCOPE, an_event, array_of

PARAMS: list[dict[str, Any]] = [
    {"name": "order", "type": "Long"},
    {"name": "amount", "type": "Double"},
    {"name": "items", "type": array_of("shop.Item")},
    {"name": "note", "type": "String"},
]
RETURNS = DeclaredReturns(("receipt",), ("note",))
JSON_FORMS = (EventForm.JSON, EventForm.CLOUDEVENTS)
PAYLOAD = {
    "mood": [1, {"good": True}],
    "amount": 2,
    "order": 2**63 - 1,
    "items": [{"sku": "größe", "price": 1, "tags": None}, None],
}


def codec_of(form: EventForm | None) -> Codec:
    return single_object_codec(InMemorySchemaLog(), event_form=lambda _facet: form)


def writer_of(form: EventForm | None, scope: TypeScope = SCOPE) -> EventWriter:
    return codec_of(form).event_writer("shop.Ship", PARAMS, scope, returns=RETURNS, source="/here")


def data_of(form: EventForm, value: bytes) -> dict[str, Any]:
    found = json.loads(value)
    return dict(found["data"] if form is EventForm.CLOUDEVENTS else found)


@pytest.mark.parametrize("form", JSON_FORMS)
def test_a_payload_is_the_plain_json_of_its_values_and_what_is_absent_has_no_member(form: EventForm) -> None:
    data = data_of(form, writer_of(form).encode(an_event(PAYLOAD)))

    # A Double is written as one, the Long keeps all of its digits, and `note` was not given.
    assert json.dumps(data["payload"], ensure_ascii=False) == (
        '{"order": 9223372036854775807, "amount": 2.0, '
        '"items": [{"sku": "größe", "price": 1.0, "tags": null}, null], "mood": [1, {"good": true}]}'
    )
    assert data["returns"] == {"required": ["receipt"], "optional": ["note"]}
    assert {name: data[name] for name in ("type", "event_type", "step_id", "workflow_id", "attempt")} == {
        "type": "Event", "event_type": "shop.Ship", "step_id": "w:ab", "workflow_id": "w", "attempt": 1,
    }  # fmt: skip
    assert "deadline" not in data
    assert "answer_token" not in data


@pytest.mark.parametrize("form", JSON_FORMS)
def test_every_codec_reads_the_same_event_from_each_form(form: EventForm) -> None:
    reader = codec_of(None)
    avro = reader.event_writer("shop.Ship", PARAMS, SCOPE, returns=RETURNS)
    value = writer_of(form).encode(an_event(PAYLOAD))

    assert reader.decode(value, json_allowed=True) == reader.decode(avro.encode(an_event(PAYLOAD)))
    assert reader.returns_of(value) == RETURNS
    with pytest.raises(Unreadable, match="bad_magic"):
        reader.decode(value)


def test_a_structured_event_is_a_cloudevent_by_its_own_members() -> None:
    found = json.loads(writer_of(EventForm.CLOUDEVENTS).encode(an_event({})))
    del found["data"]

    assert found == {
        "specversion": "1.0",
        "id": "w:ab#1",
        "source": "/here",
        "type": "afl.event.shop.Ship",
        "subject": "w:ab",
        "time": "2025-11-24T16:00:00.000Z",
        "datacontenttype": "application/json",
        "attempt": 1,
    }


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"order": 1.0}, "payload.order"),
        ({"order": 2**63}, "payload.order"),
        ({"amount": float("nan")}, "payload.amount"),
        ({"items": [{"price": "x"}]}, "payload.items[0].price"),
        ({"items": [{"colour": "red"}]}, "payload.items[0]"),
        ({"note": "\ud800"}, "payload.note"),
        ({"extra": {1: 2}}, "payload.extra"),
        ([], "payload"),
    ],
)
def test_what_avro_refuses_json_refuses_at_the_same_place(payload: Any, path: str) -> None:
    said = []
    for form in (EventForm.AVRO, EventForm.JSON):
        with pytest.raises(ValueRefused) as caught:
            writer_of(form).encode(an_event(payload))
        said.append(str(caught.value))

    assert [text[: len(path)] for text in said] == [path, path]


def test_an_event_that_is_too_large_is_refused_by_its_bytes() -> None:
    codec = single_object_codec(InMemorySchemaLog(), max_event_bytes=1_000, event_form=lambda _facet: EventForm.JSON)
    with pytest.raises(EventTooLarge):
        codec.event_writer("shop.Ship", PARAMS, SCOPE).encode(an_event({"note": "x" * 1_000}))


def test_an_answer_may_come_as_the_data_of_a_cloudevent() -> None:
    value = (
        b'{"specversion": "1.0", "id": "1", "source": "/node", "type": "done", '
        b'"data": {"step_id": "w:ab", "result": {"receipt": "r"}}}'
    )
    headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]

    read = codec_of(None).decode(value, headers, json_allowed=True)

    assert read == StepContinue(step_id="w:ab", result={"receipt": "r"})


def test_the_setting_of_a_name_wins_over_that_of_a_pattern_and_of_all() -> None:
    wire = WireSettings(events="json", facet_events="shop.*=avro, shop.Charge=cloudevents")

    forms = [wire.event_form(facet) for facet in ("shop.Charge", "shop.Ship", "desk.Ask")]

    assert forms == ["cloudevents", "avro", "json"]
    assert WireSettings().event_form("shop.Charge") is None


@pytest.mark.parametrize(
    ("wire", "key"),
    [
        (WireSettings(events="confluent"), "wire.events"),
        (WireSettings(facet_events="shop.*=confluent"), "wire.facet_events"),
        (WireSettings(facet_events="shop.Charge=xml"), "wire.facet_events"),
        (WireSettings(facet_events="shop.Charge"), "wire.facet_events"),
    ],
)
def test_a_form_that_cannot_be_written_is_refused_at_the_start(wire: WireSettings, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        StreamConfig(wire=wire)


def test_with_a_registry_events_may_have_its_framing() -> None:
    StreamConfig(wire=WireSettings(events="confluent"), registry=RegistrySettings(url="http://registry:8081"))


def test_a_schemas_record_says_its_fingerprint_and_its_facet() -> None:
    writer = writer_of(EventForm.AVRO)
    value = writer.encode(an_event({}))
    headers = dict(schema_headers(writer.schema))
    parsed = json.loads(writer.schema.text)

    assert headers["afl_facet"] == b"shop.Ship"
    assert headers["afl_fingerprint"] == value[2:10].hex().encode()
    # As fastavro writes a fingerprint, so that a table of schemas is one line.
    canonical = fastavro.schema.to_parsing_canonical_form(parsed)
    assert fastavro.schema.fingerprint(canonical, "CRC-64-AVRO").encode() == headers["afl_fingerprint"]


def test_the_schema_of_another_record_says_which_it_is() -> None:
    log = InMemorySchemaLog()
    codec = single_object_codec(log)
    codec.encode(StepContinue(step_id="w:ab"))

    ((_, text),) = log.records
    headers = dict(schema_headers(parse_schema_text((text or b"").decode())))
    assert headers["afl_record"] == b"afl.v1.StepContinue"
    assert "afl_facet" not in headers


def test_an_event_with_deadline_and_token_keeps_both() -> None:
    event = Event(
        id="w:ab#1", workflow_id="w", execution_id="w/1", step_id="w:ab", event_type="shop.Ship",
        state="Created", payload={"note": None}, attempt=2, created_at=1_764_000_000_000, deadline=1_764_000_060_000,
        answer_token="1.abc",
    )  # fmt: skip

    assert codec_of(None).decode(writer_of(EventForm.JSON).encode(event), json_allowed=True) == event
