"""Records that lay on the topics when their partitions were assigned: they are read before workflows continue.

A workflow that was runnable when its last owner died may have been cancelled since. Its cancellation is on the commands
topic, and must take effect before the workflow continues; otherwise it might come too late. A step whose time ended
while no evaluator ran may have been answered in time: its answer, or its event, is on its topic, and wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.transport import TopicPartition

_log = logging.getLogger(__name__)

#: How long runnable workflows wait for commands, at most. A backlog of many starts takes longer than that.
LONGEST_WAIT_S: Final = 5.0
#: How long timers wait for a partition from which nothing is read.
LONGEST_STALL_S: Final = 60.0

#: Returns the offset behind what was read of a partition; None: it was revoked.
ReadUpTo = Callable[[TopicPartition], int | None]


class AssignedBacklog:
    """The records to read first, of partitions that are not paused. Belongs to the loop's thread."""

    def __init__(self, commands: str, monotonic_s: MonotonicClock = monotonic_s) -> None:
        """Take the name of the commands topic."""
        self._commands = commands
        self._monotonic_s = monotonic_s
        self._ends: dict[TopicPartition, int] = {}
        #: How far each of them was read when that was last asked, and since when it is so.
        self._read: dict[TopicPartition, int] = {}
        self._moved_s = 0.0
        #: Until when commands are waited for.
        self._until_s = 0.0
        self._is_given_up = False

    def add(self, ends: Mapping[TopicPartition, int]) -> None:
        """Add assigned partitions, by the ends of their logs."""
        if ends:
            self._ends.update(ends)
            self._moved_s = self._monotonic_s()
            self._until_s = self._moved_s + LONGEST_WAIT_S
            self._is_given_up = False

    def has_read_commands(self, read_up_to: ReadUpTo, paused: Collection[TopicPartition]) -> bool:
        """Return whether the commands of the backlog are read, or are not waited for any longer."""
        if not self._ends or self._is_given_up:
            return True
        left = [partition for partition in self._left(read_up_to, paused) if partition.topic == self._commands]
        if left and self._monotonic_s() >= self._until_s:
            self._is_given_up = True
            _log.warning(
                "runnable workflows continue, although earlier commands are still to be read from %s", _listed(left)
            )
            return True
        return not left

    def unread(self, read_up_to: ReadUpTo, paused: Collection[TopicPartition]) -> frozenset[int]:
        """Return the numbers of the partitions of which some topic has records of the backlog left."""
        if not self._ends:
            return frozenset()
        left = self._left(read_up_to, paused)
        if left != self._read:
            self._read, self._moved_s = left, self._monotonic_s()
        elif left and self._monotonic_s() - self._moved_s >= LONGEST_STALL_S:
            _log.warning("timers fire, although earlier records are still to be read from %s", _listed(left))
            self._ends.clear()
            left = {}
        return frozenset(partition.partition for partition in left)

    def _left(self, read_up_to: ReadUpTo, paused: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how far each partition is read that has records left, and forget the others."""
        left = {
            partition: at
            for partition, end in self._ends.items()
            if partition not in paused and (at := read_up_to(partition)) is not None and at < end
        }
        self._ends = {partition: self._ends[partition] for partition in left}
        return left


def _listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))
