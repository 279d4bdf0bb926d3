"""Avro's binary encoding of the primitives, with every length and number checked against the bytes that are there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from afl_stream.errors import Reason, Unreadable
from afl_stream.limits import MAX_VALUE_DEPTH

#: Reads one value: (bytes, position, depth) to (value, position after it). IndexError means that the bytes end early.
Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]

_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_UNSIGNED_64: Final = 2**64
#: Entries without bytes that any value may have, however short.
FREE_ENTRIES: Final = 1_000
#: Values nest as deep as writers are allowed to write them, inside the few records around them.
_MAX_DEPTH: Final = MAX_VALUE_DEPTH + 8


class CountedBytes(bytes):
    """A value whose entries without bytes are counted while it is read: it may have as many of them as it has bytes."""

    entries_left: int = 0

    @classmethod
    def of(cls, data: bytes) -> CountedBytes:
        counted = cls(data)
        counted.entries_left = len(data) + FREE_ENTRIES
        return counted


def count_entries(data: bytes, entries: int) -> None:
    """Count entries that took no bytes. Raises Unreadable (TOO_LARGE) when there are more than allowed."""
    assert isinstance(data, CountedBytes)
    data.entries_left -= entries
    if data.entries_left < 0:
        raise Unreadable(
            Reason.TOO_LARGE,
            f"fields that take no bytes make more entries than the value has bytes ({len(data)}, and {FREE_ENTRIES})",
        )


def write_long(out: bytearray, value: int) -> None:
    """Append an integer of 64 bits, zigzag and variable length."""
    coded = (value << 1) ^ (value >> 63)
    while coded > 127:
        out.append(coded & 127 | 128)
        coded >>= 7
    out.append(coded)


def write_string(out: bytearray, value: str, _depth: int = 0) -> None:
    """Append a string. Raises AttributeError for a value of another type, UnicodeEncodeError for lone surrogates."""
    encoded = value.encode()
    size = len(encoded)
    if size < 64:
        out.append(size << 1)
    elif size < 8192:
        out.append(size << 1 & 127 | 128)
        out.append(size >> 6)
    else:
        write_long(out, size)
    out += encoded


def write_bytes(out: bytearray, value: bytes) -> None:
    """Append a byte string."""
    write_long(out, len(value))
    out += value


def write_double(out: bytearray, value: float) -> None:
    """Append an IEEE double, lowest byte first."""
    out += _DOUBLE.pack(value)


def read_null(_data: bytes, pos: int, _depth: int) -> tuple[None, int]:
    """Read nothing."""
    return None, pos


def read_boolean(data: bytes, pos: int, _depth: int) -> tuple[bool, int]:
    """Read one byte, 0 or 1."""
    byte = data[pos]
    if byte > 1:
        raise bad_boolean(byte, pos)
    return byte == 1, pos + 1


def bad_boolean(byte: int, pos: int) -> Unreadable:
    """Return the error for a byte that is no Boolean."""
    return Unreadable(Reason.BAD_AVRO, f"byte {byte} at {pos} is not a Boolean")


def read_long(data: bytes, pos: int, _depth: int = 0) -> tuple[int, int]:
    """Read an integer of 64 bits; a longer one is refused."""
    byte = data[pos]
    pos += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), pos
    coded, shift = byte & 127, 7
    while byte > 127:
        byte = data[pos]
        pos += 1
        coded |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise Unreadable(Reason.BAD_AVRO, f"the integer that ends near byte {pos} has more than ten bytes")
    if coded >= _UNSIGNED_64:
        raise Unreadable(Reason.NUMBER_OUT_OF_RANGE, f"the integer that ends at byte {pos} has more than 64 bits")
    return (coded >> 1) ^ -(coded & 1), pos


def read_double(data: bytes, pos: int, _depth: int) -> tuple[float, int]:
    """Read an IEEE double, NaN and infinities included: the check of the step that it is for refuses them."""
    end = pos + 8
    if end > len(data):
        raise IndexError(end)
    return _DOUBLE.unpack_from(data, pos)[0], end


def read_float(data: bytes, pos: int, _depth: int) -> tuple[float, int]:
    """Read an IEEE single as a double."""
    end = pos + 4
    if end > len(data):
        raise IndexError(end)
    return _FLOAT.unpack_from(data, pos)[0], end


def read_bytes(data: bytes, pos: int, _depth: int) -> tuple[bytes, int]:
    """Read a byte string."""
    size, pos = read_long(data, pos)
    end = pos + size
    if size < 0:
        raise Unreadable(Reason.BAD_AVRO, f"a length of {size} before byte {pos}")
    if end > len(data):
        raise IndexError(end)
    return data[pos:end], end


def read_string(data: bytes, pos: int, _depth: int) -> tuple[str, int]:
    """Read a string. Raises UnicodeDecodeError for bytes that are not UTF-8."""
    coded = data[pos]
    pos += 1
    if coded > 127:
        size, pos = read_long(data, pos - 1)
    else:
        size = (coded >> 1) ^ -(coded & 1)
    end = pos + size
    if size < 0:
        raise Unreadable(Reason.BAD_AVRO, f"a length of {size} before byte {pos}")
    if end > len(data):
        raise IndexError(end)
    return data[pos:end].decode(), end


def read_block_count(data: bytes, pos: int) -> tuple[int, int]:
    """Read how many items of an array or map follow; 0 ends it. Every item takes a byte at least."""
    coded = data[pos]
    if coded < 128 and not coded & 1:
        count, pos = coded >> 1, pos + 1
    else:
        count, pos = read_long(data, pos)
    if count < 0:
        _, pos = read_long(data, pos)  # The block's size in bytes, for readers that skip.
        count = -count
    if count > len(data) - pos:
        raise IndexError(count)
    return count, pos


def max_depth() -> int:
    """Return how deep values may nest: readers with the depth inline call `go_deeper` past it, which refuses it."""
    return _MAX_DEPTH


def go_deeper(depth: int) -> int:
    """Return the next depth; raise Unreadable (TOO_DEEP) past the limit."""
    if depth >= _MAX_DEPTH:
        raise Unreadable(Reason.TOO_DEEP, f"values nest deeper than {_MAX_DEPTH}")
    return depth + 1
