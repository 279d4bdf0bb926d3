"""A real Kafka, as the log of a deployment: seen by a plain consumer, and changed as administrators do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import Message as ConsumedMessage
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its own __init__ imports it, unlisted
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from afl_stream.embedded.transport import Faults
from afl_stream.kafka.consumer import KafkaConsumer
from afl_stream.kafka.groups import NEVER_S
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition, TransportError
from tests.eventually import eventually
from tests.worlds.processes import DEADLINE_S

if TYPE_CHECKING:
    from tests.worlds.deployment import Deployment

#: A member that died is missed after this time; the test broker allows it.
SESSION_TIMEOUT_MS: Final = 1_500
_REQUEST_TIMEOUT_S: Final = 20.0
#: How long a partition that is not read to its end must be silent, until it is believed to be paused.
_PAUSED_S: Final = 3.0


class _Dead:
    """Hears nothing of the partitions that come and go while a consumer is closed, and asks for nothing."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is committed."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is given up."""


class MortalKafkaTransport(KafkaTransport):
    """The transport of a party in the test's process. Its death is noticed at once, without waiting for its session."""

    def abandon(self) -> None:
        for client in list(self._clients):
            if isinstance(client, KafkaConsumer):
                client._listener = _Dead()
            else:
                client._client.purge()
            with suppress(TransportError):
                client.close()
        self._admin.close()

    def members(self) -> Iterator[KafkaConsumer]:
        """Its consumers that are members of a group."""
        for client in self._clients:
            if isinstance(client, KafkaConsumer) and client._is_member:
                yield client


