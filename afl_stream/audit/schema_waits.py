"""The partitions of an audit that wait for a schema that is gone from its topic: each by itself, longer each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock
from afl_stream.errors import SchemaGone
from afl_stream.transport import Record, TopicPartition


class _Wait(NamedTuple):
    """Why a partition waits, until when, and how often it has waited in a row."""

    why: str
    retry_at_s: float
    failures: int


class SchemaWaits:
    """Belongs to the thread that reads, but for `reasons`."""

    def __init__(self, backoff: Backoff, clock_s: MonotonicClock) -> None:
        self._backoff = backoff
        self._clock_s = clock_s
        self._waits: dict[TopicPartition, _Wait] = {}

    def add(self, record: Record, error: SchemaGone) -> str:
        """Have the record's partition wait, once more if it has before. Returns why, in words."""
        partition = record.topic_partition
        before = self._waits.get(partition)
        failures = 1 if before is None else before.failures + 1
        why = f"{partition.topic}[{partition.partition}] offset {record.offset}: {error}"
        self._waits[partition] = _Wait(why, self._clock_s() + self._backoff.wait_s(failures), failures)
        return why

    def holds(self, partition: TopicPartition) -> bool:
        """Say whether the partition's time has not come yet."""
        wait = self._waits.get(partition)
        return wait is not None and self._clock_s() < wait.retry_at_s

    def forget(self, partition: TopicPartition) -> None:
        """End the wait: a record was read, or the partition is gone."""
        self._waits.pop(partition, None)

    def reasons(self) -> Sequence[str]:
        """Return why each partition waits. Any thread may ask."""
        return [wait.why for wait in self._waits.copy().values()]
