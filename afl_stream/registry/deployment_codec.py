"""The codec of a deployment: its writer schemas are in a registry, where one is set, else on the schemas topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl_stream.reading.topic_log import TopicLog
from afl_stream.resources import schema_text
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport
from afl_stream.wire.avro.schema import parse_schema_text
from afl_stream.wire.codec import Codec, Wire, single_object_codec, single_object_wire
from afl_stream.wire.event_writers import EventForm
from afl_stream.wire.framing import RegistryFraming
from afl_stream.wire.headers import HeaderForm

if TYPE_CHECKING:
    from afl_stream.registry.client import RegistryClient
    from afl_stream.sensitive.sealing import Sealer


class DeploymentCodec:
    """A codec, and what it reads schemas with. `close` it."""

    def __init__(
        self, config: StreamConfig, transport: Transport, topology: Topology, sealer: Sealer | None = None
    ) -> None:
        """Take the settings; topic and registry are asked when the first schema is needed. Raises ConfigError.

        With a `sealer` the codec decrypts what it reads.
        """
        self._topology = topology
        codec = self._made(config, transport, topology)
        self.codec: Codec = codec
        if sealer is not None:
            from afl_stream.sensitive.opening import OpeningCodec

            self.codec = OpeningCodec(codec, sealer)

    def _made(self, config: StreamConfig, transport: Transport, topology: Topology) -> Codec:
        self._schemas = TopicLog(transport, topology.schemas())
        self._registry: RegistryClient | None = None
        form = HeaderForm(config.wire.headers)

        def event_form(facet: str) -> EventForm | None:
            found = config.wire.event_form(facet)
            return None if found is None else EventForm(found)

        if not config.registry.urls:
            return single_object_codec(
                self._schemas, max_event_bytes=config.max_event_bytes, header_form=form, event_form=event_form
            )
        # Only here: most deployments have no registry.
        from afl_stream.registry.client import RegistryClient
        from afl_stream.registry.pace import Pace
        from afl_stream.registry.source import RegistrySource
        from afl_stream.registry.subjects import Subjects

        self._registry = RegistryClient(config.registry, Pace())
        source = RegistrySource(
            self._registry,
            Subjects(config.registry.subject_strategy, topology),
            registers=config.registry.registers(is_kafka=config.is_kafka),
        )
        wire = Wire(framing=RegistryFraming(), source=source, by_guid=source.by_guid)
        # Records from before the registry, and those of who has none.
        older = single_object_wire(self._schemas)
        return Codec(
            wire,
            also_reads=(older,),
            max_event_bytes=config.max_event_bytes,
            header_form=form,
            event_form=event_form,
        )

    def announce_shipped(self) -> None:
        """Announce the schemas of answers, commands and external events, for writers who may only read the topic.

        With a registry `afl-stream schemas register` does that. Raises SchemaUnavailable.
        """
        if self._registry is None:
            topics = (self._topology.control(), self._topology.commands(), self._topology.external())
            for topic, records in self._topology.record_schemas().items():
                for record in records if topic in topics else ():
                    self.codec.announce_schema(parse_schema_text(schema_text(record)), topic)

    def close(self) -> None:
        """Close what reads and writes schemas."""
        self._schemas.close()
        self.close_registry()

    def close_registry(self) -> None:
        """Close the connections to the registry, and nothing of the transport."""
        if self._registry is not None:
            self._registry.close()