class KafkaCluster:
    """The brokers at the address of the settings."""

    poll_s = 0.005

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._topology = Topology(config)
        bootstrap = config.kafka.bootstrap
        assert bootstrap is not None
        self._own = KafkaTransport(config)
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(dict(self._settings))
        #: Of a group each, which asks for what the group has committed and joins nothing.
        self._members: dict[str, Consumer] = {}
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2_random", "log_level": 0,
        })  # fmt: skip
        self._reader = Consumer({
            "bootstrap.servers": bootstrap, "group.id": f"{config.prefix}onlooker", "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "log_level": 0,
            # A fetch that waits for one topic's next record holds up the first record of the topic that is read next.
            "fetch.wait.max.ms": 5,
        })  # fmt: skip
        self._moved_s = time.monotonic()
        self._positions: dict[TopicPartition, int] = {}

    # --- a process's life ------------------------------------------------------------------------------------------

    def transport(self, faults: Faults) -> MortalKafkaTransport:
        return MortalKafkaTransport(self._config)

    def crash(self) -> None:
        """Return the brokers live on."""

    def reopen(self) -> None:
        """Return the brokers are there."""

    def close(self) -> None:
        for client in (self._reader, *self._members.values()):
            client.close()
        self._own.close()
        # Ended here: the collector might find them on one of their own threads.
        del self._producer, self.admin

    def has_delivered_all(self, deployment: Deployment) -> bool:
        """Whether all partitions are owned and read to their ends, or nothing has been read of them for long."""
        if any(worker.agent.has_work for worker in deployment.workers):
            return False
        wanted = self._partitions_wanted(deployment)
        found: dict[TopicPartition, int] = {}
        behind = False
        for party in deployment.parties():
            assert isinstance(party.transport, MortalKafkaTransport)
            for member in party.transport.members():
                for partition in member.assignment():
                    found[partition] = member.position(partition)
                    behind = behind or found[partition] < member.watermarks(partition).high
        if found != self._positions:
            self._positions, self._moved_s = found, time.monotonic()
        if not wanted <= found.keys():
            return False
        return not behind or time.monotonic() - self._moved_s > _PAUSED_S

    def _partitions_wanted(self, deployment: Deployment) -> set[TopicPartition]:
        """Return what the parties should have among them."""
        topics = {self._topology.facet(facet) for worker in deployment.workers for facet in worker.facets}
        if deployment.evaluators:
            topics |= {self._topology.control(), self._topology.commands(), self._topology.external()}
        existing = deployment.transport.admin().topics(topics)
        return {TopicPartition(name, n) for name, found in existing.items() for n in range(found.partitions)}

    # --- what strangers do -----------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic as a plain consumer sees it, partition by partition."""
        listed = self._reader.list_topics(topic, _REQUEST_TIMEOUT_S).topics[topic]
        bounds = {
            n: self._reader.get_watermark_offsets(KafkaPartition(topic, n), _REQUEST_TIMEOUT_S)
            for n in listed.partitions
        }
        left = {number: high for number, (low, high) in bounds.items() if low < high}
        self._reader.assign([KafkaPartition(topic, number, bounds[number][0]) for number in left])
        found: list[Record] = []
        while left:
            message = self._reader.poll(_REQUEST_TIMEOUT_S)
            assert message is not None, f"{topic}: nothing came of {left}"
            assert message.error() is None, message.error()
            record = _record(message)
            if record.offset < left.get(record.partition, 0):
                found.append(record)
            if record.offset + 1 >= left.get(record.partition, 0):
                left.pop(record.partition, None)
        self._reader.unassign()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, CommittedOffset]:
        """Ask as a member of the group would.

        An admin client that is told that the group's coordinator has moved ends the process: librdkafka 2.16 follows a
        null pointer in its answer to list_consumer_group_offsets.
        """
        listed = self.admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics
        asked = [KafkaPartition(name, n) for name in topics if name in listed for n in listed[name].partitions]
        if not asked:
            return {}
        member = self._members.get(group)
        if member is None:
            member = self._members[group] = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        return {
            TopicPartition(tp.topic, tp.partition): CommittedOffset(offset=tp.offset)
            for tp in member.committed(asked, _REQUEST_TIMEOUT_S)
            if tp.offset >= 0
        }

    def queue(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, partition: int | None
    ) -> None:
        number = -1 if partition is None else partition
        self._producer.produce(topic, value, key=key, headers=list(headers), partition=number)

    def flush(self) -> None:
        assert self._producer.flush(_REQUEST_TIMEOUT_S) == 0

    # --- what administrators do ------------------------------------------------------------------------------------

    def recreate(self, topic: str) -> None:
        partitions = len(self.admin.list_topics(topic, _REQUEST_TIMEOUT_S).topics[topic].partitions)
        settings = dict(self._own.admin().topics([topic])[topic].settings)
        self.admin.delete_topics([topic])[topic].result(_REQUEST_TIMEOUT_S)
        eventually(lambda: topic not in self.admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics, DEADLINE_S)
        made = NewTopic(topic, partitions, 1, config=settings)
        eventually(lambda: self.admin.create_topics([made])[topic].result(_REQUEST_TIMEOUT_S) is None, DEADLINE_S)

    def set_of_topic(self, topic: str, name: str, value: str) -> None:
        """Change a setting of a topic."""
        self._set(ResourceType.TOPIC, topic, {name: value})

    def shorten_sessions(self, groups: Sequence[str]) -> None:
        """With the consumer protocol the broker decides how soon a dead member is missed."""
        for group in groups:
            settings = {
                "consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS), "consumer.heartbeat.interval.ms": "300",
            }  # fmt: skip
            self._set(ResourceType.GROUP, group, settings)

    def _set(self, kind: ResourceType, name: str, settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(_REQUEST_TIMEOUT_S)

    def members(self, group: str) -> int:
        """How many members of a group have partitions; -1 while there is one without."""
        asked = self.admin.describe_consumer_groups([group], request_timeout=NEVER_S)
        found = asked[group].result(_REQUEST_TIMEOUT_S)
        having = [bool(member.assignment and member.assignment.topic_partitions) for member in found.members]
        return len(having) if all(having) else -1


def _record(message: ConsumedMessage) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),  # type: ignore[arg-type]  # a consumed record's are a list of pairs
        timestamp_ms=message.timestamp()[1],
    )
