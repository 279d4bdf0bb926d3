"""Parsing of the schemas that records are written with; schemas that would make decoding unsafe are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import fastavro.schema

from afl.core.text.exception_text import exception_line
from afl_stream.errors import Reason, Unreadable

#: Longest schema text that is parsed. Texts come from any writer.
MAX_SCHEMA_CHARS: Final = 1_000_000
#: How deep the types of one schema may nest, names not followed.
MAX_SCHEMA_DEPTH: Final = 64

#: How many fields the records of one schema may have in all: code is made for each.
MAX_SCHEMA_FIELDS: Final = 5_000

#: The fingerprint of no text; CRC-64-AVRO's polynomial as well.
_EMPTY_FINGERPRINT: Final = 0xC15D213AA4D7A795

#: Attributes of a named type or field that matter to a reader. Logical types are left out on purpose: a date is a
#: number for AFL, and turning it into a date object would make it a value that AFL does not have.
_KEPT: Final = frozenset(("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "default"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """One parsed schema.

    `text` is what writers announce, `fingerprint` the CRC-64-AVRO of `canonical` (Parsing Canonical Form), `root` the
    type with full names, and `named` every named type in it.
    """

    text: str
    canonical: str
    fingerprint: int
    root: Any
    named: dict[str, Any]


def parse_schema_text(text: str) -> WriterSchema:
    """Parse a schema's JSON text. Raises Unreadable (BAD_SCHEMA) for a schema that no reader can be made of."""
    if len(text) > MAX_SCHEMA_CHARS:
        raise Unreadable(Reason.BAD_SCHEMA, f"the schema's text has {len(text)} characters, over {MAX_SCHEMA_CHARS}")
    named: dict[str, Any] = {}
    try:
        bare = _bare(json.loads(text), 0)
        root = fastavro.schema.parse_schema(bare, named)
        canonical = fastavro.schema.to_parsing_canonical_form(bare)
    except Exception as error:  # whatever the parser stumbles over in anybody's text
        raise Unreadable(Reason.BAD_SCHEMA, f"not an Avro schema ({exception_line(error)})") from error
    _refuse_malformed(named)
    _refuse_types_without_bytes(root, named)
    return WriterSchema(text=text, canonical=canonical, fingerprint=fingerprint_of(canonical), root=root, named=named)


def _fingerprint_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY_FINGERPRINT if value & 1 else 0)
        table.append(value)
    return tuple(table)


# Built once: fastavro builds its own for each fingerprint, which costs more than the rest of reading a schema.
_FINGERPRINT_TABLE: Final = _fingerprint_table()


def fingerprint_of(canonical: str) -> int:
    """Return the CRC-64-AVRO fingerprint of a Parsing Canonical Form as an unsigned number."""
    fingerprint, table = _EMPTY_FINGERPRINT, _FINGERPRINT_TABLE
    for byte in canonical.encode():
        fingerprint = (fingerprint >> 8) ^ table[(fingerprint ^ byte) & 0xFF]
    return fingerprint


def branches_of(schema: Any) -> list[Any]:
    """Return the branches of a union, or the type itself as the only one."""
    return schema if isinstance(schema, list) else [schema]


def kind_of(schema: Any) -> str:
    """Return `union`, a primitive's name, `record`, `enum`, `fixed`, `array`, `map`, or the full name referred to."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _bare(node: object, depth: int) -> Any:
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError(f"types nest deeper than {MAX_SCHEMA_DEPTH}")
    if isinstance(node, list):
        return [_bare(branch, depth + 1) for branch in node]
    if not isinstance(node, dict):
        return node
    bare: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("fields", "symbols") and not isinstance(value, list):
            raise TypeError(f"{key} is not a list")
        if key == "fields":
            bare[key] = [_bare(entry, depth + 1) for entry in value]
        elif key in ("type", "items", "values"):
            bare[key] = _bare(value, depth + 1)
        elif key in _KEPT:
            bare[key] = value
    # {"type": {"type": "string"}} is legal Avro for a plain string; the inner type says all there is.
    if set(bare) == {"type"} and isinstance(bare["type"], dict | list):
        return bare["type"]
    return bare


def _refuse_malformed(named: dict[str, Any]) -> None:
    """Refuse what the parser accepts and a reader cannot use; a reader would never end with a negative size."""
    for name, schema in named.items():
        kind = schema["type"]
        if kind == "fixed" and not (type(schema.get("size")) is int and schema["size"] >= 0):
            raise Unreadable(Reason.BAD_SCHEMA, f"fixed {name} has no size")
        if kind == "enum" and not all(isinstance(symbol, str) for symbol in schema["symbols"]):
            raise Unreadable(Reason.BAD_SCHEMA, f"enum {name} has symbols that are not strings")
        if kind in ("record", "error") and not all(isinstance(field["name"], str) for field in schema["fields"]):
            raise Unreadable(Reason.BAD_SCHEMA, f"record {name} has fields without a name")
    count = sum(len(schema.get("fields", ())) for schema in named.values())
    if count > MAX_SCHEMA_FIELDS:
        raise Unreadable(Reason.BAD_SCHEMA, f"the records have {count} fields, over {MAX_SCHEMA_FIELDS}")


def _refuse_types_without_bytes(root: Any, named: dict[str, Any]) -> None:
    """Refuse arrays and records that grow without bytes: a few bytes could demand all memory, or never end."""
    weightless: dict[str, bool] = {}
    for name, schema in named.items():
        if schema["type"] in ("record", "error") and schema["fields"] and takes_no_bytes(name, named, weightless):
            raise Unreadable(Reason.BAD_SCHEMA, f"record {name} takes no bytes, or contains itself")
    pending = [root, *(field["type"] for schema in named.values() for field in schema.get("fields", ()))]
    while pending:
        schema = pending.pop()
        kind = kind_of(schema)
        if kind == "union":
            pending.extend(schema)
        elif kind == "map":
            pending.append(schema["values"])
        elif kind == "array":
            if takes_no_bytes(schema["items"], named, weightless):
                raise Unreadable(Reason.BAD_SCHEMA, "an array of items that take no bytes")
            pending.append(schema["items"])


def takes_no_bytes(schema: Any, named: dict[str, Any], known: dict[str, bool]) -> bool:
    """Return whether a value of this type has no bytes; `known` keeps the results for records."""
    kind = kind_of(schema)
    if kind in named:
        schema, kind = named[kind], str(named[kind]["type"])
    if kind == "fixed":
        return bool(schema["size"] == 0)
    if kind not in ("record", "error"):
        return kind == "null"
    name = schema["name"]
    if name not in known:
        known[name] = True  # Met again inside itself, with no byte in between, it has no end.
        known[name] = all(takes_no_bytes(field["type"], named, known) for field in schema["fields"])
    return known[name]
