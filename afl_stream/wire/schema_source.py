"""Writer schemas, announced to and looked up in the schemas topic where no registry is configured."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable
from typing import Final, Protocol

from afl.core.text.printable import printable
from afl.core.text.warning_limits import LimitedLog
from afl_stream.errors import SchemaTaken, SchemaUnavailable, SchemaUnknown, Unreadable
from afl_stream.transport import Headers, NotAuthorized
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.payload_schema import facet_of

_log = logging.getLogger(__name__)

#: On a record of the schemas topic: the schema's fingerprint in hex digits, in the order of a record's bytes.
FINGERPRINT_HEADER: Final = "afl_fingerprint"
#: The facet whose events it is for.
FACET_HEADER: Final = "afl_facet"
#: The record that it is for, where that is no event of a facet.
RECORD_HEADER: Final = "afl_record"


class SchemaSource(Protocol):
    """A port that maps schemas to ids and back, for one framing."""

    def announce(self, schema: WriterSchema, topic: str) -> int:
        """Make the schema known before its first use on this topic, and return its id.

        Raises SchemaUnavailable, and SchemaTaken when the id is that of another schema.
        """

    def by_id(self, schema_id: int) -> WriterSchema:
        """Return the schema of an id.

        Raises SchemaUnknown when there is none, SchemaUnavailable when that is not known right now, and Unreadable when
        the text announced under the id is not a schema.
        """

    @property
    def losses(self) -> int:
        """Return how often it was found that schemas were lost."""

    def lack(self, written_at_ms: int | None) -> str | None:
        """Return why a schema that existed when a record of that time was written may be gone; None when none is."""

    def keep_announced(self) -> None:
        """Announce again schemas that were announced and are gone. Raises SchemaUnavailable."""


class SchemaNotAnnounced(SchemaUnavailable):
    """A schema that a writer needs is not on the schemas topic, and its user may not write there."""

    fact = "was not announced yet"
    waits_for_people = True

    def __init__(self, schema: WriterSchema, refusal: NotAuthorized) -> None:
        super().__init__(
            f"the schema {schema.root['name']}",
            f"{refusal}. `afl-stream deploy`, and an evaluator that starts, announce the schemas of answers, commands "
            "and external events",
        )


class SchemaLog(Protocol):
    """The schemas topic, as its reader and writer see it."""

    @property
    def losses(self) -> int:
        """Return how often it was found that the topic lost records. Each time it is read again from its beginning."""

    def append(self, key: bytes, value: bytes, headers: Headers = ()) -> None:
        """Append a record and return when it is acknowledged. Raises SchemaUnavailable."""

    def read_to_end(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Return what was appended since the last call, up to the current end.

        All or nothing: after SchemaUnavailable the next call returns what this one would have returned.
        """

    def lack(self, written_at_ms: int | None) -> str | None:
        """Return why the topic may have lost records since that time; None when it has lost none."""


