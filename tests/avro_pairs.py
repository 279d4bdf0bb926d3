"""Pairs of Avro schemas, and whether a reader with the first can read what the second has written."""

from __future__ import annotations

import json
import random
from typing import Any, Final

Pair = tuple[Any, Any]


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def a_field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def an_enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


_LIST: Final = record(a_field("value", "int"), a_field("next", ["null", "R"]))
_LONG_LIST: Final = record(a_field("value", "long"), a_field("next", ["null", "R"]))

_A: Final = record(a_field("a", "int"), name="A")
_B: Final = record(a_field("a", "int"), name="B")

#: Reader, writer, and whether Avro's specification lets the one read the other.
TABLE: Final[list[tuple[Any, Any, bool]]] = [
    ("int", "int", True),
    ("long", "int", True),
    ("int", "long", False),
    ("float", "long", True),
    ("double", "float", True),
    ("float", "double", False),
    ("string", "bytes", True),
    ("bytes", "string", True),
    ("string", "int", False),
    ("boolean", "int", False),
    ("null", "string", False),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, False),
    ({"type": "map", "values": "string"}, {"type": "map", "values": "int"}, False),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, False),
    (["null", "string"], "string", True),
    (["null", "string"], "int", False),
    (["null", "string"], ["null", "string"], True),
    (["null", "string"], ["null", "int"], False),
    (["null", "double"], ["null", "int"], True),
    ("string", ["null", "string"], False),
    ("string", ["string"], True),
    (record(a_field("a", "int")), record(a_field("a", "int"), a_field("b", "int")), True),
    (record(a_field("a", "int"), a_field("b", "int")), record(a_field("a", "int")), False),
    (record(a_field("a", "int"), a_field("b", "int", default=1)), record(a_field("a", "int")), True),
    (record(a_field("b", "int", aliases=["a"])), record(a_field("a", "int")), True),
    (record(a_field("b", "int")), record(a_field("a", "int")), False),
    (record(a_field("a", "int")), record(a_field("a", "string")), False),
    (record(a_field("a", "int"), name="R"), record(a_field("a", "int"), name="S"), False),
    (record(a_field("a", "int"), name="R", aliases=["S"]), record(a_field("a", "int"), name="S"), True),
    (record(a_field("a", "int"), name="x.R"), record(a_field("a", "int"), name="y.R"), True),
    (an_enum("A", "B"), an_enum("A"), True),
    (an_enum("A"), an_enum("A", "B"), False),
    (an_enum("A", default="A"), an_enum("A", "B"), True),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 4}, True),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 5}, False),
    (_LIST, _LIST, True),
    (_LONG_LIST, _LIST, True),
    (_LIST, _LONG_LIST, False),
    ([_A, _B], _B, True),
    ([_A], _B, False),
    (
        record(a_field("x", ["null", record(a_field("a", "int"), name="I")], default=None)),
        record(a_field("x", ["null", record(a_field("a", "string"), name="I")], default=None)),
        False,
    ),
]


def random_pair(rng: random.Random) -> Pair:
    """Return a schema and a changed one: most of what differs is one thing."""
    writer = _any_type(rng, 3, [0])
    return _changed(writer, rng), writer


_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _any_type(rng: random.Random, depth: int, names: list[int]) -> Any:
    kind = rng.choice(("primitive", "primitive", "array", "map", "record", "enum", "fixed", "union"))
    if depth == 0 or kind == "primitive":
        return rng.choice(_PRIMITIVES)
    if kind in ("array", "map"):
        return {"type": kind, "items" if kind == "array" else "values": _any_type(rng, depth - 1, names)}
    if kind == "union":
        others = [one for one in rng.sample(_PRIMITIVES[1:], rng.randint(1, 3)) if one != "null"]
        return ["null", *others]
    names[0] += 1
    name = f"N{names[0]}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": rng.sample("ABCDE", rng.randint(1, 4))}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": rng.randint(1, 4)}
    fields = [a_field(f"f{n}", _any_type(rng, depth - 1, names)) for n in range(rng.randint(1, 3))]
    return record(*fields, name=name)


def _changed(schema: Any, rng: random.Random) -> Any:
    """Return a copy with a change somewhere, or none."""
    if rng.random() < 0.1:
        return rng.choice(_PRIMITIVES)
    if isinstance(schema, str):
        return rng.choice(("int", "long", "double", "string", "bytes")) if rng.random() < 0.4 else schema
    if isinstance(schema, list):
        if rng.random() < 0.5:
            return schema
        return schema[1:] if rng.random() < 0.5 else list(dict.fromkeys([*schema, rng.choice(_PRIMITIVES)]))
    copy = dict(schema)
    for key in ("items", "values"):
        if key in copy:
            copy[key] = _changed(copy[key], rng)
    if copy["type"] == "enum" and rng.random() < 0.5:
        copy["symbols"] = sorted({*copy["symbols"][:2], rng.choice("ABCDE")})
        if rng.random() < 0.5:
            copy["default"] = copy["symbols"][0]
    if copy["type"] == "fixed" and rng.random() < 0.3:
        copy["size"] += 1
    if copy["type"] == "record":
        fields = [{**field, "type": _changed(field["type"], rng)} for field in copy["fields"]]
        if rng.random() < 0.3:
            fields.pop(rng.randrange(len(fields)))
        if rng.random() < 0.4:
            added = a_field("added", "long", **({"default": 0} if rng.random() < 0.5 else {}))
            fields.append(added)
        copy["fields"] = fields
    return copy


def texts(pair: Pair) -> tuple[str, str]:
    reader, writer = pair
    return json.dumps(reader), json.dumps(writer)
