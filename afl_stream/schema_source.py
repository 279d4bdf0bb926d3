"""Where writer schemas are announced and looked up: the schemas topic, where no registry is configured."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Protocol

from afl_stream.avro_schema import WriterSchema, parse_schema_text
from afl_stream.errors import SchemaUnknown, Unreadable


class SchemaSource(Protocol):
    """Maps schemas to ids and back, for one framing."""

    def announce(self, schema: WriterSchema, topic: str) -> int:
        """Make the schema known before its first use on this topic, and return its id. Raises SchemaUnavailable."""

    def by_id(self, schema_id: int) -> WriterSchema:
        """Return the schema of an id.

        Raises SchemaUnknown when there is none, SchemaUnavailable when that cannot be told right now, and Unreadable
        when what was announced under the id is no schema.
        """


class SchemaLog(Protocol):
    """The schemas topic, as its reader and writer see it."""

    def append(self, key: bytes, value: bytes) -> None:
        """Append a record and return when it is acknowledged. Raises SchemaUnavailable."""

    def read_to_end(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Return what was appended since the last call, up to the end as it is now.

        All or nothing: after SchemaUnavailable the next call returns what this one would have.
        """


class SchemasTopicSource:
    """Schemas by fingerprint, over the schemas topic.

    A reader that does not know a fingerprint reads the topic to its end first: only then is the schema unknown.
    One lock guards log and tables; a thread that looks a schema up waits for another that is reading.
    """

    def __init__(self, log: SchemaLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._schemas: dict[int, WriterSchema] = {}

    def announce(self, schema: WriterSchema, topic: str) -> int:
        """Append the schema unless the topic has it, wait for the acknowledgement, return its fingerprint.

        The topic plays no part: a fingerprint means the same schema everywhere.
        """
        with self._lock:
            if schema.fingerprint not in self._schemas:
                self._read_news()
            if schema.fingerprint not in self._schemas:
                text = schema.text.encode()
                self._log.append(hashlib.sha256(text).hexdigest().encode(), text)
                self._schemas[schema.fingerprint] = schema
            return schema.fingerprint

    def by_id(self, schema_id: int) -> WriterSchema:
        """Return the schema of a fingerprint; raise SchemaUnknown or SchemaUnavailable."""
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        with self._lock:
            if schema_id not in self._schemas:
                self._read_news()
            if schema_id not in self._schemas:
                raise SchemaUnknown(f"{schema_id:016x}")
            return self._schemas[schema_id]

    def _read_news(self) -> None:
        for _, value in self._log.read_to_end():
            if value is None:
                continue  # A tombstone: whoever needs the schema announces it again.
            try:
                schema = parse_schema_text(value.decode())
            except (Unreadable, UnicodeDecodeError):
                continue  # Someone else's junk must not stop the reading of what follows it.
            self._schemas[schema.fingerprint] = schema


class InMemorySchemaLog:
    """A schemas topic of one process, for tests and for tools that need no broker."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self._next = 0

    def append(self, key: bytes, value: bytes) -> None:
        """Append a record; it is acknowledged at once."""
        self.records.append((key, value))

    def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return what came since the last call."""
        news, self._next = self.records[self._next :], len(self.records)
        return news

    def reader(self) -> InMemorySchemaLog:
        """Return another reader and writer of the same records, from the beginning."""
        other = InMemorySchemaLog()
        other.records = self.records
        return other
