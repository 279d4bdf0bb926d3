"""Avro's rules of schema resolution: what can be read, and what is said where it cannot."""

from typing import Any

import pytest

from afl_stream.errors import Unreadable
from afl_stream.wire.avro.compatibility import incompatibilities
from tests.avro_pairs import TABLE, a_field, record, texts


@pytest.mark.parametrize(("reader", "writer", "is_readable"), TABLE)
def test_a_reader_reads_what_the_specification_lets_it(reader: Any, writer: Any, is_readable: bool) -> None:
    assert (incompatibilities(*texts((reader, writer))) == []) is is_readable


def test_what_cannot_be_read_is_named_by_its_place_and_its_types() -> None:
    item = record(a_field("price", ["null", "double"]), name="Item")
    dearer = record(a_field("price", ["null", "string"]), name="Item")
    reader = record(a_field("items", {"type": "array", "items": ["null", item]}), a_field("note", "string"))
    writer = record(a_field("items", {"type": "array", "items": ["null", dearer]}))

    found = [str(each) for each in incompatibilities(*texts((reader, writer)))]

    assert found == [
        "items[].price: string cannot be read as double",
        "note: it was not written, and the reader has no default for it",
    ]


def test_a_difference_that_is_reached_in_two_ways_is_told_at_both() -> None:
    reader = record(a_field("a", "int"), a_field("b", {"type": "map", "values": "int"}))
    writer = record(a_field("a", "string"), a_field("b", {"type": "map", "values": "string"}))

    assert [each.path for each in incompatibilities(*texts((reader, writer)))] == ["a", "b{}"]


def test_a_text_that_is_no_schema_is_refused() -> None:
    with pytest.raises(Unreadable, match="not an Avro schema"):
        incompatibilities('{"type": "thing"}', '"int"')
