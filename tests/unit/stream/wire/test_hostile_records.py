"""Bytes that are made to hurt: whatever they are, they are unreadable and nothing else."""

import contextlib
import hashlib
import json
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.avro.schema import parse_schema_text
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.messages import Event, StepContinue
from afl_stream.wire.schema_source import InMemorySchemaLog

ORDER = TypeScope(
    schemas={
        "shop.Item": [{"name": "sku", "type": "String"}, {"name": "price", "type": "Double"}],
        "shop.Node": [{"name": "next", "type": "shop.Node"}],
    }
)
PARAMS: list[dict[str, Any]] = [
    {"name": "items", "type": {"type": "ArrayType", "elementType": "shop.Item"}},
    {"name": "node", "type": "shop.Node"},
    {"name": "meta", "type": "Json"},
    {"name": "count", "type": "Long"},
]


def an_event() -> Event:
    return Event(
        id="w:ab#1",
        workflow_id="w",
        execution_id="e",
        step_id="w:ab",
        event_type="shop.Pay",
        state="event.Created",
        payload={
            "items": [{"sku": "a", "price": 1.5}, None, {"sku": "b"}],
            "node": {"next": {"next": {}}},
            "meta": {"a": [1, {"b": "text"}, None, True]},
            "more": "undeclared",
        },
        attempt=1,
        created_at=1_764_000_000_000,
        deadline=1_764_000_100_000,
    )


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


def reason_of(codec: Codec, value: bytes) -> Reason:
    with pytest.raises(Unreadable) as caught:
        codec.decode(value, json_allowed=True)
    return caught.value.reason


def announced(schema: dict[str, Any]) -> tuple[Codec, bytes]:
    """Return a codec that can look the schema up, and the frame of its records."""
    log = InMemorySchemaLog()
    text = json.dumps(schema)
    log.append(hashlib.sha256(text.encode()).hexdigest().encode(), text.encode())
    return single_object_codec(log), b"\xc3\x01" + parse_schema_text(text).fingerprint.to_bytes(8, "little")


def test_mutated_records_are_read_or_unreadable_and_nothing_else(codec: Codec) -> None:
    rng = random.Random(20_240_607)
    values = [
        codec.event_writer("shop.Pay", PARAMS, ORDER).encode(an_event()),
        codec.encode(an_event()),
        codec.encode(StepContinue(step_id="w:ab", result={"a": [1.5, {"b": None}], "c": "d" * 80}, agent="x")),
        b'{"step_id": "w:ab", "result": {"a": [1, 2.5, null, "x"]}, "attempt": 1}',
    ]
    outcomes: dict[str, int] = {}
    for _ in range(10_000):
        value = bytearray(rng.choice(values))
        for _ in range(rng.randint(1, 4)):
            # The frame is left alone most of the time: behind it is where the interesting bytes are.
            at = rng.randrange(10 if rng.random() < 0.9 else 0, len(value))
            match rng.randrange(4):
                case 0:
                    value[at] = rng.randrange(256)
                case 1:
                    value[at] ^= 1 << rng.randrange(8)
                case 2:
                    del value[at : at + rng.randint(1, 8)]
                case _:
                    value[at:at] = rng.randbytes(rng.randint(1, 8))
            if len(value) < 12:
                break
        try:
            codec.decode(bytes(value), json_allowed=True)
        except (Unreadable, NewerFormat) as error:
            outcomes[type(error).__name__] = outcomes.get(type(error).__name__, 0) + 1
    assert outcomes["Unreadable"] > 2_500


def test_random_bytes_behind_a_known_schema_are_read_or_unreadable(codec: Codec) -> None:
    rng = random.Random(7)
    frame = codec.encode(StepContinue(step_id="w:ab"))[:10]
    for _ in range(5_000):
        with contextlib.suppress(Unreadable):
            codec.decode(frame + rng.randbytes(rng.randint(0, 60)))


