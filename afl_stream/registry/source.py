"""Writer schemas in a registry, as the codec announces them and looks them up."""

from __future__ import annotations

from threading import Lock
from uuid import UUID

from afl_stream.registry.client import RegistryClient
from afl_stream.registry.errors import SchemaNotRegistered
from afl_stream.registry.subjects import Subjects, record_name
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text


class RegistrySource:
    """Schemas by a registry's ids. To announce one is to look it up under its subject, or to register it there.

    The codec keeps the readers that it has made, so that a schema is asked for once.
    """

    def __init__(self, client: RegistryClient, subjects: Subjects, *, registers: bool) -> None:
        """Take the client. `registers`: a schema that its subject lacks is registered; else it is refused."""
        self._client = client
        self._subjects = subjects
        self._registers = registers
        self._lock = Lock()
        #: Ids by subject and schema: topics that have the same subject need one request.
        self._ids: dict[tuple[str, str], int] = {}

    def announce(self, schema: WriterSchema, topic: str) -> int:
        """Return the id of the schema under the subject of this topic.

        Raises SchemaNotRegistered, SchemaIncompatible, and SchemaUnavailable where that is not known now.
        """
        subject = self._subjects.of(topic, schema)
        with self._lock:
            schema_id = self._ids.get((subject, schema.text))
            if schema_id is None:
                schema_id = self._ids[(subject, schema.text)] = self._found(schema, topic, subject)
            return schema_id

    def by_id(self, schema_id: int) -> WriterSchema:
        """Return the schema of an id. Raises SchemaUnknown, SchemaUnavailable, Unreadable."""
        return parse_schema_text(self._client.schema_by_id(schema_id))

    def by_guid(self, guid: UUID) -> WriterSchema:
        """Return the schema of a GUID. Raises as `by_id`."""
        return parse_schema_text(self._client.schema_by_guid(guid))

    @property
    def losses(self) -> int:
        """Return 0: a registry that has lost a schema says that it is unknown."""
        return 0

    def lack(self, written_at_ms: int | None) -> str | None:  # noqa: ARG002 - the SchemaSource port's signature
        """Return None: a registry is not known to lose schemas."""
        return None

    def keep_announced(self) -> None:
        """Do nothing: what is registered stays."""

    def _found(self, schema: WriterSchema, topic: str, subject: str) -> int:
        # Looked up first: who may not write to the registry may still use what it has.
        schema_id = self._client.id_of(subject, schema.text)
        if schema_id is not None:
            return schema_id
        if not self._registers:
            raise SchemaNotRegistered(topic, subject, record_name(schema))
        return self._client.register(topic, subject, record_name(schema), schema.text)
