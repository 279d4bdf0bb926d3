"""The partitions at which an evaluator stands still: until it is upgraded, or until a schema that is gone is back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from afl_stream.errors import NewerFormat, SchemaGone
from afl_stream.transport import Record, TopicPartition

#: The wait before a gone schema is looked for again, and the longest one; each is twice the one before.
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0


@dataclass(slots=True, eq=False)
class _Pause:
    """`retry_at_s` None: this process never goes on there. `is_tried`: it is read again, and says whether it may."""

    offset: int
    why: str
    wait_s: float
    retry_at_s: float | None
    is_tried: bool = False


class PausedPartitions:
    """From which offset on nothing is applied, and why. Belongs to the loop's thread, but for `reasons`."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._pauses: dict[TopicPartition, _Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """All of them, also those that are being tried."""
        return self._pauses.keys()

    def add(self, record: Record, error: NewerFormat | SchemaGone) -> None:
        """Note that the record cannot be applied, and nothing that is behind it."""
        before = self._pauses.get(record.topic_partition)
        wait_s = FIRST_WAIT_S
        if before is not None and before.offset == record.offset:
            wait_s = min(2 * before.wait_s, LONGEST_WAIT_S)
        retry_at_s = self._monotonic_s() + wait_s if isinstance(error, SchemaGone) else None
        why = f"offset {record.offset}: {error}"
        self._pauses[record.topic_partition] = _Pause(record.offset, why, wait_s, retry_at_s)

    def holds(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the record there is not to be applied now."""
        pause = self._pauses.get(partition)
        return pause is not None and not pause.is_tried and offset >= pause.offset

    def passed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record there was applied: one that was tried is over."""
        pause = self._pauses.get(partition)
        if pause is not None and offset >= pause.offset:
            del self._pauses[partition]

    def try_due(self) -> dict[TopicPartition, int]:
        """Those that are to be read again now, and from where."""
        now_s, due = self._monotonic_s(), {}
        for partition, pause in self._pauses.items():
            if pause.retry_at_s is not None and not pause.is_tried and now_s >= pause.retry_at_s:
                pause.is_tried = True
                due[partition] = pause.offset
        return due

    def is_silent(self, partition: TopicPartition) -> bool:
        """Whether nothing is to be read there."""
        pause = self._pauses.get(partition)
        return pause is not None and not pause.is_tried

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They are gone, or read from elsewhere."""
        for partition in partitions:
            self._pauses.pop(partition, None)

    def reasons(self) -> Mapping[TopicPartition, str]:
        """Which partitions stand still, and why. Any thread may ask."""
        return {partition: pause.why for partition, pause in self._pauses.copy().items()}
