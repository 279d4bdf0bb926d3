"""Commands that were on their topic when its partitions were assigned: they are read before any workflow continues.

A workflow that was runnable when its last owner died may have been cancelled since. Its cancellation is on the commands
topic, and must take effect before the workflow continues; otherwise it might come too late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.transport import TopicPartition

_log = logging.getLogger(__name__)

#: How long runnable workflows wait for that, at most. A backlog of many starts takes longer than that.
LONGEST_WAIT_S: Final = 5.0


class CommandBacklog:
    """The commands to read first. Belongs to the loop's thread."""

    def __init__(self, topic: str, monotonic_s: MonotonicClock = monotonic_s) -> None:
        self._topic = topic
        self._monotonic_s = monotonic_s
        self._ends: dict[TopicPartition, int] = {}
        self._until_s = 0.0

    def add(self, ends: Mapping[TopicPartition, int]) -> None:
        """Add assigned partitions, by the ends of their logs; those of other topics are left out."""
        added = {partition: end for partition, end in ends.items() if partition.topic == self._topic}
        if added:
            self._ends.update(added)
            self._until_s = self._monotonic_s() + LONGEST_WAIT_S

    def is_read(self, read_up_to: Callable[[TopicPartition], int | None], paused: Collection[TopicPartition]) -> bool:
        """Return whether the backlog is read, or is not waited for any longer.

        `read_up_to` is None for a partition that was revoked.
        """
        if not self._ends:
            return True
        left = {
            partition: end
            for partition, end in self._ends.items()
            if partition not in paused and (at := read_up_to(partition)) is not None and at < end
        }
        if left and self._monotonic_s() >= self._until_s:
            _log.warning(
                "runnable workflows continue, although earlier commands are still to be read from %s",
                ", ".join(f"{topic}[{number}]" for topic, number in sorted(left)),
            )
            left = {}
        self._ends = left
        return not left
