"""The partitions that an evaluator has paused: until an upgrade, or until a schema that is gone is back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock
from afl_stream.errors import NewerFormat, SchemaGone
from afl_stream.transport import Record, TopicPartition

#: The waits before a gone schema is looked for again.
BACKOFF: Final = Backoff(first_s=1.0, longest_s=10.0)


@dataclass(slots=True, eq=False)
class _Pause:
    """One pause.

    `retry_at_s` None: this process never resumes it. `is_tried`: it is read again to see whether it works.
    """

    offset: int
    why: str
    failures: int
    retry_at_s: float | None
    is_tried: bool = False


class PausedPartitions:
    """The offsets from which on nothing is applied, and why. Belongs to the loop's thread, but for `reasons`."""

    def __init__(self, monotonic_s: MonotonicClock) -> None:
        self._monotonic_s = monotonic_s
        self._pauses: dict[TopicPartition, _Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """All paused partitions, also those that are being tried."""
        return self._pauses.keys()

    def add(self, record: Record, error: NewerFormat | SchemaGone) -> None:
        """Note that the record cannot be applied, and no record behind it."""
        before = self._pauses.get(record.topic_partition)
        failures = before.failures + 1 if before is not None and before.offset == record.offset else 1
        retry_at_s = self._monotonic_s() + BACKOFF.wait_s(failures) if isinstance(error, SchemaGone) else None
        why = f"offset {record.offset}: {error}"
        self._pauses[record.topic_partition] = _Pause(record.offset, why, failures, retry_at_s)

    def holds(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether the record at this offset must not be applied now."""
        pause = self._pauses.get(partition)
        return pause is not None and not pause.is_tried and offset >= pause.offset

    def passed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record at this offset was applied, which ends a pause that was tried."""
        pause = self._pauses.get(partition)
        if pause is not None and offset >= pause.offset:
            del self._pauses[partition]

    def try_due(self) -> dict[TopicPartition, int]:
        """Return the partitions to read again now, and from where."""
        now_s, due = self._monotonic_s(), {}
        for partition, pause in self._pauses.items():
            if pause.retry_at_s is not None and not pause.is_tried and now_s >= pause.retry_at_s:
                pause.is_tried = True
                due[partition] = pause.offset
        return due

    def is_paused(self, partition: TopicPartition) -> bool:
        """Return whether nothing may be read from the partition."""
        pause = self._pauses.get(partition)
        return pause is not None and not pause.is_tried

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that were revoked, or are read from elsewhere."""
        for partition in partitions:
            self._pauses.pop(partition, None)

    def reasons(self) -> Mapping[TopicPartition, str]:
        """Return which partitions are paused, and why. Any thread may call this."""
        return {partition: pause.why for partition, pause in self._pauses.copy().items()}