class SchemasTopicSource:
    """Schemas by fingerprint, over the schemas topic.

    A record's key is the SHA-256 of its text, or the record is skipped. A fingerprint has 64 bits, so another schema
    with the same one can be made on purpose: the first stays, any other is refused. `known` are schemas that are built
    into this release, and that come first.

    A reader that does not know a fingerprint first reads the topic to its end: only then is the schema unknown. One
    lock guards log and tables; a thread that looks a schema up waits for another that is reading.
    """

    def __init__(self, log: SchemaLog, known: Iterable[WriterSchema] = ()) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._schemas: dict[int, WriterSchema] = {schema.fingerprint: schema for schema in known}
        #: Those that the topic has or had.
        self._announced: dict[int, WriterSchema] = {}
        #: The fingerprints of those that the topic has now.
        self._on_topic: set[int] = set()
        self._losses = log.losses
        #: Any writer that may announce a schema may announce any number of them.
        self._warnings = LimitedLog(_log)

    def announce(self, schema: WriterSchema, topic: str) -> int:  # noqa: ARG002 - the SchemaSource port's signature
        """Append the schema unless the topic has it, wait for the acknowledgement, return its fingerprint.

        The topic plays no part: a fingerprint means the same schema everywhere.
        """
        with self._lock:
            if schema.fingerprint not in self._on_topic:
                self._read_new_records()
            held = self._schemas.setdefault(schema.fingerprint, schema)
            if held.canonical != schema.canonical:
                raise SchemaTaken(f"{schema.fingerprint:016x}", printable(held.text, 200))
            if schema.fingerprint not in self._on_topic:
                self._append(schema)
            return schema.fingerprint

    def by_id(self, schema_id: int) -> WriterSchema:
        """Return the schema of a fingerprint; raise SchemaUnknown or SchemaUnavailable."""
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        with self._lock:
            if schema_id not in self._schemas:
                self._read_new_records()
            if schema_id not in self._schemas:
                raise SchemaUnknown(f"{schema_id:016x}")
            return self._schemas[schema_id]

    @property
    def losses(self) -> int:
        """Return how often it was found that the topic lost records, as far as it was read."""
        return self._losses

    def lack(self, written_at_ms: int | None) -> str | None:
        """Return why the schema of a record of that time may be gone; None when the topic has all."""
        return self._log.lack(written_at_ms)

    def keep_announced(self) -> None:
        """Announce again the schemas that the topic has lost and this process has. Raises SchemaUnavailable."""
        with self._lock:
            self._read_new_records()
            gone = [schema for fingerprint, schema in self._announced.items() if fingerprint not in self._on_topic]
            for schema in gone:
                self._append(schema)
        if gone:
            _log.warning("%d schemas were announced again, because the schemas topic lacked them", len(gone))

    def _read_new_records(self) -> None:
        new_records = list(self._log.read_to_end())
        if self._log.losses != self._losses:
            self._losses = self._log.losses
            self._on_topic.clear()
        for key, value in new_records:
            if value is not None:  # A tombstone: a process that needs the schema announces it again.
                self._take(key, value)

    def _append(self, schema: WriterSchema) -> None:
        text = schema.text.encode()
        try:
            self._log.append(schema_key(text), text, schema_headers(schema))
        except NotAuthorized as error:
            raise SchemaNotAnnounced(schema, error) from error
        self._on_topic.add(schema.fingerprint)
        self._announced[schema.fingerprint] = schema

    def _take(self, key: bytes | None, value: bytes) -> None:
        """Take in a record of the topic. A foreign record must not stop the reading of what follows it."""
        if key != schema_key(value):
            self._warnings.warning(
                "records of the schemas topic under another key",
                "a record of the schemas topic is skipped: its key %s is not the SHA-256 of its text",
                printable(repr(key), 100),
            )
            return
        try:
            schema = parse_schema_text(value.decode())
        except (Unreadable, UnicodeDecodeError) as error:
            text = "a record of the schemas topic is skipped: %s"
            self._warnings.warning("texts of the schemas topic that are not schemas", text, printable(str(error), 300))
            return
        held = self._schemas.setdefault(schema.fingerprint, schema)
        if held.canonical != schema.canonical:
            self._warnings.error(
                "schemas with the fingerprint of another",
                "schema %s is refused: its fingerprint %016x is that of another schema, which stays; one was made "
                "on purpose, or the two collide by chance",
                key.decode("ascii", "replace"),
                schema.fingerprint,
            )
            return
        self._on_topic.add(schema.fingerprint)
        self._announced.setdefault(schema.fingerprint, held)


def schema_key(text: bytes) -> bytes:
    """Return the key of a schema's record: the SHA-256 of its text, in lower-case hex digits."""
    return hashlib.sha256(text).hexdigest().encode()


def schema_headers(schema: WriterSchema) -> Headers:
    """Return the headers of a schema's record: its fingerprint as records have it, and what it is the schema of.

    They are for people and for clients that look a schema up; readers of ours go by the text alone.
    """
    headers: Headers = ((FINGERPRINT_HEADER, schema.fingerprint.to_bytes(8, "little").hex().encode()),)
    facet = facet_of(schema.root)
    if facet is not None:
        return (*headers, (FACET_HEADER, facet.encode()))
    return (*headers, (RECORD_HEADER, str(schema.root["name"]).encode()))


class InMemorySchemaLog:
    """A schemas topic of one process, for tests and for tools that need no broker."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.losses = 0
        self._next = 0

    def append(self, key: bytes, value: bytes, headers: Headers = ()) -> None:  # noqa: ARG002 - readers need none
        """Append a record; it is acknowledged at once."""
        self.records.append((key, value))

    def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return the records since the last call."""
        new_records, self._next = self.records[self._next :], len(self.records)
        return new_records

    def lack(self, written_at_ms: int | None) -> str | None:  # noqa: ARG002 - the SchemaLog port's signature
        """Return None: nothing is ever lost here."""
        return None

    def reader(self) -> InMemorySchemaLog:
        """Return another reader and writer of the same records, from the beginning."""
        other = InMemorySchemaLog()
        other.records = self.records
        return other
