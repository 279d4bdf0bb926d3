"""AFL types: the values that each accepts, coerces and refuses. The only table of types, and the only check.

`TYPE_TABLE` describes them for people; `schemas/README.md` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from afl.core.limits import MAX_VALUE_DEPTH
from afl.core.values import (
    Refused,
    check_boolean,
    check_double,
    check_entries,
    check_integer,
    check_json,
    check_string,
    describe_value,
    entries_of,
    refuse_depth,
    segment,
    shorten,
)

#: A type as compiled programs spell it: "Long", "ns.Schema", or {"type": "ArrayType", "elementType": ...}.
AflType: TypeAlias = object
#: A check returns the value, coerced, or raises Refused. The number is the depth.
Check: TypeAlias = Callable[[Any, int], Any]
#: The types of a schema's fields by name; None for a name that is not a schema's.
FieldsOf: TypeAlias = Callable[[str], Mapping[str, AflType] | None]

_ABSENT: Final = object()


class BuiltinType(NamedTuple):
    """A type that is built in: what fits it, and what it is to those who write its values down."""

    name: str
    #: Returns a value as the type takes it; null is none of its business.
    check: Check
    #: The class of its values once they are checked; None where they are of several.
    kind: type | None
    #: Its Avro type.
    avro: str
    #: Its values as JSON Schema says it.
    json_schema: Mapping[str, str]


#: The built-in types. All other modules take them from here.
BUILTIN_TYPES: Final[Mapping[str, BuiltinType]] = {
    row.name: row
    for row in (
        BuiltinType("String", check_string, str, "string", {"type": "string"}),
        BuiltinType("Int", partial(check_integer, name="Int"), int, "long", {"type": "integer"}),
        BuiltinType("Long", partial(check_integer, name="Long"), int, "long", {"type": "integer"}),
        BuiltinType("Double", check_double, float, "double", {"type": "number"}),
        BuiltinType("Boolean", check_boolean, bool, "boolean", {"type": "boolean"}),
        BuiltinType("Json", check_json, None, "record afl.v1.Value", {}),
    )
}
#: The checks alone.
BUILTIN_CHECKS: Final[Mapping[str, Check]] = {name: row.check for name, row in BUILTIN_TYPES.items()}
#: Types of numbers, and of all that is neither list nor map.
NUMBER_TYPES: Final = frozenset(name for name, row in BUILTIN_TYPES.items() if row.kind in (int, float))
SCALAR_TYPES: Final = frozenset(name for name, row in BUILTIN_TYPES.items() if row.kind is not None)
#: The type of a scalar by its class. An integer's is the Long, which stands behind the Int in the table.
TYPE_OF_KIND: Final[Mapping[type, str]] = {
    row.kind: name for name, row in BUILTIN_TYPES.items() if row.kind is not None
}


class TypeRow(NamedTuple):
    """One row of the published table."""

    afl: str
    avro: str
    coerced: str
    refused: str


def _row(names: str, coerced: str, refused: str) -> TypeRow:
    """Return the row of built-in types that share one."""
    return TypeRow(names, BUILTIN_TYPES[names.partition(",")[0]].avro, coerced, refused)


TYPE_TABLE: Final[tuple[TypeRow, ...]] = (
    _row("String", "nothing", "any other type; text with lone surrogates, which UTF-8 cannot carry"),
    _row(
        "Int, Long",
        "nothing",
        "integers outside signed 64 bits (2^63, 2^70, ...); a Double, even an integral one like 3.0; String; Boolean",
    ),
    _row(
        "Double",
        "an integer that a Double holds exactly: 3 becomes 3.0",
        "NaN and the infinities; an integer that a Double does not hold exactly (2^53 + 1); String; Boolean",
    ),
    _row("Boolean", "nothing", "numbers, 0 and 1 too; String"),
    _row(
        "Json",
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


def type_name(afl_type: AflType) -> str:
    """Return a type as AFL writes it, e.g. `[Long]`."""
    if isinstance(afl_type, Mapping) and "elementType" in afl_type:
        return f"[{type_name(afl_type['elementType'])}]"
    return str(afl_type)


def check_typed(value: Any, afl_type: AflType, fields_of: FieldsOf, depth: int = 0) -> Any:
    """Return the value as the type accepts it: containers copied, integers made Doubles where a Double is declared.

    Every type accepts null. A name that is neither built in nor a schema's is a facet's. Raises Refused.
    """
    if value is None:
        return None
    if type(afl_type) is not str:
        if not isinstance(afl_type, Mapping):
            raise TypeError(f"{afl_type!r} is not an AFL type")
        return _check_array(value, afl_type, fields_of, depth)
    check = BUILTIN_CHECKS.get(afl_type)
    if check is not None:
        return check(value, depth)
    fields = fields_of(afl_type)
    if fields is None:
        return check_entries(value, depth, afl_type)
    return _check_record(value, afl_type, fields, fields_of, depth)


def _check_array(value: Any, afl_type: Mapping[str, Any], fields_of: FieldsOf, depth: int) -> list[Any]:
    name = type_name(afl_type)
    if not issubclass(type(value), list | tuple):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    element = afl_type.get("elementType")
    items: list[Any] = []
    try:
        for item in value:
            items.append(check_typed(item, element, fields_of, depth + 1))
    except Refused as refused:
        raise refused.inside(f"[{len(items)}]") from None
    return items


def _check_record(
    value: Any, name: str, fields: Mapping[str, AflType], fields_of: FieldsOf, depth: int
) -> dict[str, Any]:
    entries = entries_of(value, name)
    refuse_depth(depth, name)
    record: dict[str, Any] = {}
    field = ""
    try:
        for field, afl_type in fields.items():
            item = entries.get(field, _ABSENT)
            if item is not _ABSENT:
                record[field] = check_typed(item, afl_type, fields_of, depth + 1)
    except Refused as refused:
        raise refused.inside(segment(field)) from None
    if len(record) < len(entries):
        raise unknown_field(name, fields, entries).inside(segment(next(key for key in entries if key not in fields)))
    return record


def unknown_field(name: str, fields: Mapping[str, object], value: Mapping[Any, Any]) -> Refused:
    """Return the refusal of a map with an entry that its schema does not declare."""
    key = next(key for key in value if not isinstance(key, str) or key not in fields)
    if not isinstance(key, str):
        return Refused(name, f"a map key that is {describe_value(key)}; keys are Strings")
    known = ", ".join(fields) or "none"
    return Refused(name, f"the undeclared field {shorten(repr(key))} (declared: {shorten(known)})")
