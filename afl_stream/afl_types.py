"""AFL types: which values fit them, what is coerced and what is refused, and the bytes that they become.

`TYPE_TABLE` says it for people; `schemas/README.md` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from afl_stream.afl_values import (
    Check,
    Refused,
    Write,
    check_boolean,
    check_double,
    check_entries,
    check_integer,
    check_json,
    check_string,
    describe_value,
    refuse_depth,
    segment,
    shorten,
    write_entries,
    write_items,
    write_json,
)
from afl_stream.avro_primitives import write_double, write_long, write_string
from afl_stream.errors import TypeUnknown
from afl_stream.limits import MAX_VALUE_DEPTH

#: A type as compiled programs spell it: "Long", "ns.Schema", or {"type": "ArrayType", "elementType": ...}.
AflType: TypeAlias = object

_ABSENT: Final = object()


class TypeRow(NamedTuple):
    """One row of the published table."""

    afl: str
    avro: str
    coerced: str
    refused: str


TYPE_TABLE: Final[tuple[TypeRow, ...]] = (
    TypeRow("String", "string", "nothing", "any other type; text with lone surrogates, which UTF-8 cannot carry"),
    TypeRow(
        "Int, Long",
        "long",
        "nothing",
        "integers outside signed 64 bits (2^63, 2^70, ...); a Double, even an integral one like 3.0; String; Boolean",
    ),
    TypeRow(
        "Double",
        "double",
        "an integer that a Double holds exactly: 3 becomes 3.0",
        "NaN and the infinities; an integer that a Double does not hold exactly (2^53 + 1); String; Boolean",
    ),
    TypeRow("Boolean", "boolean", "nothing", "numbers, 0 and 1 too; String"),
    TypeRow(
        "Json",
        "record afl.v1.Value",
        "nothing",
        "NaN and the infinities; integers outside signed 64 bits; map keys that are no String; "
        f"more than {MAX_VALUE_DEPTH} levels; anything but null, Boolean, number, String, array, map",
    ),
    TypeRow("[T]", "array of T or null", "each element by its type", "a String; a map"),
    TypeRow(
        "schema ns.S",
        "record afl.schema.ns.S",
        "each field by its type",
        "fields that the schema does not declare; anything but a map",
    ),
    TypeRow(
        "facet (a step reference)",
        "map of afl.v1.Value",
        "nothing",
        "anything but a map with String keys; in its entries what Json refuses",
    ),
    TypeRow(
        "null at any type",
        "null (every place is a union of null and its type)",
        "nothing",
        "nothing: null is a value of every type; absent is not null and is listed in the record's _absent",
    ),
)


def type_table_markdown() -> str:
    """Return the table as `schemas/README.md` prints it."""
    rows = [("AFL type", "Avro", "coerced", "refused"), ("---",) * 4, *TYPE_TABLE]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeScope:
    """What the names in a signature mean: `schemas` by qualified name as fields [{"name", "type"}], and facet names."""

    schemas: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    facets: frozenset[str] = frozenset()


class Fitting(NamedTuple):
    """A compiled type: its name for people, its check and its writer."""

    name: str
    check: Check
    write: Write


def type_name(afl_type: AflType) -> str:
    """Return a type as AFL writes it, e.g. `[Long]`."""
    if isinstance(afl_type, Mapping) and afl_type.get("type") == "ArrayType":
        return f"[{type_name(afl_type.get('elementType'))}]"
    return str(afl_type)


def _write_string(out: bytearray, value: Any, depth: int) -> None:
    write_string(out, check_string(value))


def _write_double(out: bytearray, value: Any, depth: int) -> None:
    write_double(out, check_double(value))


def _write_boolean(out: bytearray, value: Any, depth: int) -> None:
    out.append(1 if check_boolean(value) else 0)


def _integer(name: str) -> Fitting:
    def write(out: bytearray, value: Any, depth: int) -> None:
        write_long(out, check_integer(value, 0, name))

    return Fitting(name, partial(check_integer, name=name), write)


BUILTIN_FITTINGS: Final[Mapping[str, Fitting]] = {
    "String": Fitting("String", check_string, _write_string),
    "Int": _integer("Int"),
    "Long": _integer("Long"),
    "Double": Fitting("Double", check_double, _write_double),
    "Boolean": Fitting("Boolean", check_boolean, _write_boolean),
    "Json": Fitting("Json", check_json, write_json),
}


class TypeCompiler:
    """Compiles the types of one scope, each once."""

    def __init__(self, scope: TypeScope) -> None:
        self._scope = scope
        self._records: dict[str, Fitting] = {}

    def compile(self, afl_type: AflType, path: str = "type") -> Fitting:
        """Return check and writer of a type. Raises TypeUnknown naming the path."""
        if isinstance(afl_type, str):
            if afl_type in BUILTIN_FITTINGS:
                return BUILTIN_FITTINGS[afl_type]
            if afl_type in self._scope.schemas:
                return self._record(afl_type, path)
            if afl_type in self._scope.facets:
                return Fitting(afl_type, partial(check_entries, name=afl_type), partial(write_entries, name=afl_type))
        elif isinstance(afl_type, Mapping) and afl_type.get("type") == "ArrayType":
            return _array(self.compile(afl_type.get("elementType"), f"{path}[]"))
        raise TypeUnknown(path, afl_type)

    def _record(self, name: str, path: str) -> Fitting:
        if name in self._records:
            return self._records[name]
        fields: dict[str, Fitting] = {}

        # The record stands in the table before its fields are compiled: a schema may contain itself.
        def check(value: Any, depth: int) -> dict[str, Any]:
            return _check_record(name, fields, value, depth)

        def write(out: bytearray, value: Any, depth: int) -> None:
            _write_record(name, fields, out, value, depth)

        self._records[name] = Fitting(name, check, write)
        for entry in self._scope.schemas[name]:
            fields[entry["name"]] = self.compile(entry["type"], f"{path}.{entry['name']}")
        return self._records[name]


def check_value(
    value: object,
    afl_type: AflType,
    schemas: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    path: str = "value",
    facets: frozenset[str] = frozenset(),
) -> object:
    """Return the value as the type takes it: containers copied, integers made Doubles where a Double is declared.

    null fits every type. Raises ValueRefused naming path, type and what was found, and TypeUnknown for a type name
    that is not built in, not in `schemas` and not in `facets`. Checking many values of one type: compile it once.
    """
    return fit(TypeCompiler(TypeScope(schemas=schemas or {}, facets=facets)).compile(afl_type, path), value, path)


def fit(fitting: Fitting, value: object, path: str = "value") -> object:
    """Check a value against a compiled type; raise ValueRefused with the path."""
    if value is None:
        return None
    try:
        return fitting.check(value, 0)
    except Refused as refused:
        raise refused.at(path) from None


def _array(element: Fitting) -> Fitting:
    name = f"[{element.name}]"

    def check(value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise Refused(name, describe_value(value))
        refuse_depth(depth, name)
        items: list[Any] = []
        try:
            for item in value:
                items.append(None if item is None else element.check(item, depth + 1))
        except Refused as refused:
            raise refused.inside(f"[{len(items)}]") from None
        return items

    write_item = nullable(element.write)

    def write(out: bytearray, value: Any, depth: int) -> None:
        if not isinstance(value, list | tuple):
            raise Refused(name, describe_value(value))
        write_items(out, value, depth, name, write_item)

    return Fitting(name, check, write)


def nullable(write: Write) -> Write:
    """Return the writer of a union of null and the type."""

    def write_branch(out: bytearray, value: Any, depth: int) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            write(out, value, depth)

    return write_branch


def _check_record(name: str, fields: Mapping[str, Fitting], value: Any, depth: int) -> dict[str, Any]:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    record: dict[str, Any] = {}
    field_name = ""
    try:
        for field_name, fitting in fields.items():
            item = value.get(field_name, _ABSENT)
            if item is not _ABSENT:
                record[field_name] = None if item is None else fitting.check(item, depth + 1)
    except Refused as refused:
        raise refused.inside(segment(field_name)) from None
    if len(record) < len(value):
        raise _unknown_field(name, fields, value)
    return record


def _write_record(name: str, fields: Mapping[str, Fitting], out: bytearray, value: Any, depth: int) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    if write_fields(fields, out, value, depth) < len(value):
        raise _unknown_field(name, fields, value)


def write_fields(
    fields: Mapping[str, Fitting], out: bytearray, value: Mapping[str, Any], depth: int, extras: bool = False
) -> int:
    """Append a generated record: its fields, with `extras` the undeclared entries, and the names of absent fields.

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


def _unknown_field(name: str, fields: Mapping[str, Fitting], value: Mapping[Any, Any]) -> Refused:
    key = next(key for key in value if not isinstance(key, str) or key not in fields)
    if not isinstance(key, str):
        return Refused(name, f"a map key that is {describe_value(key)}")
    known = ", ".join(fields) or "none"
    return Refused(name, f"the undeclared field {shorten(repr(key))} (declared: {shorten(known)})")
