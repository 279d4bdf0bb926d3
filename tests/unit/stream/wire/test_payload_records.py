"""Events typed by their facet's signature."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afl.core.declared_returns import DeclaredReturns
from afl_stream.errors import TypeUnknown, ValueRefused
from afl_stream.limits import MAX_DESCRIBED_RETURNS
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.event_writers import EventWriter
from afl_stream.wire.messages import Event
from afl_stream.wire.payload_schema import avro_name, event_schema_text, read_name
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.typed_values import check_value

SCHEMAS: Mapping[str, Any] = {
    "shop.Item": [
        {"name": "sku", "type": "String"},
        {"name": "price", "type": "Double"},
        {"name": "tags", "type": {"type": "ArrayType", "elementType": "String"}},
    ],
    "shop.Node": [{"name": "label", "type": "Json"}, {"name": "next", "type": "shop.Node"}],
    "shop.Empty": [],
}
SCOPE = TypeScope(schemas=SCHEMAS, facets=frozenset({"shop.Pay"}))


def an_event(payload: Mapping[str, object], facet: str = "shop.Ship") -> Event:
    return Event(
        id="w:ab#1",
        workflow_id="w",
        execution_id="e",
        step_id="w:ab",
        event_type=facet,
        state="event.Created",
        payload=payload,
        attempt=1,
        created_at=1_764_000_000_000,
    )


def array_of(element: object) -> dict[str, object]:
    return {"type": "ArrayType", "elementType": element}


def writer_for(codec: Codec, facet: str = "shop.Ship", **params: object) -> EventWriter:
    return codec.event_writer(facet, [{"name": name, "type": kind} for name, kind in params.items()], SCOPE)


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


def library_reads(writer: EventWriter, value: bytes) -> dict[str, Any]:
    body = io.BytesIO(value[10:])
    record = fastavro.schemaless_reader(body, fastavro.parse_schema(json.loads(writer.schema.text)), None)
    assert body.read() == b""
    assert isinstance(record, dict)
    return record


def test_a_payload_is_a_record_with_a_field_for_each_parameter(codec: Codec) -> None:
    writer = writer_for(codec, amount="Double", items=array_of("shop.Item"))
    value = writer.encode(an_event({"amount": 2, "items": [{"sku": "a", "price": 1.5, "tags": None}, None]}))

    assert library_reads(writer, value)["payload"] == {
        "amount": 2.0,
        "items": [{"sku": "a", "price": 1.5, "tags": None, "_absent": []}, None],
        "_extra": {},
        "_absent": [],
    }
    assert codec.decode(value) == an_event({"amount": 2.0, "items": [{"sku": "a", "price": 1.5, "tags": None}, None]})


def test_the_payload_is_named_after_the_facet_and_its_schemas_after_themselves() -> None:
    text = event_schema_text("shop.Ship", [{"name": "item", "type": "shop.Item"}], SCOPE)
    schema = json.loads(text)
    payload = next(field["type"] for field in schema["fields"] if field["name"] == "payload")

    assert schema["namespace"] + "." + schema["name"] == "afl.v1.Event"
    assert payload["name"] == "afl.payload.shop.Ship"
    assert payload["fields"][0]["type"][1]["name"] == "afl.schema.shop.Item"
    assert all(field["doc"] for field in payload["fields"])


def test_absent_and_null_stay_different(codec: Codec) -> None:
    writer = writer_for(codec, a="Long", b="Long", item="shop.Item")
    event = an_event({"b": None, "item": {"price": None}})

    assert codec.decode(writer.encode(event)) == event
    record = library_reads(writer, writer.encode(event))["payload"]
    assert record["_absent"] == ["a"]
    assert record["item"]["_absent"] == ["sku", "tags"]


def test_entries_that_the_signature_does_not_declare_travel_too(codec: Codec) -> None:
    writer = writer_for(codec, a="Long")
    event = an_event({"a": 1, "retry": {"times": 3, "policy": None}, "big": True})

    assert codec.decode(writer.encode(event)) == event
    assert set(library_reads(writer, writer.encode(event))["payload"]["_extra"]) == {"retry", "big"}


def test_a_schema_may_contain_itself(codec: Codec) -> None:
    event = an_event({"node": {"label": [1], "next": {"label": "x", "next": {"label": None, "next": None}}}})

    assert codec.decode(writer_for(codec, node="shop.Node").encode(event)) == event


def test_a_step_reference_travels_as_a_map(codec: Codec) -> None:
    event = an_event({"of": {"_facet_ref": True, "step_id": "w:cd", "workflow_id": "w", "facet_name": "shop.Pay"}})

    assert codec.decode(writer_for(codec, of="shop.Pay").encode(event)) == event


def test_parameters_may_have_the_names_of_the_bookkeeping_fields(codec: Codec) -> None:
    writer = writer_for(codec, _absent=array_of("String"), _extra="Json", _absent_="Long")
    full = an_event({"_absent": ["x"], "_extra": {"a": 1}, "_absent_": 5, "undeclared": 1})

    assert codec.decode(writer.encode(full)) == full
    assert codec.decode(writer.encode(an_event({"_extra": None}))) == an_event({"_extra": None})


@pytest.mark.parametrize(
    "name", ["event", "4", "a b", "naïve", "a_x2e_b", "_x2e_", "_x2.", "x-1", "", "_xzz_", "pos_x1"]
)
def test_every_name_becomes_one_that_avro_takes_and_comes_back(name: str) -> None:
    written = avro_name(name)

    assert read_name(written) == name
    if name:
        fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": written, "type": "int"}]})


@given(name=st.text(alphabet="_x2ef.a0é", max_size=12))
def test_no_two_names_become_the_same(name: str) -> None:
    assert read_name(avro_name(name)) == name


def test_names_that_the_compiler_would_not_take_travel(codec: Codec) -> None:
    writer = writer_for(codec, "example.4.Count", **{"a b": "Long", "1st": "String"})
    event = an_event({"a b": 1}, "example.4.Count")

    assert codec.decode(writer.encode(event)) == event


def test_the_same_signature_makes_the_same_text() -> None:
    params = [{"name": "item", "type": "shop.Item"}, {"name": "other", "type": "shop.Item"}]

    assert event_schema_text("shop.Ship", params, SCOPE) == event_schema_text("shop.Ship", params, SCOPE)


def test_a_type_that_nobody_declared_is_named_with_its_parameter(codec: Codec) -> None:
    with pytest.raises(TypeUnknown, match=r"parameter a\[\]: 'shop.Gone'"):
        writer_for(codec, a=array_of("shop.Gone"))


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("Long", 2**70, "payload.p: a Long was expected, found the integer 1180591620717411303424, beyond 64 bits"),
        ("Long", "7", "payload.p: a Long was expected, found the String '7'"),
        ("Long", 3.0, "payload.p: a Long was expected, found the Double 3.0"),
        ("Int", True, "payload.p: an Int was expected, found the Boolean true"),
        ("Double", math.nan, "payload.p: a Double was expected, found the Double nan"),
        ("Double", False, "payload.p: a Double was expected, found the Boolean false"),
        ("String", 1, "payload.p: a String was expected, found the integer 1"),
        ("Boolean", 0, "payload.p: a Boolean was expected, found the integer 0"),
        ("Json", {"a": [2**70]}, "payload.p.a[0]: a JSON value was expected"),
        ("Json", {1: 2}, "payload.p[1]: a JSON value was expected, found a map key that is the integer 1"),
        (
            array_of("shop.Item"),
            [{}, {}, {"price": "x"}],
            "payload.p[2].price: a Double was expected, found the String 'x'",
        ),
        ("shop.Item", {"colour": 1}, "payload.p: a shop.Item was expected, found the undeclared field 'colour'"),
        ("shop.Item", "x", "payload.p: a shop.Item was expected, found the String 'x'"),
        (array_of("Long"), "abc", "payload.p: a [Long] was expected, found the String 'abc'"),
        ("shop.Pay", 7, "payload.p: a shop.Pay was expected, found the integer 7"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_place(codec: Codec, kind: object, value: object, said: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        writer_for(codec, p=kind).encode(an_event({"p": value}))
    assert str(caught.value).startswith(said)


def test_an_undeclared_entry_that_is_no_afl_value_is_refused_by_place(codec: Codec) -> None:
    with pytest.raises(ValueRefused, match=r"payload\.mix\.times: a JSON value was expected, found the Double inf"):
        writer_for(codec).encode(an_event({"mix": {"times": math.inf}}))


def test_a_lone_surrogate_is_refused_in_every_kind_of_place(codec: Codec) -> None:
    writer = writer_for(codec, a="String")

    with pytest.raises(ValueRefused, match=r"payload\.a: .*lone surrogate"):
        writer.encode(an_event({"a": "\udc00"}))
    with pytest.raises(ValueRefused, match=r"execution_id: .*lone surrogate"):
        writer.encode(replace(an_event({}), execution_id="\udc00"))


# Any AFL type, and any value of it: what the property below draws from.

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "String": st.text(max_size=80),
    "Int": st.integers(-(2**63), 2**63 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Double": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "Boolean": st.booleans(),
    "Json": JSON_VALUES,
    "shop.Pay": st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3),
}


def values_of(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    if isinstance(kind, dict):
        return st.none() | st.lists(values_of(kind["elementType"], depth + 1), max_size=3)
    if kind in SCALARS:
        return st.none() | SCALARS[kind]
    if depth > 3:
        return st.none()
    fields = {field["name"]: values_of(field["type"], depth + 1) for field in SCHEMAS[kind]}
    return st.none() | st.fixed_dictionaries({}, optional=fields)


TYPES = st.recursive(st.sampled_from([*SCALARS, *SCHEMAS]), lambda inner: inner.map(array_of), max_leaves=3)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a signature and a payload that fits it, with some parameters absent and some entries undeclared."""
    params = draw(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True), TYPES, max_size=4))
    payload = draw(st.fixed_dictionaries({}, optional={name: values_of(kind) for name, kind in params.items()}))
    extras = draw(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=2))
    return params, {**{key: value for key, value in extras.items() if key not in params}, **payload}


