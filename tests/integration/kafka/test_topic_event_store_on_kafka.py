"""The event store on topics keeps the contract on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.contract.event_store_contract import (
    DurableEventStoreContract,
    EventStoreContract,
    NewStore,
    PurgingEventStoreContract,
)
from tests.eventually import eventually


class TestTopicEventStoreOnKafka(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, kafka_bootstrap: str, kafka_prefix: str) -> Iterator[NewStore]:
        transports: list[KafkaTransport] = []
        schemas = InMemorySchemaLog()
        config = StreamConfig(kafka=KafkaSettings(bootstrap=kafka_bootstrap))

        def topic_of(workflow: str) -> str:
            return f"{kafka_prefix}pubsub.{workflow}.state"

        def new_store() -> TopicEventStore:
            transports.append(KafkaTransport(config))
            return TopicEventStore(transports[-1], single_object_codec(schemas), topic_of)

        maker = KafkaTransport(config)
        transports.append(maker)
        names = [topic_of(workflow) for workflow in ("Desk", "Other")]
        for name in names:
            maker.admin().create_topic(name, partitions=3, settings={"cleanup.policy": "compact"})
        eventually(lambda: set(names) <= set(maker.admin().topics(names)))
        yield new_store
        for transport in transports:
            transport.close()
