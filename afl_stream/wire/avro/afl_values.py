"""The bytes of AFL values that have no declared type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from afl.core.values import Flaw, Refused, check_integer, check_key, check_string, describe_value, refuse_depth, segment
from afl_stream.errors import ValueRefused
from afl_stream.wire.avro.primitives import write_double, write_long, write_string

#: Appends the bytes of a value that may be anything; raises Refused.
Write: TypeAlias = Callable[[bytearray, Any, int], None]

#: Lengths, and numbers on both sides of 0, that take one byte.
_SHORT: Final = 64
_MOST_KEYS: Final = 1_000
_PACK_DOUBLE: Final = struct.Struct("<d").pack


def value_refused(refused: Refused, path: str) -> ValueRefused:
    """Return the error to raise for the value at this path."""
    return ValueRefused(refused.path_from(path), refused.afl_type, refused.found)


def write_json(out: bytearray, value: Any, depth: int = 0) -> None:
    """Append any AFL value as the record afl.v1.Value."""
    kind = type(value)
    # What most values are, without a call.
    if kind is str and value.isascii() and len(value) < _SHORT:
        out.append(8)
        out.append(len(value) << 1)
        out += value.encode()
    elif kind is int and -_SHORT <= value < _SHORT:
        out.append(4)
        out.append(value << 1 if value >= 0 else -value * 2 - 1)
    elif value is None:
        out.append(0)
    elif isinstance(value, str):
        out.append(8)
        write_string(out, check_string(value))
    elif value is True or value is False:
        out += b"\x02\x01" if value else b"\x02\x00"
    elif isinstance(value, int):
        check_integer(value, 0, "Json")
        out.append(4)
        write_long(out, value)
    elif isinstance(value, float):
        if value - value != 0.0:
            raise Refused("Json", describe_value(value), Flaw.NUMBER_OUT_OF_RANGE)
        out.append(6)
        write_double(out, value)
    elif type(value) is dict or isinstance(value, Mapping):
        out.append(12)
        write_entries(out, value, depth)
    elif isinstance(value, list | tuple):
        out.append(10)
        write_items(out, value, depth, "Json", write_json)
    else:
        raise Refused("Json", describe_value(value))


def write_entries(out: bytearray, value: Any, depth: int = 0, name: str = "Json") -> None:
    """Append a map of any AFL values."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    if depth > 0:
        refuse_depth(depth, name)
    count = len(value)
    if count:
        if count < _SHORT:
            out.append(count << 1)
        else:
            write_long(out, count)
        key: Any = None
        try:
            for key, item in value.items():
                out += _CODED_KEYS[key] if type(key) is str else _coded_key(key, name)
                kind = type(item)
                # What most values are, without a call.
                if kind is str and item.isascii() and len(item) < _SHORT:
                    out.append(8)
                    out.append(len(item) << 1)
                    out += item.encode()
                elif kind is int and -_SHORT <= item < _SHORT:
                    out.append(4)
                    out.append(item << 1 if item >= 0 else -item * 2 - 1)
                elif kind is float and item - item == 0.0:
                    out.append(6)
                    out += _PACK_DOUBLE(item)
                elif item is None:
                    out.append(0)
                else:
                    write_json(out, item, depth + 1)
        except Refused as refused:
            raise refused.inside(segment(key)) from None
    out.append(0)


class _CodedKeys(dict[str, bytes]):
    """A cache of encoded keys: those of a facet's results are the same in each."""

    def __missing__(self, key: str) -> bytes:
        coded = _coded_key(key, "Json")
        if len(self) < _MOST_KEYS and len(coded) <= _SHORT:
            self[key] = coded
        return coded


def _coded_key(key: object, name: str) -> bytes:
    out = bytearray()
    write_string(out, check_key(key, name))
    return bytes(out)


def write_items(out: bytearray, value: Any, depth: int, name: str, write: Write) -> None:
    """Append a list of any AFL values, each by `write`."""
    refuse_depth(depth, name)
    if value:
        write_long(out, len(value))
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - the index is read when an item is refused
                write(out, item, depth + 1)
        except Refused as refused:
            raise refused.inside(f"[{index}]") from None
    out.append(0)


_CODED_KEYS: Final = _CodedKeys()
