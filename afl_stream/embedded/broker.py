"""The embedded broker: topics, records and groups of one process, in memory or on top of a file."""

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Protocol

from afl.core.clock import WallClock, epoch_ms
from afl.core.probes import Probe, no_probe
from afl_stream.embedded.file import LogFile
from afl_stream.embedded.group import Group, Member
from afl_stream.embedded.log import PartitionLog, Topic
from afl_stream.embedded.queue import WriteQueue
from afl_stream.group_members import GroupMember, GroupView
from afl_stream.transport import (
    Assignor,
    BrokerUnavailable,
    CommittedOffset,
    TopicDescription,
    TopicExists,
    TopicPartition,
    TransportError,
    UnknownTopic,
)

#: The limit of a topic without `max.message.bytes`, as in Kafka: key, value and headers of one record.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class UnknownPartition(TransportError):
    """The topic exists, the partition does not."""

    def __init__(self, partition: TopicPartition, partitions: int) -> None:
        super().__init__(f"{partition.topic} has partitions 0 to {partitions - 1}, and no {partition.partition}")
        self.partition, self.partitions = partition, partitions


class TopicRefused(TransportError):
    """The topic cannot be created as asked."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"topic {name!r} cannot be created: {reason}")
        self.name, self.reason = name, reason


class GroupConsumer(Protocol):
    """A consumer, as commands to the broker name it."""

    @property
    def group(self) -> str | None: ...

    @property
    def member(self) -> Member | None: ...


class EmbeddedBroker:
    """The log of one process. With a `path` it is durable, and no other process may have the file meanwhile.

    In memory a record is in the log when `produce` returns. With a file, records and committed offsets gather, and the
    first caller that needs them written writes all of them at once: a producer that flushes or has gathered many, a
    consumer that has nothing else to read, a commit that waits. There is no background thread. See WriteQueue.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        probe: Probe = no_probe,
        now_ms: WallClock = epoch_ms,
    ) -> None:
        """Open the log; a file that does not exist is created. Raises FileInUse, FileUnusable."""
        self.probe = probe
        self.now_ms = now_ms
        #: Guards all below. Never wait for a write (`queue.exclusive`) while holding it.
        self.lock = RLock()
        self._closed = False
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, Group] = {}
        self._sequence = 0
        self._waiting: set[Callable[[], None]] = set()
        #: Goes up whenever a topic comes or goes.
        self.topics_version = 0
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._next_topic_id = 1
        self._file = None if path is None else LogFile(path, self.cluster_id)
        self.queue = WriteQueue(self._file, self.lock, check_open=self.check_open, probe=probe)
        if self._file is not None:
            try:
                self._load(self._file)
            except BaseException:
                self._file.close()
                raise

    def _load(self, file: LogFile) -> None:
        self.cluster_id = file.cluster_id
        for stored in file.topics():
            logs = [
                PartitionLog(TopicPartition(stored.name, number), stored.topic_id, file, bounds)
                for number, bounds in enumerate(stored.bounds)
            ]
            self._add_topic(stored.name, stored.topic_id, logs, stored.replication, stored.settings)
        for group, partition, offset in file.committed():
            self.group(group).committed[partition] = offset
        self.enforce_retention()

    # Topics

    def _add_topic(
        self, name: str, topic_id: int, logs: list[PartitionLog], replication: int, settings: Mapping[str, str]
    ) -> None:
        self.topics_version += 1
        self._topics[name] = Topic(
            description=TopicDescription(
                name=name,
                partitions=len(logs),
                replication=replication,
                settings=dict(settings),
                # The file numbers its topics, and never gives a number again.
                topic_id=str(topic_id),
            ),
            topic_id=topic_id,
            logs=logs,
            max_message_bytes=int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES)),
        )

    def topics(self) -> dict[str, TopicDescription]:
        with self.lock:
            self.check_open()
            return {name: topic.description for name, topic in self._topics.items()}

    def topic(self, name: str) -> Topic:
        """Return the topic. Raises UnknownTopic. Call it under the lock."""
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopic(name)
        return topic

    def has_topic(self, name: str) -> bool:
        return name in self._topics

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Return the log of the partition. Raises UnknownTopic, UnknownPartition. Call it under the lock."""
        logs = self.topic(partition.topic).logs
        if not 0 <= partition.partition < len(logs):
            raise UnknownPartition(partition, len(logs))
        return logs[partition.partition]

    def create_topic(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> None:
        """Create a topic. Raises TopicExists, TopicRefused."""
        if not _LEGAL_TOPIC.fullmatch(name) or name in (".", ".."):
            raise TopicRefused(name, "a name has 1 to 249 letters, digits, '.', '_' and '-'")
        if partitions < 1:
            raise TopicRefused(name, f"it needs at least one partition, not {partitions}")
        for setting in ("max.message.bytes", "retention.ms"):
            if not re.fullmatch(r"-1|\d+", settings.get(setting, "0")):
                raise TopicRefused(name, f"{setting} is a number, not {settings[setting]!r}")
        with self.queue.exclusive, self.lock:
            self.check_open()
            if name in self._topics:
                raise TopicExists(name)
            topic_id = self._next_topic_id
            if self._file is not None:
                topic_id = self._file.create_topic(name, partitions, replication, settings)
            self._next_topic_id = topic_id + 1
            logs = [PartitionLog(TopicPartition(name, n), topic_id, self._file) for n in range(partitions)]
            self._add_topic(name, topic_id, logs, replication, settings)
            self._rebalance_groups_of(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and the groups' offsets in it. Raises UnknownTopic."""
        with self.queue.exclusive, self.lock:
            self.check_open()
            topic = self.topic(name)
            if self._file is not None:
                self._file.delete_topic(topic.topic_id, name)
            del self._topics[name]
            self.topics_version += 1
            for log in topic.logs:
                log.deleted = True
                log.tell()
            for group in self._groups.values():
                group.forget_topic(name)
            self.queue.forget_topic(name)
            self._rebalance_groups_of(name)

    def append_marker(self, partition: TopicPartition) -> None:
        """Use up an offset without a record, as the end of a transaction does in Kafka. It is kept in memory only.

        Raises UnknownTopic, UnknownPartition.
        """
        with self.lock:
            self.check_open()
            self.log(partition).append_marker()

    def truncate(self, partition: TopicPartition, before_offset: int) -> None:
        """Drop the records before `before_offset`, as retention does. Raises UnknownTopic, UnknownPartition."""
        self.queue.write()
        with self.queue.exclusive, self.lock:
            self.check_open()
            log = self.log(partition)
            self._truncate(log, min(before_offset, log.high))

    def _truncate(self, log: PartitionLog, low: int) -> None:
        if low <= log.low:
            return
        if self._file is not None:
            self._file.truncate(log.topic_id, log.topic_partition.partition, low)
        log.truncate(low)

    def enforce_retention(self) -> None:
        """Drop what is older than its topic's `retention.ms`, and compact topics that say so (a file's only).

        Runs when a file is opened, and on command. A topic without `retention.ms` keeps its records.
        """
        with self.queue.exclusive, self.lock:
            self.check_open()
            for topic in self._topics.values():
                settings = topic.description.settings
                policy = settings.get("cleanup.policy", "delete")
                retention_ms = int(settings.get("retention.ms", "-1"))
                for log in topic.logs:
                    if "delete" in policy and retention_ms >= 0:
                        self._truncate(log, self._first_since(log, self.now_ms() - retention_ms))
                    if "compact" in policy and self._file is not None:
                        self._file.compact(log.topic_id, log.topic_partition.partition)

    def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or after each time, or the one that the next record gets.

        Raises UnknownTopic, UnknownPartition.
        """
        self.queue.write()
        with self.queue.exclusive, self.lock:
            self.check_open()
            logs = {partition: self.log(partition) for partition in times_ms}
            return {
                partition: max(log.low, self._first_since(log, times_ms[partition])) for partition, log in logs.items()
            }

    def _first_since(self, log: PartitionLog, since_ms: int) -> int:
        if self._file is not None:
            first = self._file.first_since(log.topic_id, log.topic_partition.partition, since_ms)
        else:
            first = log.first_since(since_ms)
        return log.high if first is None else first

    # Groups

    def group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
        return group

    def groups(self, names: Iterable[str] | None = None) -> dict[str, GroupView]:
        """Return these groups, or all that there are, with their members of now."""
        with self.lock:
            self.check_open()
            wanted = self._groups.keys() if names is None else set(names)
            return {
                name: GroupView(
                    name=name,
                    members=tuple(
                        GroupMember(client_id=member.client_id, partitions=frozenset(member.held))
                        for member in (self._groups[name].members if name in self._groups else ())
                    ),
                )
                for name in sorted(wanted)
            }

    def next_sequence(self) -> int:
        """Return the number of the next member, in the order in which they join."""
        self._sequence += 1
        return self._sequence

    def rebalance(self, group: str, *, moves: Mapping[TopicPartition, GroupConsumer] | None = None) -> None:
        """Reassign a group's partitions. Eager members first give up everything; sticky ones keep what they have.

        `moves` gives single partitions to members whatever the assignor would do, until the next rebalance.
        """
        with self.lock:
            self.check_open()
            chosen = {partition: consumer.member for partition, consumer in (moves or {}).items()}
            self.group(group).rebalance(
                self._partition_counts(),
                {partition: member for partition, member in chosen.items() if member is not None},
            )

    def join(self, group: str, member: Member, assignor: Assignor) -> None:
        """Let a member join a group. Raises AssignorMismatch. Under the lock."""
        self.group(group).join(member, assignor)
        self.rebalance(group)

    def leave(self, group: str, member: Member) -> None:
        """Let a member leave a group. Under the lock."""
        self.group(group).leave(member)
        self.rebalance(group)

    def expire(self, consumer: GroupConsumer) -> None:
        """Remove a silent member from its group, as a missed session does: others get its partitions, it is fenced.

        It learns of that at its next poll (on_lost), and then joins again.
        """
        with self.lock:
            self.check_open()
            group, member = consumer.group, consumer.member
            if group is None or member is None or member.fenced:
                return
            member.fenced = True
            self.leave(group, member)
            member.wake()

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Take a group's offsets; they are durable after the next write. Under the lock."""
        self.group(group).committed.update(offsets)
        self.queue.enqueue_offsets(group, offsets)

    def forget_offsets(self, group: str) -> None:
        """Drop what a group has committed, as brokers do `offsets.retention.minutes` after its last member left."""
        self.queue.write()
        with self.queue.exclusive, self.lock:
            self.check_open()
            self.group(group).committed.clear()
            if self._file is not None:
                self._file.forget_offsets(group)

    def _partition_counts(self) -> dict[str, int]:
        return {name: topic.description.partitions for name, topic in self._topics.items()}

    def _rebalance_groups_of(self, topic: str) -> None:
        counts = self._partition_counts()
        for group in self._groups.values():
            if any(member.wants(topic) for member in group.members):
                group.rebalance(counts)

    # Life

    def check_open(self) -> None:
        """Raise BrokerUnavailable if the broker is closed."""
        if self._closed:
            raise BrokerUnavailable("the embedded broker is closed")

    @property
    def closed(self) -> bool:
        return self._closed

    def wake_at_close(self, wake: Callable[[], None], *, wanted: bool = True) -> None:
        """Call `wake` under the lock when the broker stops, so that no wait is left; not any more unless `wanted`."""
        with self.lock:
            (self._waiting.add if wanted else self._waiting.discard)(wake)

    def close(self) -> None:
        """Write what has gathered, and close the file."""
        if self._closed:
            return
        try:
            self.queue.write()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Stop as a dying process does: what was not written is lost, the file and its lock are released."""
        with self.queue.exclusive, self.lock:
            self._closed = True
            self.queue.clear()
            if self._file is not None:
                self._file.close()
            for wake in self._waiting:
                wake()
            self._waiting.clear()