@settings(max_examples=150, deadline=None)
@given(call=calls())
def test_any_payload_of_any_signature_reads_as_it_was_written(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    params, payload = call
    codec = single_object_codec(InMemorySchemaLog())
    writer = writer_for(codec, **params)
    event = an_event(payload)

    value = writer.encode(event)

    expected = {
        name: check_value(item, params[name], SCHEMAS) if name in params else item for name, item in payload.items()
    }
    assert codec.decode(value) == an_event(expected)
    again = io.BytesIO()
    record = library_reads(writer, value)
    fastavro.schemaless_writer(again, fastavro.parse_schema(json.loads(writer.schema.text)), record)
    # Unions of long and double in Value let the library write back the very same bytes.
    assert again.getvalue() == value[10:]


def test_a_schema_tells_of_returns_by_fields_without_bytes_and_other_returns_are_another_schema(codec: Codec) -> None:
    params = [{"name": "n", "type": "Long"}]
    plain = codec.event_writer("shop.Ship", params)
    reported = codec.event_writer("shop.Ship", params, returns=DeclaredReturns(("id", "größe"), ("note",)))
    other = codec.event_writer("shop.Ship", params, returns=DeclaredReturns(("id",), ("note", "größe")))
    value = reported.encode(an_event({"n": 1}))

    assert value[10:] == plain.encode(an_event({"n": 1}))[10:]
    assert len({plain.schema.fingerprint, reported.schema.fingerprint, other.schema.fingerprint}) == 3
    assert codec.decode(value) == an_event({"n": 1})
    assert codec.returns_of(value) == DeclaredReturns(("id", "größe"), ("note",))
    assert library_reads(reported, value)["payload"]["n"] == 1


def test_more_returns_than_a_record_may_have_fields_without_bytes_are_not_told(codec: Codec) -> None:
    names = tuple(f"r{number}" for number in range(MAX_DESCRIBED_RETURNS + 1))
    for returns, reported in ((names[1:], True), (names, False)):
        writer = codec.event_writer("shop.Ship", [], returns=DeclaredReturns(returns))
        value = writer.encode(an_event({}))
        assert codec.decode(value) == an_event({})
        assert (codec.returns_of(value) is not None) is reported
