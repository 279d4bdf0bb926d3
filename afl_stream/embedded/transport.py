"""The embedded transport: the port over a broker in this process, for development, tests and one-process services."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Condition
from weakref import WeakSet

from afl.core.probes import Probe
from afl.core.process.crashes import Crash
from afl_stream.embedded.broker import EmbeddedBroker, TopicRefused, UnknownPartition
from afl_stream.embedded.consumer import EmbeddedConsumer
from afl_stream.embedded.faults import FAULT_POINTS, Faults, Swallowed
from afl_stream.embedded.file import FileInUse, FileUnusable
from afl_stream.embedded.group import AssignorMismatch
from afl_stream.embedded.log import Topic
from afl_stream.embedded.position import NotAssigned
from afl_stream.embedded.queue import Queued
from afl_stream.group_members import GroupView
from afl_stream.partitioner import partition_for
from afl_stream.transport import (
    Assignor,
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    QueueFull,
    RecordTooLarge,
    Start,
    TopicDescription,
    TopicPartition,
    TransportError,
    UnreadableHeaders,
)

__all__ = [
    "AssignorMismatch",
    "Crash",
    "EmbeddedAdmin",
    "EmbeddedBroker",
    "EmbeddedConsumer",
    "EmbeddedProducer",
    "EmbeddedTransport",
    "FAULT_POINTS",
    "Faults",
    "FileInUse",
    "FileUnusable",
    "NotAssigned",
    "Swallowed",
    "TopicRefused",
    "UnknownPartition",
]

#: Records of one producer whose delivery was not reported yet.
QUEUE_LIMIT = 100_000
#: How long records gather before a `poll` that does not wait has them written. A write costs about that.
LINGER_S = 0.002
#: How long closing a producer waits for its records.
CLOSE_TIMEOUT_S = 30.0


class EmbeddedProducer:
    """A producer for the broker of this process; see the Producer port."""

    def __init__(self, broker: EmbeddedBroker, probe: Probe, queue_limit: int) -> None:
        self._broker = broker
        self._probe = probe
        self._queue_limit = queue_limit
        self._changed = Condition(broker.lock)
        #: How many threads wait for a result; telling nobody costs as much as all the rest.
        self._waiting = 0
        self._finished: deque[tuple[DeliveryCallback, Exception | None, TopicPartition, int]] = deque()
        self._unwritten = 0
        self._oldest_s = 0.0
        self._turns: dict[str, int] = {}
        self._closed = False
        broker.wake_at_close(self._changed.notify_all)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue a record; see the port.

        Raises UnknownTopic, UnknownPartition, RecordTooLarge, QueueFull, BrokerUnavailable.
        """
        self._probe("produce.before_append")
        broker = self._broker
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in headers)
        with broker.lock:
            broker.check_open()
            if self._closed:
                raise TransportError("this producer is closed")
            found = broker.topic(topic)
            if size > found.max_message_bytes:
                raise RecordTooLarge(topic, size, found.max_message_bytes)
            if self._unwritten + len(self._finished) >= self._queue_limit:
                raise QueueFull(f"{self._queue_limit:,} records wait for their delivery to be reported; call poll")
            number = self._choose(found, key, partition)
            headers = headers if isinstance(headers, UnreadableHeaders) else tuple(headers)
            if broker.queue.is_in_memory:
                offset = found.logs[number].append_new(key, value, headers, broker.now_ms())
                if on_delivery is not None:
                    self._finish(on_delivery, None, found.logs[number].topic_partition, offset)
                return
            queued = Queued(
                topic=found,
                partition=number,
                key=key,
                value=value,
                headers=headers,
                timestamp_ms=broker.now_ms(),
                delivery=self,
                on_delivery=on_delivery,
            )
            if self._unwritten == 0:
                self._oldest_s = time.monotonic()
            self._unwritten += 1
            many = broker.queue.enqueue(queued)
            if self._waiting:
                self._changed.notify_all()
        if many:
            broker.queue.write()

    def _choose(self, topic: Topic, key: bytes | None, partition: int | None) -> int:
        partitions = len(topic.logs)
        name = topic.description.name
        if partition is not None:
            if not 0 <= partition < partitions:
                raise UnknownPartition(TopicPartition(name, partition), partitions)
            return partition
        if key is not None:
            return partition_for(key, partitions)
        turn = self._turns.get(name, 0)
        self._turns[name] = turn + 1
        return turn % partitions

    def settled(self, queued: Queued, error: Exception | None, offset: int) -> None:
        """Take the result of a delivery. The broker calls this under its lock."""
        self._unwritten -= 1
        if queued.on_delivery is not None:
            self._finish(queued.on_delivery, error, queued.topic.logs[queued.partition].topic_partition, offset)

    def _finish(
        self, on_delivery: DeliveryCallback, error: Exception | None, partition: TopicPartition, offset: int
    ) -> None:
        """Note a result for the thread that polls. Under the broker's lock."""
        self._finished.append((on_delivery, error, partition, offset))
        if self._waiting:
            self._changed.notify_all()

    def poll(self, timeout_s: float = 0.0) -> int:
        deadline_s = time.monotonic() + timeout_s
        while True:
            ran = self._run_callbacks()
            if ran:
                return ran
            now_s = time.monotonic()
            waits = now_s < deadline_s
            if self._unwritten and (waits or now_s - self._oldest_s >= LINGER_S):
                if not self._write(deadline_s - now_s if waits else -1):
                    return 0
                continue
            with self._broker.lock:
                if not self._finished and not self._unwritten:
                    if not waits or self._broker.closed:
                        return 0
                    self._waiting += 1
                    self._changed.wait(deadline_s - now_s)
                    self._waiting -= 1
            if not waits:
                return self._run_callbacks()

    def flush(self, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._run_callbacks()
            remaining_s = deadline_s - time.monotonic()
            with self._broker.lock:
                queued = self._unwritten + len(self._finished)
            if queued == 0 or (self._unwritten and not self._write(max(0.0, remaining_s))):
                return queued
            if remaining_s <= 0:
                self._run_callbacks()
                return self._unwritten + len(self._finished)

    def _write(self, timeout_s: float) -> bool:
        """Let the broker write, and return whether it did; a closed broker leaves the records queued."""
        try:
            return self._broker.queue.write(timeout_s)
        except BrokerUnavailable:
            return False

    def _run_callbacks(self) -> int:
        """Run the callbacks that are due, on this thread, without the lock: callbacks may produce."""
        ran = 0
        for _ in range(len(self._finished)):
            try:
                callback, error, partition, offset = self._finished.popleft()
            except IndexError:
                break  # another thread took the last one
            self._probe("produce.after_append_before_ack")
            callback(error, partition, offset)
            ran += 1
        return ran

    def close(self) -> None:
        if self._closed:
            return
        self.flush(CLOSE_TIMEOUT_S)
        self._closed = True
        self._broker.wake_at_close(self._changed.notify_all, wanted=False)

    def abandon(self) -> None:
        """Stop as a dying process does: records that are not written are lost, and no callback runs."""
        self._closed = True
        self._broker.wake_at_close(self._changed.notify_all, wanted=False)
        self._broker.queue.unqueue(self)
        self._unwritten = 0
        self._finished.clear()


class EmbeddedAdmin:
    """Topics of the broker of this process; see the Admin port."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def cluster_id(self) -> str:
        self._broker.check_open()
        return self._broker.cluster_id

    def broker_count(self) -> int | None:
        """Return None: there is one log, without copies."""
        self._broker.check_open()
        return None

    def topic_names(self) -> frozenset[str]:
        return frozenset(self._broker.topics())

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        found = self._broker.topics()
        return found if names is None else {name: found[name] for name in names if name in found}

    def create_topic(
        self, name: str, *, partitions: int, replication: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic.

        `replication` is stored and has no effect: there is one log. Raises TopicExists, TopicRefused.
        """
        self._broker.create_topic(name, partitions, replication, settings or {})

    def delete_topic(self, name: str) -> None:
        self._broker.delete_topic(name)

    def groups(self, names: Iterable[str] | None = None) -> dict[str, GroupView]:
        """Return these groups, or all that there are: their members are of this process."""
        return self._broker.groups(names)


class EmbeddedTransport:
    """One party's view of a broker; see the Transport port. Given a path, or nothing, it has a broker of its own.

    Services of one process that exchange records share an EmbeddedBroker, with a transport each.
    """

    def __init__(
        self,
        log: EmbeddedBroker | Path | None = None,
        *,
        probe: Probe | None = None,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        """Open a broker, or use the given one. Raises FileInUse, FileUnusable for a path."""
        self._owns_broker = not isinstance(log, EmbeddedBroker)
        if isinstance(log, EmbeddedBroker):
            self.broker = log
        elif probe is None:
            self.broker = EmbeddedBroker(log)
        else:
            self.broker = EmbeddedBroker(log, probe=probe)
        self._probe = self.broker.probe if probe is None else probe
        self._queue_limit = queue_limit
        self._producers: WeakSet[EmbeddedProducer] = WeakSet()
        self._consumers: WeakSet[EmbeddedConsumer] = WeakSet()

    def producer(self) -> EmbeddedProducer:
        producer = EmbeddedProducer(self.broker, self._probe, self._queue_limit)
        self._producers.add(producer)
        return producer

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> EmbeddedConsumer:
        consumer = EmbeddedConsumer(
            self.broker, group, client_id=client_id, assignor=assignor, start=start, probe=self._probe
        )
        self._consumers.add(consumer)
        return consumer

    def admin(self) -> EmbeddedAdmin:
        return EmbeddedAdmin(self.broker)

    def close(self) -> None:
        """Close the consumers and producers that are still open, and the broker if this transport opened it.

        A consumer's callbacks then run on this thread, so close a consumer first, on the thread that polls it.
        """
        for consumer in list(self._consumers):
            consumer.close()
        for producer in list(self._producers):
            producer.close()
        if self._owns_broker:
            self.broker.close()

    def abandon(self) -> None:
        """End this party as a killed process does: nothing is written, no group is left, and its members expire."""
        for producer in list(self._producers):
            producer.abandon()
        for consumer in list(self._consumers):
            consumer.abandon()
            if not self.broker.closed:
                self.broker.expire(consumer)
        if self._owns_broker:
            self.broker.abandon()
