"""AFL types as bytes: a writer for each type, compiled once. `afl.core.types` says which values fit a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from afl.core.types import BUILTIN_TYPES, AflType, unknown_field
from afl.core.values import (
    Refused,
    check_boolean,
    check_double,
    check_integer,
    check_string,
    describe_value,
    refuse_depth,
    segment,
)
from afl_stream.errors import TypeUnknown
from afl_stream.wire.avro.afl_values import Write, write_entries, write_items, write_json
from afl_stream.wire.avro.primitives import write_double, write_long, write_string

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeScope:
    """The meaning of the names in a signature.

    `schemas` maps a qualified name to its fields, [{"name", "type"}]; `facets` are the names of facets.
    """

    schemas: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    facets: frozenset[str] = frozenset()


class Fitting(NamedTuple):
    """A compiled type: its name for people, and its writer."""

    name: str
    write: Write


def _write_string(out: bytearray, value: Any, _depth: int) -> None:
    write_string(out, check_string(value))


def _write_double(out: bytearray, value: Any, _depth: int) -> None:
    write_double(out, check_double(value))


def _write_boolean(out: bytearray, value: Any, _depth: int) -> None:
    out.append(1 if check_boolean(value) else 0)


def _write_integer(name: str) -> Write:
    def write(out: bytearray, value: Any, _depth: int) -> None:
        write_long(out, check_integer(value, 0, name))

    return write


#: Writers by the Avro type, for a type's name: each checks what it writes.
_WRITERS: Final[Mapping[str, Callable[[str], Write]]] = {
    "string": lambda _name: _write_string,
    "long": _write_integer,
    "double": lambda _name: _write_double,
    "boolean": lambda _name: _write_boolean,
    "record afl.v1.Value": lambda _name: write_json,
}
BUILTIN_FITTINGS: Final[Mapping[str, Fitting]] = {
    name: Fitting(name, _WRITERS[row.avro](name)) for name, row in BUILTIN_TYPES.items()
}


class TypeCompiler:
    """A compiler for the types of one scope; it compiles each type once."""

    def __init__(self, scope: TypeScope) -> None:
        self._scope = scope
        self._records: dict[str, Fitting] = {}

    def compile(self, afl_type: AflType, path: str = "type") -> Fitting:
        """Return the writer of a type. Raises TypeUnknown, which names the path."""
        if isinstance(afl_type, str):
            if afl_type in BUILTIN_FITTINGS:
                return BUILTIN_FITTINGS[afl_type]
            if afl_type in self._scope.schemas:
                return self._record(afl_type, path)
            if afl_type in self._scope.facets:
                return Fitting(afl_type, partial(write_entries, name=afl_type))
        elif isinstance(afl_type, Mapping) and afl_type.get("type") == "ArrayType":
            return _array(self.compile(afl_type.get("elementType"), f"{path}[]"))
        raise TypeUnknown(path, afl_type)

    def _record(self, name: str, path: str) -> Fitting:
        if name in self._records:
            return self._records[name]
        fields: dict[str, Fitting] = {}

        # The record is in the table before its fields are compiled: a schema may contain itself.
        def write(out: bytearray, value: Any, depth: int) -> None:
            _write_record(name, fields, out, value, depth)

        self._records[name] = Fitting(name, write)
        for entry in self._scope.schemas[name]:
            fields[entry["name"]] = self.compile(entry["type"], f"{path}.{entry['name']}")
        return self._records[name]


def _array(element: Fitting) -> Fitting:
    name = f"[{element.name}]"

    write_item = nullable(element.write)

    def write(out: bytearray, value: Any, depth: int) -> None:
        if not isinstance(value, list | tuple):
            raise Refused(name, describe_value(value))
        write_items(out, value, depth, name, write_item)

    return Fitting(name, write)


def nullable(write: Write) -> Write:
    """Return the writer of a union of null and the type."""

    def write_branch(out: bytearray, value: Any, depth: int) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            write(out, value, depth)

    return write_branch


def _write_record(name: str, fields: Mapping[str, Fitting], out: bytearray, value: Any, depth: int) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    if write_fields(fields, out, value, depth) < len(value):
        raise unknown_field(name, fields, value)


def write_fields(
    fields: Mapping[str, Fitting], out: bytearray, value: Mapping[str, Any], depth: int, extras: bool = False
) -> int:
    """Append a generated record: its fields, the undeclared entries (`extras`), and the names of absent fields.

    Returns how many of the fields the value has.
    """
    absent: list[str] = []
    name = ""
    try:
        for name, fitting in fields.items():
            item = value.get(name, _ABSENT)
            if item is _ABSENT:
                absent.append(name)
                out.append(0)
            elif item is None:
                out.append(0)
            else:
                out.append(2)
                fitting.write(out, item, depth + 1)
    except Refused as refused:
        raise refused.inside(segment(name)) from None
    present = len(fields) - len(absent)
    if extras:
        if present == len(value):
            out.append(0)
        else:
            write_entries(out, {key: value[key] for key in value if key not in fields}, depth, "Json")
    if absent:
        write_long(out, len(absent))
        for name in absent:
            write_string(out, name)
    out.append(0)
    return present
