"""Where an embedded consumer stands in one partition, and what it fetched ahead."""

from collections.abc import Sequence

from afl_stream.embedded_log import PartitionLog
from afl_stream.transport import Record, TopicPartition, TransportError

#: Records fetched from the file at once for a reader that is far behind.
FETCH_RECORDS = 500


class NotAssigned(TransportError):
    """The partition is not this consumer's at the moment."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        self.partition = partition


class Position:
    """Where a consumer stands in one partition. `offset` is unset while the owner is asked where to start."""

    __slots__ = ("_fetched", "_next", "log", "offset", "paused")

    def __init__(self, log: PartitionLog, offset: int | None = None) -> None:
        self.log = log
        self.offset = offset
        self.paused = False
        self._fetched: Sequence[Record] = ()
        self._next = 0

    def move(self, offset: int, log: PartitionLog) -> None:
        self.log, self.offset = log, offset
        self._fetched, self._next = (), 0

    def is_lost(self) -> bool:
        return self.offset is None or self.log.deleted or not self.log.low <= self.offset <= self.log.high

    def take(self, limit: int) -> Sequence[Record]:
        """Up to `limit` records, which then count as read."""
        offset = self.offset or 0
        if self._next < len(self._fetched):
            records = self._fetched[self._next : self._next + limit]
            self._next += limit
        elif self.log.is_in_memory(offset):
            records = self.log.read(offset, limit)
        else:
            self._fetched, self._next = self.log.read(offset, max(limit, FETCH_RECORDS)), limit
            records = self._fetched[:limit]
        if records:
            self.offset = records[-1].offset + 1
            if self.log.markers:
                # Those alone are no reason to stop.
                return [r for r in records if r.offset not in self.log.markers] or self.take(limit)
        return records
