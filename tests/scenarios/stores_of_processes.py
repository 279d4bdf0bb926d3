"""Event stores as processes of tests open them: by a word for their kind and where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.opening import open_event_store
from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.transport import TopicExists, Transport
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.schema_source import InMemorySchemaLog

PARTITIONS = 2


@asynccontextmanager
async def opened(where: str) -> AsyncIterator[EventStore]:
    """Open a store: `embedded:PATH` and `kafka:BOOTSTRAP/PREFIX` on topics, others by open_event_store."""
    kind, _, place = where.partition(":")
    transport: Transport | None = None
    if kind == "embedded":
        transport = EmbeddedTransport(Path(place))
        store: EventStore = _on_topics(transport, "afl.")
    elif kind == "kafka":
        from afl_stream.kafka.transport import KafkaTransport
        from afl_stream.settings.config import KafkaSettings, StreamConfig

        bootstrap, _, prefix = place.partition("/")
        transport = KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=bootstrap)))
        store = _on_topics(transport, prefix)
    else:
        store = open_event_store(where)
    try:
        yield store
    finally:
        await store.close()
        if transport is not None:
            transport.close()


def _on_topics(transport: Transport, prefix: str) -> EventStore:
    topic = f"{prefix}pubsub.Desk.state"
    admin = transport.admin()
    if topic not in admin.topics([topic]):
        with suppress(TopicExists):
            admin.create_topic(topic, partitions=PARTITIONS, settings={"cleanup.policy": "compact"})
    return TopicEventStore(transport, single_object_codec(InMemorySchemaLog()), lambda _workflow: topic)
