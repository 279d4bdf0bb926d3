"""Subjects: the names under which a registry keeps the schemas of a topic."""

from __future__ import annotations

from typing import Any, Final

from afl_stream.topics.declared import Topology
from afl_stream.wire.avro.schema import WriterSchema, kind_of

#: The record of all events: what tells facets apart is the record of their payload.
_EVENT: Final = "afl.v1.Event"


class Subjects:
    """The subjects of one deployment, by its setting `registry.subject_strategy`.

    `topic_name` is `<topic>-value`, `record_name` the record's full name, `topic_record_name` both with a dash. A topic
    that carries several record types, or events of several facets, has no single schema, so that `topic_name` names its
    subjects as `topic_record_name` does. An event's record name is that of its payload.
    """

    def __init__(self, strategy: str, topology: Topology) -> None:
        self._strategy = strategy
        self._topology = topology

    def of(self, topic: str, schema: WriterSchema) -> str:
        """Return the subject of a schema that writes values of this topic."""
        if self._strategy == "record_name":
            return record_name(schema)
        if self._strategy == "topic_record_name" or self._topology.has_several_schemas(topic):
            return f"{topic}-{record_name(schema)}"
        return f"{topic}-value"


def record_name(schema: WriterSchema) -> str:
    """Return the full name of a schema's record; of an event, that of its payload."""
    root = schema.root
    name = str(root["name"]) if kind_of(root) == "record" else str(kind_of(root))
    if name != _EVENT:
        return name
    payload: Any = next((entry["type"] for entry in root["fields"] if entry["name"] == "payload"), name)
    return str(payload["name"]) if isinstance(payload, dict) and "name" in payload else str(kind_of(payload))
