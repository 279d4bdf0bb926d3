"""Declarations of topics in `topics/`: one TOML file for each kind of topic."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from afl.core.text.exception_text import exception_text
from afl_stream.errors import DeclarationError
from afl_stream.resources import topic_texts

#: Every kind of topic that the runtime knows; each has its file.
KINDS: Final = (
    "facet",
    "control",
    "commands",
    "external",
    "lifecycle",
    "definitions",
    "schemas",
    "presence",
    "dlq",
    "pubsub",
    "pubsub_state",
)
_CLEANUP_POLICIES: Final = ("delete", "compact", "compact,delete")
#: Settings that a declaration may name in place of a number.
_COUNT_SETTINGS: Final = ("control_partitions", "event_partitions", "replication")
_REASONS: Final = ("key", "partitions", "replication", "retention", "cleanup", "max_message")
_KEYS: Final = frozenset(
    (
        "name",
        "key",
        "value",
        "partitions",
        "replication",
        "min_insync_replicas",
        "cleanup_policy",
        "retention_ms",
        "max_message_bytes",
        "why",
        "shared",
        "sizes",
    )
)
_SIZE_KEYS: Final = ("partitions", "replication", "min_insync_replicas", "retention_ms", "max_message_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeclaration:
    """The content of one file of `topics/`. Counts are numbers, or names of settings in section [topics].

    `shared` maps a facet to the topic that it shares, `sizes` a facet to counts of its own; both only for facets.
    """

    kind: str
    name: str
    key: str
    value: tuple[str, ...]
    partitions: int | str
    replication: int | str
    min_insync_replicas: int
    cleanup_policy: str
    retention_ms: int | None
    max_message_bytes: int
    why: Mapping[str, str]
    shared: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def load_declarations(directory: Path | str | None = None) -> dict[str, TopicDeclaration]:
    """Return the declarations by kind: the shipped ones, each replaced by its namesake in the directory if given.

    Raises DeclarationError, which names file, key, what was found and what was expected.
    """
    texts = {kind: (f"topics/{kind}.toml", text) for kind, text in topic_texts().items()}
    if directory is not None:
        if not Path(directory).is_dir():
            raise DeclarationError(str(directory), "directory", "nothing", "a directory with TOML files")
        for file in sorted(Path(directory).glob("*.toml")):
            if file.stem not in KINDS:
                raise DeclarationError(str(file), "file name", file.stem, f"one of {', '.join(KINDS)}")
            texts[file.stem] = (str(file), file.read_text(encoding="utf-8"))
    return {kind: parse_declaration(kind, texts[kind][1], texts[kind][0]) for kind in KINDS}


def parse_declaration(kind: str, text: str, source: str) -> TopicDeclaration:
    """Read one declaration. Raises DeclarationError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(source, "file", exception_text(error), "readable TOML") from error
    reader = _Reader(table, source)
    reader.refuse_unknown(_KEYS if kind == "facet" else _KEYS - {"shared", "sizes"})
    policy = reader.text("cleanup_policy")
    if policy not in _CLEANUP_POLICIES:
        raise DeclarationError(source, "cleanup_policy", policy, f"one of {', '.join(_CLEANUP_POLICIES)}")
    return TopicDeclaration(
        kind=kind,
        name=reader.text("name"),
        key=reader.text("key"),
        value=reader.texts("value"),
        partitions=reader.count("partitions"),
        replication=reader.count("replication"),
        min_insync_replicas=reader.number("min_insync_replicas"),
        cleanup_policy=policy,
        # A compacted topic keeps its records for ever; everything else says for how long.
        retention_ms=reader.number("retention_ms") if "delete" in policy else None,
        max_message_bytes=reader.number("max_message_bytes"),
        why=reader.reasons(),
        shared=reader.shared() if kind == "facet" else {},
        sizes=reader.sizes() if kind == "facet" else {},
    )


class _Reader:
    """One file's table, with errors that name the file."""

    def __init__(self, table: Mapping[str, Any], source: str) -> None:
        self._table = table
        self._source = source

    def refuse_unknown(self, known: frozenset[str]) -> None:
        for key in self._table:
            if key not in known:
                raise self._error(key, self._table[key], f"one of {', '.join(sorted(known))}")

    def text(self, key: str) -> str:
        value = self._table.get(key)
        if not isinstance(value, str) or not value:
            raise self._error(key, value, "a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        return (self.text(key),)

    def number(self, key: str) -> int:
        value = self._table.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._error(key, value, "a number above 0")
        return value

    def count(self, key: str) -> int | str:
        value = self._table.get(key)
        if value in _COUNT_SETTINGS:
            return str(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._error(key, value, f"a number above 0, or one of {', '.join(_COUNT_SETTINGS)}")
        return value

    def reasons(self) -> dict[str, str]:
        why = self._table.get("why")
        if not isinstance(why, dict) or not all(isinstance(why.get(key), str) and why[key] for key in _REASONS):
            raise self._error("why", why, f"a sentence for each of {', '.join(_REASONS)}")
        return {key: str(why[key]) for key in why}

    def shared(self) -> dict[str, str]:
        topics: dict[str, str] = {}
        for entry in self._list("shared"):
            topic, facets = entry.get("topic"), entry.get("facets")
            if not isinstance(topic, str) or not isinstance(facets, list) or len(entry) != 2:
                raise self._error("shared", entry, "topic (a string) and facets (a list)")
            for facet in facets:
                if not isinstance(facet, str) or facet in topics:
                    raise self._error("shared.facets", facet, "a facet's name, in one topic only")
                topics[facet] = topic
        return topics

    def sizes(self) -> dict[str, dict[str, int]]:
        sizes = self._table.get("sizes", {})
        if not isinstance(sizes, dict):
            raise self._error("sizes", sizes, 'tables [sizes."facet"]')
        for facet, entry in sizes.items():
            if not isinstance(entry, dict):
                raise self._error(f"sizes.{facet}", entry, "a table")
            for key, value in entry.items():
                if key not in _SIZE_KEYS or not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise self._error(f"sizes.{facet}.{key}", value, f"a number above 0 for {', '.join(_SIZE_KEYS)}")
        return {facet: dict(entry) for facet, entry in sizes.items()}

    def _list(self, key: str) -> list[dict[str, Any]]:
        entries = self._table.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._error(key, entries, f"tables [[{key}]]")
        return entries

    def _error(self, key: str, found: object, expected: str) -> DeclarationError:
        return DeclarationError(self._source, key, found, expected)