@pytest.mark.parametrize("levels", [109, 1_000, 5_000, 400_000])
def test_bytes_that_nest_without_end_do_not_end_the_process(codec: Codec, levels: int) -> None:
    frame = codec.encode(StepContinue(step_id="w:ab"))[:10]
    # One entry "a" whose value is an array of one array of one array ...
    body = b"\x08w:ab" + b"\x02\x02a" + b"\x0a\x02" * levels + b"\x00" + b"\x00" * levels

    assert reason_of(codec, frame + body) is Reason.TOO_DEEP


@pytest.mark.parametrize("levels", [200, 50_000])
def test_a_chain_of_records_that_nests_without_end_does_not_end_the_process(codec: Codec, levels: int) -> None:
    writer = codec.event_writer("shop.Pay", [{"name": "node", "type": "shop.Node"}], ORDER)
    event = an_event()
    value = writer.encode(Event(**{**{f: getattr(event, f) for f in event.__slots__}, "payload": {"node": {}}}))
    # An empty node is: null, one absent field named "next", end of list.
    empty = b"\x02\x00\x02\x08next\x00"
    assert value.count(empty) == 1

    assert reason_of(codec, value.replace(empty, b"\x02" * levels)) is Reason.TOO_DEEP


@pytest.mark.parametrize("count", [2**40, 2**62, -(2**62)])
def test_a_count_of_items_that_the_bytes_cannot_hold_is_refused_at_once(codec: Codec, count: int) -> None:
    frame = codec.encode(StepContinue(step_id="w:ab"))[:10]
    coded, number = bytearray(), (count << 1) ^ (count >> 63)
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    coded.append(number)

    assert reason_of(codec, frame + b"\x08w:ab" + bytes(coded) + b"\x00" * 20) is Reason.TRUNCATED


def test_a_negative_length_is_refused(codec: Codec) -> None:
    frame = codec.encode(StepContinue(step_id="w:ab"))[:10]

    assert reason_of(codec, frame + b"\x07w:ab" + b"\x00" * 20) is Reason.BAD_AVRO


def test_an_integer_of_more_than_64_bits_is_refused(codec: Codec) -> None:
    frame = codec.encode(StepContinue(step_id="w:ab"))[:10]

    assert reason_of(codec, frame + b"\x08w:ab" + b"\xff" * 9 + b"\x7f") is Reason.NUMBER_OUT_OF_RANGE
    assert reason_of(codec, frame + b"\x08w:ab" + b"\xff" * 30 + b"\x01") is Reason.BAD_AVRO


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "x.Nothing", "size": 0},
        {"type": "record", "name": "x.Empty", "fields": []},
        {"type": "record", "name": "x.Nulls", "fields": [{"name": "a", "type": "null"}]},
    ],
)
def test_a_schema_of_arrays_that_grow_without_bytes_is_refused(items: object) -> None:
    schema = {
        "type": "record",
        "name": "afl.v1.StepContinue",
        "fields": [{"name": "result", "type": {"type": "map", "values": {"type": "array", "items": items}}}],
    }

    with pytest.raises(Unreadable) as caught:
        parse_schema_text(json.dumps(schema))
    assert caught.value.reason is Reason.BAD_SCHEMA


def test_a_schema_of_records_that_double_without_bytes_is_refused() -> None:
    inner: Any = {"type": "record", "name": "x.R0", "fields": []}
    for level in range(1, 40):
        again = inner["name"]
        inner = {
            "type": "record",
            "name": f"x.R{level}",
            "fields": [{"name": "a", "type": inner}, {"name": "b", "type": again}],
        }

    with pytest.raises(Unreadable) as caught:
        parse_schema_text(json.dumps(inner))
    assert caught.value.reason is Reason.BAD_SCHEMA


def test_a_record_that_contains_itself_without_end_is_refused() -> None:
    schema = {"type": "record", "name": "x.R", "fields": [{"name": "a", "type": "x.R"}]}

    with pytest.raises(Unreadable):
        parse_schema_text(json.dumps(schema))


