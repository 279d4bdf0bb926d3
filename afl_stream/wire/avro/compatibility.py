"""Whether a reader with one schema can read what another schema has written, by Avro's rules of schema resolution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import fastavro.schema

from afl.core.text.exception_text import exception_line
from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.avro.schema import branches_of, kind_of

#: What a reader of a type also reads: numbers of a narrower type, and the bytes of strings.
_PROMOTED: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}
_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class Incompatibility(NamedTuple):
    """A place where a reader cannot read what was written: fields with dots, `[]` for items, `{}` for values."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or 'the record'}: {self.why}"


def incompatibilities(reader: str, writer: str) -> list[Incompatibility]:
    """Return the places where a reader with one schema's text cannot read what the other's has written; none: it can.

    Raises Unreadable (BAD_SCHEMA) for a text that is not an Avro schema.
    """
    resolution = _Resolution(*_parsed(reader), *_parsed(writer))
    return list(dict.fromkeys(resolution.compared()))


def _parsed(text: str) -> tuple[Any, dict[str, Any]]:
    named: dict[str, Any] = {}
    try:
        return fastavro.schema.parse_schema(json.loads(text), named), named
    except Exception as error:  # whatever the parser stumbles over in anybody's text
        raise Unreadable(Reason.BAD_SCHEMA, f"not an Avro schema ({exception_line(error)})") from error


class _Resolution:
    """One comparison of two schemas. A pair of records that is met inside itself is compared once."""

    def __init__(self, reader: Any, readers: dict[str, Any], writer: Any, writers: dict[str, Any]) -> None:
        self._reader, self._readers = reader, readers
        self._writer, self._writers = writer, writers
        self._compared: set[tuple[str, str]] = set()

    def compared(self) -> Iterator[Incompatibility]:
        """Yield what is found in the whole schemas."""
        return self._types(self._reader, self._writer, "")

    def _types(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        reader, writer = _followed(reader, self._readers), _followed(writer, self._writers)
        read, written = kind_of(reader), kind_of(writer)
        if written == "union":
            # Any of them may have been written.
            for branch in writer:
                yield from self._types(reader, branch, path)
        elif read == "union":
            yield from self._branches(reader, writer, path)
        elif read == written or (read in _RECORDS and written in _RECORDS):
            yield from self._same_kind(read, reader, writer, path)
        elif written not in _PROMOTED.get(read, ()):
            yield Incompatibility(path, f"{_shown(writer)} cannot be read as {_shown(reader)}")

    def _branches(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        tried = [list(self._alone(branch, writer, path)) for branch in reader]
        if not all(tried):
            return
        others = [index for index, branch in enumerate(branches_of(reader)) if kind_of(branch) != "null"]
        same = [index for index in others if _is_alike(_followed(reader[index], self._readers), writer)]
        if len(same) == 1 and kind_of(writer) != "null":
            # It was meant to be this one, so that its own differences are the reason.
            yield from tried[same[0]]
        else:
            kinds = ", ".join(_shown(_followed(branch, self._readers)) for branch in reader)
            yield Incompatibility(path, f"{_shown(writer)} cannot be read as any of {kinds}")

    def _alone(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        """Compare a branch; what it has found does not stand for another branch."""
        before = set(self._compared)
        found = list(self._types(reader, writer, path))
        if found:
            self._compared = before
        return iter(found)

    def _same_kind(self, kind: str, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        if kind in _PRIMITIVES:
            return
        if kind == "array":
            yield from self._types(reader["items"], writer["items"], f"{path}[]")
            return
        if kind == "map":
            yield from self._types(reader["values"], writer["values"], f"{path}{{}}")
            return
        if not _has_name_of(reader, writer):
            yield Incompatibility(path, f"{kind} {writer['name']} cannot be read as {kind} {reader['name']}")
        if kind == "fixed":
            if reader["size"] != writer["size"]:
                yield Incompatibility(path, f"{writer['size']} bytes cannot be read as {reader['size']}")
        elif kind == "enum":
            yield from self._symbols(reader, writer, path)
        else:
            yield from self._fields(reader, writer, path)

    def _symbols(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if unknown and reader.get("default") not in reader["symbols"]:
            yield Incompatibility(path, f"the reader's enum lacks {', '.join(unknown)}, and has no default")

    def _fields(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        pair = (str(reader["name"]), str(writer["name"]))
        if pair in self._compared:
            return
        self._compared.add(pair)
        written = {entry["name"]: entry for entry in writer["fields"]}
        for field in reader["fields"]:
            inner = f"{path}.{field['name']}" if path else str(field["name"])
            names = (field["name"], *field.get("aliases", ()))
            found = next((written[name] for name in names if name in written), None)
            if found is not None:
                yield from self._types(field["type"], found["type"], inner)
            elif "default" not in field:
                yield Incompatibility(inner, "it was not written, and the reader has no default for it")


_RECORDS: Final = frozenset(("record", "error"))


def _followed(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the definition of a type that is mentioned by its name."""
    kind = kind_of(schema)
    return named.get(kind, schema)


def _has_name_of(reader: Any, writer: Any) -> bool:
    """Return whether names agree: without their namespaces, or the reader has the writer's as an alias."""
    if reader["name"].rpartition(".")[2] == writer["name"].rpartition(".")[2]:
        return True
    namespace = reader["name"].rpartition(".")[0]
    aliases = (
        alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in reader.get("aliases", ())
    )
    return writer["name"] in aliases


def _is_alike(reader: Any, writer: Any) -> bool:
    """Return whether a branch is what a value of this type was meant for: the same kind, or a number as well."""
    read, written = kind_of(reader), kind_of(writer)
    if read in _PRIMITIVES or written in _PRIMITIVES:
        return True
    return read == written


def _shown(schema: Any) -> str:
    """Return a type for people: its kind, and the name of one that has a name."""
    kind = kind_of(schema)
    if kind == "union":
        return " or ".join(_shown(branch) for branch in schema)
    return f"{kind} {schema['name']}" if isinstance(schema, dict) and "name" in schema else kind
