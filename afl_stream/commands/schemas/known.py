"""Earlier schemas, wherever they are: in the registry, on the schemas topic, in a program or in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.schemas.comparing import KnownSchema
from afl_stream.commands.schemas.event_schemas import ProgramSchemas, TopicSchema
from afl_stream.errors import Unreadable
from afl_stream.reading.topic_log import TopicLog
from afl_stream.registry.client import RegistryClient
from afl_stream.registry.compatibility_levels import LEVELS, SUGGESTED
from afl_stream.registry.subjects import Subjects, record_name
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text

_ENDING: Final = ".avsc"


class KnownSchemas(Protocol):
    """A place with earlier schemas."""

    #: The place, in words.
    place: str

    def of(self, schema: TopicSchema) -> Sequence[KnownSchema]:
        """Return the earlier schemas of what this one writes, oldest first."""

    def level(self, schema: TopicSchema) -> str:
        """Return the level by which they are compared."""


class RegisteredSchemas:
    """The versions of each subject in the registry, compared as the registry would."""

    def __init__(self, client: RegistryClient, subjects: Subjects, level: str | None) -> None:
        self.place = f"the registry {client.url}"
        self._client = client
        self._subjects = subjects
        self._level = level

    def of(self, schema: TopicSchema) -> list[KnownSchema]:
        """Return the versions. Raises SchemaUnavailable, and Unreadable for a schema that is not Avro."""
        subject = self._subjects.of(schema.topic, schema.schema)
        return [KnownSchema(f"version {number}", text) for number, text in self._client.texts(subject)]

    def level(self, schema: TopicSchema) -> str:
        """Return the level that was asked for, else the subject's, else the registry's unless that is none."""
        if self._level is not None:
            return self._level
        level = self._client.compatibility(self._subjects.of(schema.topic, schema.schema))
        level = level or self._client.own_compatibility()
        return level if level in LEVELS and level != "NONE" else SUGGESTED


class SchemaCollection:
    """Schemas by the names of their records, which are those of their facets' payloads."""

    def __init__(self, place: str, level: str | None) -> None:
        self.place = place
        self._level = level or SUGGESTED
        self._of: dict[str, dict[str, KnownSchema]] = {}

    def add(self, label: str, schema: WriterSchema) -> None:
        """Add a schema, unless it is there."""
        self._of.setdefault(record_name(schema), {}).setdefault(schema.canonical, KnownSchema(label, schema.text))

    def of(self, schema: TopicSchema) -> list[KnownSchema]:
        return list(self._of.get(schema.record, {}).values())

    def level(self, schema: TopicSchema) -> str:  # noqa: ARG002 - the protocol's signature
        return self._level


def announced_schemas(log: TopicLog, level: str | None) -> SchemaCollection:
    """Return what the schemas topic holds. Raises SchemaUnavailable and what the transport raises."""
    known = SchemaCollection(f"the topic {log.topic}", level)
    for _, value in log.read_to_end():
        try:
            schema = parse_schema_text((value or b"").decode())
        except (Unreadable, UnicodeDecodeError):
            continue  # Readers of the topic skip it as well.
        known.add(f"schema {schema.fingerprint:016x}", schema)
    return known


def schemas_of_program(name: str, program: ProgramSchemas, level: str | None) -> SchemaCollection:
    """Return the schemas of another program's facets."""
    known = SchemaCollection(name, level)
    for schema in program.schemas.values():
        known.add(name, schema)
    return known


def schemas_of_folder(folder: Path, level: str | None) -> SchemaCollection:
    """Return the schemas of the files of a folder. Raises CommandRefused for one that is no schema."""
    known = SchemaCollection(str(folder), level)
    files = sorted(folder.rglob(f"*{_ENDING}"))
    if not files:
        raise CommandRefused(f"{folder} has no {_ENDING} file; write some with: afl-stream schemas generate --output")
    for file in files:
        try:
            known.add(str(file), parse_schema_text(file.read_text(encoding="utf-8")))
        except (Unreadable, UnicodeDecodeError) as error:
            raise CommandRefused(f"{file}: {error}") from error
    return known