def test_a_record_that_contains_itself_after_a_field_is_too_deep() -> None:
    inner = {"type": "record", "name": "x.R", "fields": [{"name": "n", "type": "long"}, {"name": "a", "type": "x.R"}]}
    codec, frame = announced(
        {"type": "record", "name": "afl.v1.StepContinue", "fields": [{"name": "result", "type": inner}]}
    )

    assert reason_of(codec, frame + b"\x00" * 100_000) is Reason.TOO_DEEP


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "7",
        "null",
        '"Unknown"',
        '{"type": "record"}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "fixed", "name": "F", "size": "4"}',
        '{"type": "enum", "name": "E", "symbols": "AB"}',
        '{"type": "enum", "name": "E", "symbols": [1]}',
        '{"type": "record", "name": "X", "fields": [{"name": "a"}]}',
        '{"type": "record", "name": "X", "fields": {}}',
        '{"type": "record", "name": "X", "fields": [7]}',
        '{"type": "array"}',
        '{"type": "fixed", "name": "F"}',
        '{"type": "enum", "name": "E"}',
        '{"type": ["null", {"type": "map"}]}',
        '{"type":' * 100_000,
        '{"type":' * 80 + '"string"' + "}" * 80,
    ],
)
def test_what_is_no_schema_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_schema_text(text)
    assert caught.value.reason is Reason.BAD_SCHEMA


def test_a_schema_of_very_many_fields_is_refused() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(5_001)]

    with pytest.raises(Unreadable) as caught:
        parse_schema_text(json.dumps({"type": "record", "name": "X", "fields": fields}))
    assert caught.value.reason is Reason.BAD_SCHEMA


def test_names_of_a_foreign_schema_never_become_code(codec: Codec) -> None:
    codec, frame = announced(
        {
            "type": "record",
            "name": "afl.v1.StepContinue",
            "fields": [
                {"name": "step_id", "type": "string"},
                {
                    "name": "result",
                    "type": {
                        "type": "record",
                        "name": "afl.payload.X",
                        "fields": [
                            {"name": "_x22__x7d_", "type": "long"},
                            {"name": "_extra", "type": {"type": "map", "values": "long"}},
                            {"name": "_absent", "type": {"type": "array", "items": "string"}},
                        ],
                    },
                },
            ],
        }
    )

    assert codec.decode(frame + b"\x08w:ab\x02\x00\x00") == StepContinue(step_id="w:ab", result={'"}': 1})


def with_weightless(weightless: object, fields: int) -> dict[str, Any]:
    """Return a StepContinue whose result holds arrays of records of one byte and so many fields of none."""
    again = "x.W" if isinstance(weightless, dict) else weightless
    empty = [{"name": f"n{number}", "type": again if number else weightless} for number in range(fields)]
    item = {"type": "record", "name": "x.Item", "fields": [{"name": "a", "type": "boolean"}, *empty]}
    result = {"type": "map", "values": {"type": "array", "items": item}}
    return {
        "type": "record",
        "name": "afl.v1.StepContinue",
        "fields": [{"name": "step_id", "type": "string"}, {"name": "result", "type": result}],
    }


WEIGHTLESS = [
    pytest.param("null", id="null"),
    pytest.param({"type": "record", "name": "x.W", "fields": []}, id="empty records"),
    pytest.param({"type": "fixed", "name": "x.W", "size": 0}, id="fixed of no size"),
]
#: A StepContinue with one entry of its result, `x`.
HEAD = b"\x08w:ab\x02\x02x"


@pytest.mark.parametrize("weightless", WEIGHTLESS)
def test_fields_without_bytes_make_no_more_entries_than_the_value_has_bytes(weightless: object) -> None:
    codec, frame = announced(with_weightless(weightless, 400))
    assert codec.decode(frame + HEAD + b"\x00\x00") == StepContinue(step_id="w:ab", result={"x": []})
    items = 25_000
    value = frame + HEAD + bytes([items << 1 & 127 | 128, items >> 6 & 127 | 128, items >> 13]) + b"\0" * items

    tracemalloc.start()
    assert reason_of(codec, value + b"\0\0") is Reason.TOO_LARGE
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10 * 1024 * 1024


