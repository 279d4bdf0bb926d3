"""Readers of Avro's binary encoding, compiled once per writer's schema.

They are Python and count depth and bytes themselves. A library decoder in C follows nested bytes as deep as they claim
to go, and a record of a few kilobytes then ends the process instead of becoming a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.avro.primitives import (
    Reader,
    go_deeper,
    read_block_count,
    read_boolean,
    read_bytes,
    read_double,
    read_float,
    read_long,
    read_null,
    read_string,
)
from afl_stream.wire.avro.record_code import CodedField, bad_branch, compile_function
from afl_stream.wire.avro.schema import WriterSchema, kind_of, takes_no_bytes

PRIMITIVES: Final[dict[str, Reader]] = {
    "null": read_null,
    "boolean": read_boolean,
    "int": read_long,
    "long": read_long,
    "float": read_float,
    "double": read_double,
    "bytes": read_bytes,
    "string": read_string,
}


class ReaderCompiler:
    """A compiler that makes one reader for a schema.

    `special` gives a reader for certain records, by schema, or None to read a record field by field. `maps` has readers
    of whole maps, by the reader of their values.
    """

    def __init__(
        self,
        schema: WriterSchema,
        special: Callable[[ReaderCompiler, Any], Reader | None],
        maps: Mapping[Reader, Reader],
    ) -> None:
        self._named = schema.named
        self._special = special
        self._maps = maps
        self._done: dict[str, Reader] = {}
        #: Known records, and whether they take no bytes.
        self._weightless: dict[str, bool] = {}
        #: Whether a reader that was made counts entries without bytes: it reads CountedBytes only.
        self.counts_entries = False

    def compile(self, schema: Any) -> Reader:
        """Return the reader of this type of the schema."""
        kind = kind_of(schema)
        if kind in PRIMITIVES:
            return PRIMITIVES[kind]
        if kind == "union":
            if len(schema) == 2 and schema[0] == "null":
                return _nullable_reader(self.compile(schema[1]))
            return _union_reader([self.compile(branch) for branch in schema])
        if kind == "array":
            return _array_reader(self.compile(schema["items"]))
        if kind == "map":
            values = self.compile(schema["values"])
            return self._maps.get(values) or _map_reader(values)
        definition = self._named[kind if kind in self._named else schema["name"]]
        return self._named_reader(definition)

    def fields(self, record: Any) -> list[CodedField]:
        """Return name, type and reader of each field of a record, in the order of the bytes."""
        fields = [
            CodedField(
                field["type"], self.compile(field["type"]), takes_no_bytes(field["type"], self._named, self._weightless)
            )
            for field in record["fields"]
        ]
        self.counts_entries = self.counts_entries or any(field.is_weightless for field in fields)
        return fields

    def _named_reader(self, definition: Any) -> Reader:
        name = definition["name"]
        if name in self._done:
            return self._done[name]
        # A type may contain itself: the inner one finds its reader when it is called.
        self._done[name] = lambda data, pos, depth: self._done[name](data, pos, depth)
        if definition["type"] == "enum":
            reader = _enum_reader(definition["symbols"])
        elif definition["type"] == "fixed":
            reader = _fixed_reader(definition["size"])
        else:
            reader = self._special(self, definition) or self._record_reader(definition)
        self._done[name] = reader
        return reader

    def _record_reader(self, record: Any) -> Reader:
        names = {f"name{index}": field["name"] for index, field in enumerate(record["fields"])}
        entries = ", ".join(f"name{index}: v{index}" for index in range(len(names)))
        return compile_function(self.fields(record), [f"return {{{entries}}}, pos"], names)


def _nullable_reader(inner: Reader) -> Reader:
    def read(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
        branch = data[pos]
        if branch == 2:
            return inner(data, pos + 1, depth)
        if branch == 0:
            return None, pos + 1
        raise bad_branch(branch, pos)

    return read


def _union_reader(branches: list[Reader]) -> Reader:
    size = len(branches)

    def read(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
        index, pos = read_long(data, pos)
        if not 0 <= index < size:
            raise Unreadable(Reason.BAD_AVRO, f"branch {index} of a union of {size} before byte {pos}")
        return branches[index](data, pos, depth)

    return read


def _array_reader(items: Reader) -> Reader:
    def read(data: bytes, pos: int, depth: int) -> tuple[list[Any], int]:
        depth = go_deeper(depth)
        array: list[Any] = []
        count, pos = read_block_count(data, pos)
        while count:
            for _ in range(count):
                item, pos = items(data, pos, depth)
                array.append(item)
            count, pos = read_block_count(data, pos)
        return array, pos

    return read


def _map_reader(values: Reader) -> Reader:
    def read(data: bytes, pos: int, depth: int) -> tuple[dict[str, Any], int]:
        depth = go_deeper(depth)
        size = len(data)
        entries: dict[str, Any] = {}
        count, pos = read_block_count(data, pos)
        while count:
            for _ in range(count):
                length = data[pos]
                if length < 128 and not length & 1 and pos + (length >> 1) < size:
                    # A short key, as nearly all are: read_string without the call.
                    start = pos + 1
                    pos = start + (length >> 1)
                    key = data[start:pos].decode()
                else:
                    key, pos = read_string(data, pos, depth)
                entries[key], pos = values(data, pos, depth)
            if data[pos] == 0:
                return entries, pos + 1
            count, pos = read_block_count(data, pos)
        return entries, pos

    return read


def _enum_reader(symbols: list[str]) -> Reader:
    def read(data: bytes, pos: int, _depth: int) -> tuple[str, int]:
        index, pos = read_long(data, pos)
        if not 0 <= index < len(symbols):
            raise Unreadable(Reason.BAD_AVRO, f"symbol {index} of an enum of {len(symbols)} before byte {pos}")
        return symbols[index], pos

    return read


def _fixed_reader(size: int) -> Reader:
    def read(data: bytes, pos: int, _depth: int) -> tuple[bytes, int]:
        end = pos + size
        if end > len(data):
            raise IndexError(end)
        return data[pos:end], end

    return read
