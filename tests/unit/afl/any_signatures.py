"""Signatures of any kind, as AFL text, with values of their types: words of other languages, comments that bite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

#: Names that mean something in one language or another, that clash once their case changes, or that are just odd.
NAMES = [
    *(
        "order",
        "orderId",
        "order_id",
        "OrderId",
        "class",
        "None",
        "from_json",
        "to_json",
        "str",
        "list",
        "int",
        "field",
    ),
    *("type", "func", "map", "range", "String", "Json", "Record", "Long", "self", "async", "await", "lambda", "print"),
    *("getClass", "wait", "toMap", "value", "Handlers", "context", "payload", "error", "_x", "__y", "__z__", "x_", "X"),
    *("if", "default", "new", "this", "enum", "Final", "dict", "Facet", "Any", "Object", "int64", "nil", "len", "xs"),
]
#: Comments that would end a comment, a text or a line in one language or another.
COMMENTS = [
    "",
    "Charges a card.",
    'It says """ and """" and "',
    "ends with a backslash \\",
    "\\u002a/ class Sneaky {} /\\u002a",
    "two lines\n     * and = more; \\n\n     *     indented",
    "a line\u2028separator, \u202eturned\u202c and \x0c more {x} %s `y`",
    "import os # type: ignore  // go:build ignore",
]
BUILTINS = ["String", "Int", "Long", "Double", "Boolean", "Json"]


@dataclass(frozen=True)
class Signatures:
    """A program without a workflow, and the types of its facets' parameters and of the fields of its schemas."""

    text: str
    #: By facet: its parameters, with their types.
    params: dict[str, list[tuple[str, str]]]
    #: By schema: its fields, with their types.
    fields: dict[str, list[tuple[str, str]]]


@st.composite
def signatures(draw: st.DrawFn) -> Signatures:
    """Draw a program of one to three schemas and as many event facets, in two namespaces."""
    lines: list[str] = []
    params: dict[str, list[tuple[str, str]]] = {}
    fields: dict[str, list[tuple[str, str]]] = {}
    for namespace in ("one", "two"):
        names = draw(st.lists(st.sampled_from(sorted({*NAMES} - {*BUILTINS})), min_size=2, max_size=4, unique=True))
        schemas, facets = names[: len(names) // 2], names[len(names) // 2 :]
        lines.append(f"namespace {namespace} {{")
        for name in schemas:
            slots = draw(_slots([f"{namespace}.{schema}" for schema in schemas]))
            fields[f"{namespace}.{name}"] = slots
            lines += [_comment(draw, slots), f"schema {name} {{ {', '.join(': '.join(slot) for slot in slots)} }}"]
        for name in facets:
            slots = draw(_slots([*fields]))
            params[f"{namespace}.{name}"] = slots
            written = ", ".join(": ".join(slot) for slot in slots)
            lines += [_comment(draw, slots), f"event facet {name}({written}) => ({written})"]
        lines.append("}")
    return Signatures("\n".join(lines), params, fields)


@st.composite
def _slots(draw: st.DrawFn, schemas: Sequence[str]) -> list[tuple[str, str]]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=5, unique=True))
    types = st.recursive(st.sampled_from([*BUILTINS, *schemas]), lambda inner: inner.map("[{}]".format), max_leaves=2)
    return [(name, draw(types)) for name in names]


def _comment(draw: st.DrawFn, slots: Sequence[tuple[str, str]]) -> str:
    said = draw(st.sampled_from(COMMENTS))
    tags = [f" * @param {name} {draw(st.sampled_from(COMMENTS[1:3]))}" for name, _ in slots[:1]]
    tags += [f" * @sensitive {name}" for name, _ in slots[1:2]]
    return "\n".join(["/**", f" * {said}", *tags, " */"])


def values(afl_type: str, fields: dict[str, list[tuple[str, str]]], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values of a type, as JSON has them; one of a schema that contains itself ends in an empty list."""
    if afl_type.startswith("["):
        may_nest = depth < 3 and has_values(afl_type.strip("[]"), fields)
        return st.lists(values(afl_type[1:-1], fields, depth + 1), max_size=2) if may_nest else st.just([])
    if afl_type in fields:
        return st.fixed_dictionaries({name: values(of, fields, depth + 1) for name, of in fields[afl_type]})
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "String": texts,
        "Boolean": st.booleans(),
        "Double": st.floats(allow_nan=False, allow_infinity=False),
        "Json": st.none() | st.integers(0, 9) | st.dictionaries(texts, st.lists(st.booleans(), max_size=2), max_size=2),
    }
    return scalars.get(afl_type, st.integers(-(2**63), 2**63 - 1))


def has_values(afl_type: str, fields: dict[str, list[tuple[str, str]]], around: Sequence[str] = ()) -> bool:
    """Return whether a type has values without null: a schema that has itself as a field has none."""
    if afl_type in around:
        return False
    return all(has_values(of, fields, [*around, afl_type]) for _, of in fields.get(afl_type, ()))