def test_fields_without_bytes_are_counted_also_where_records_multiply_without_arrays() -> None:
    inner: Any = {
        "type": "record", "name": "x.R0",
        "fields": [{"name": "a", "type": "boolean"}, *({"name": f"n{n}", "type": "null"} for n in range(500))],
    }  # fmt: skip
    for level in range(1, 5):
        again = [{"name": f"f{n}", "type": inner["name"] if n else inner} for n in range(10)]
        inner = {"type": "record", "name": f"x.R{level}", "fields": again}
    fields = [{"name": "step_id", "type": "string"}, {"name": "result", "type": inner}]
    codec, frame = announced({"type": "record", "name": "afl.v1.StepContinue", "fields": fields})

    assert reason_of(codec, frame + b"\x08w:ab" + b"\0" * 10_000) is Reason.TOO_LARGE


@pytest.mark.parametrize("weightless", [WEIGHTLESS[0], WEIGHTLESS[1]])
def test_a_few_fields_without_bytes_are_read(weightless: object) -> None:
    codec, frame = announced(with_weightless(weightless, 2))
    nothing: object = None if weightless == "null" else {}

    read = codec.decode(frame + HEAD + b"\x04\x00\x01\x00\x00")

    item = {"n0": nothing, "n1": nothing}
    assert read == StepContinue(step_id="w:ab", result={"x": [{"a": False, **item}, {"a": True, **item}]})


def test_a_record_of_thousands_of_fields_is_read_field_by_field() -> None:
    fields = [{"name": f"f{n}", "type": ["null", "long"] if n % 2 else "string"} for n in range(4_000)]
    result = {"type": "record", "name": "x.Wide", "fields": fields}
    codec, frame = announced(
        {
            "type": "record",
            "name": "afl.v1.StepContinue",
            "fields": [{"name": "step_id", "type": "string"}, {"name": "result", "type": result}],
        }
    )
    body = b"".join(b"\x02\x0e" if n % 2 else b"\x02s" for n in range(4_000))

    read = codec.decode(frame + b"\x08w:ab" + body)

    assert read == StepContinue(step_id="w:ab", result={f"f{n}": 7 if n % 2 else "s" for n in range(4_000)})


def schemas() -> st.SearchStrategy[Any]:
    """Schemas and what looks like them: names that are there or not, types in themselves, unions of unions."""
    names = st.sampled_from(["x.A", "x.B", "x.C", "afl.v1.Value", "afl.v1.FailureReason", "afl.payload.P", "", None])
    leaf = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string", "x.A", "x.B", 7])
    sizes = st.sampled_from([0, 3, -1, 10**30, "4"])
    field_names = st.sampled_from(["step_id", "result", "value", "type", "message", "_extra", "_absent", "a", "", 7])

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        fields = st.lists(st.fixed_dictionaries({"name": field_names, "type": inner}), max_size=4)
        return st.one_of(
            st.lists(inner, max_size=4),
            st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
            st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
            st.fixed_dictionaries({"type": st.sampled_from(["record", "error"]), "name": names, "fields": fields}),
            st.fixed_dictionaries({"type": st.just("fixed"), "name": names, "size": sizes}),
            st.fixed_dictionaries({"type": st.just("enum"), "name": names, "symbols": st.lists(leaf, max_size=3)}),
            st.fixed_dictionaries({"type": inner}),
        )

    return st.recursive(leaf, larger, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(schema=schemas(), body=st.binary(max_size=60))
def test_any_schema_and_any_bytes_are_read_or_unreadable(schema: Any, body: bytes) -> None:
    root = {
        "type": "record",
        "name": "afl.v1.StepContinue",
        "fields": [{"name": "step_id", "type": "string"}, {"name": "result", "type": schema}],
    }
    with contextlib.suppress(Unreadable):
        codec, frame = announced(root)
        codec.decode(frame + b"\x08w:ab" + body)
