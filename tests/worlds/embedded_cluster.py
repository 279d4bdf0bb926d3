"""The embedded broker, as the log of a deployment in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition

if TYPE_CHECKING:
    from tests.worlds.deployment import Deployment


class EmbeddedCluster:
    """A broker of the deployment's own, in memory or in a file. Every fault can be had at any of its points."""

    poll_s = 0.0

    def __init__(self, path: Path | None, now_ms: Callable[[], int]) -> None:
        self._path, self._now_ms = path, now_ms
        self.reopen()

    def reopen(self) -> None:
        self.faults = Faults()
        self.broker = EmbeddedBroker(self._path, probe=self.faults.probe, now_ms=self._now_ms)
        self._own = EmbeddedTransport(self.broker)
        self._producer = self._own.producer()

    def crash(self) -> None:
        self._own.abandon()
        self.broker.abandon()

    def close(self) -> None:
        """Nothing is left: the log is closed by the crash."""

    def transport(self, faults: Faults) -> EmbeddedTransport:
        return EmbeddedTransport(self.broker, probe=faults.probe)

    def has_delivered_all(self, deployment: Deployment) -> bool:
        """Yes: a turn takes what there is."""
        return True

    def records(self, topic: str) -> list[Record]:
        self.broker.queue.write()
        reader = self._own.consumer(None)
        partitions = [TopicPartition(topic, n) for n in range(self.broker.topics()[topic].partitions)]
        reader.assign({partition: reader.watermarks(partition).low for partition in partitions})
        found: list[Record] = []
        while batch := reader.consume(1_000, 0):
            found.extend(batch)
        reader.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, CommittedOffset]:
        described = self.broker.topics()
        reader = EmbeddedTransport(self.broker).consumer(group)
        found = reader.committed([TopicPartition(t, n) for t in topics for n in range(described[t].partitions)])
        reader.close()
        return found

    def queue(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, partition: int | None
    ) -> None:
        self._producer.produce(topic, value, key=key, headers=headers, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(10) == 0

    def recreate(self, topic: str) -> None:
        admin = self._own.admin()
        found = admin.topics([topic])[topic]
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=found.partitions, settings=found.settings)
