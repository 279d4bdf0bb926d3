"""Offsets that an audit expected and has no records of: which, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from afl.core.clock import MonotonicClock
from afl_stream.audit.sinks import LastWritten
from afl_stream.transport import CommittedOffset, Record, TopicDescription, TopicPartition, Watermarks

#: How long a topic's policy counts as known.
_POLICY_S: Final = 60.0

#: Reasons of gaps in which no record was lost. They are in audit files: never change one.
#: The topic is compacted: of the records of a key the last one stays.
COMPACTION: Final = "compaction"
#: Markers that end transactions, and the records of those that were aborted, have offsets and are not delivered.
TRANSACTIONS: Final = "transactions"
#: The group's offset was ahead of the sink: another member wrote the records, or a person moved the offset.
GROUP: Final = "group"


class Gap(NamedTuple):
    """Offsets from `expected` to before `found`. `reason` None: retention or a person deleted records unread."""

    partition: TopicPartition
    expected: int
    found: int
    reason: str | None


class Topics(Protocol):
    """What is asked of the cluster: how topics are set."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]: ...


class Offsets(Protocol):
    """What is asked of the consumer: where the group and the log stand."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]: ...
    def watermarks(self, partition: TopicPartition) -> Watermarks: ...


class OffsetGaps:
    """Compares each record's offset with the one before it. Belongs to the thread that reads."""

    def __init__(self, admin: Topics, clock_s: MonotonicClock, *, is_filtered: bool) -> None:
        """`is_filtered`: the sink may end before what was read, because the rest was not wanted."""
        self._admin = admin
        self._clock_s = clock_s
        self._is_filtered = is_filtered
        #: The offset behind the last record of each partition that was read without a break.
        self._next: dict[TopicPartition, int] = {}
        self._policies: dict[str, tuple[str, float]] = {}

    def note(self, partition: TopicPartition, next_offset: int) -> None:
        """Note that a partition was read up to there."""
        self._next[partition] = next_offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions: who knows who reads them meanwhile."""
        for partition in partitions:
            self._next.pop(partition, None)

    def before(self, record: Record, consumer: Offsets, written: Mapping[TopicPartition, LastWritten]) -> Gap | None:
        """Return the gap before a record, if there is one. Raises what the transport raises."""
        partition = record.topic_partition
        expected = self._next.get(partition)
        if expected is not None:
            return self._gap(partition, expected, record.offset, TRANSACTIONS)
        last = written.get(partition)
        if last is None or record.offset <= last.offset + 1:
            return None
        return self._first_gap(record, consumer, last.offset + 1)

    def _first_gap(self, record: Record, consumer: Offsets, expected: int) -> Gap | None:
        """Return the gap before the first record since the partition was assigned, where the sink ends before it."""
        partition = record.topic_partition
        committed = consumer.committed([partition]).get(partition)
        ahead = committed is not None and committed.offset > expected
        if ahead and committed is not None and self._is_filtered:
            expected, ahead = committed.offset, False
        if record.offset > expected and consumer.watermarks(partition).low > expected:
            return Gap(partition, expected, record.offset, None)
        return self._gap(partition, expected, record.offset, GROUP if ahead else TRANSACTIONS)

    def _gap(self, partition: TopicPartition, expected: int, found: int, reason: str) -> Gap | None:
        if found <= expected:
            return None
        return Gap(partition, expected, found, COMPACTION if "compact" in self._policy(partition.topic) else reason)

    def _policy(self, topic: str) -> str:
        now_s = self._clock_s()
        policy, known_until_s = self._policies.get(topic, ("", now_s))
        if now_s >= known_until_s:
            found = self._admin.topics([topic]).get(topic)
            policy = "" if found is None else found.settings.get("cleanup.policy", "delete")
            self._policies[topic] = (policy, now_s + _POLICY_S)
        return policy
