"""Headers in a row: what goes in comes out, in the short form and in that of rows of earlier formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.stores.documents import encode_value
from afl.stores.stored_headers import Headers, decode_headers, encode_headers

headers_of_a_record = st.lists(st.tuples(st.text(max_size=300), st.none() | st.binary(max_size=400))).map(tuple)


@given(headers_of_a_record)
def test_headers_come_back(headers: Headers) -> None:
    assert decode_headers(encode_headers(headers)) == headers


def test_a_null_value_and_an_empty_one_stay_different_and_large_ones_are_whole() -> None:
    headers = (("null", None), ("empty", b""), ("large", bytes(1_000_000)), ("\ud800", b"\xff"), ("", b"["))

    assert decode_headers(encode_headers(headers)) == headers


def test_two_headers_take_their_bytes_and_five_more() -> None:
    assert encode_headers((("content-type", b"avro"), ("x", None))) == b"\x01\x0ccontent-type\x05avro\x01x\x00"


def test_rows_of_earlier_formats_are_read() -> None:
    listed = [["ce_id", "\xff\x00"], ["ce_id", None]]

    assert decode_headers(encode_value(listed)) == (("ce_id", b"\xff\x00"), ("ce_id", None))
    assert decode_headers(None) == ()


@pytest.mark.parametrize("content", [b"\x01\x05ce", b"\x01\x02id\x09abc", b"\x01\x80", b"\x02", b"", b"\x01\x02id"])
def test_damaged_headers_are_refused(content: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        decode_headers(content)
