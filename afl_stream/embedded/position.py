"""The position of an embedded consumer in one partition, and the records that it fetched ahead."""

from collections.abc import Callable, Mapping, Sequence

from afl_stream.embedded.log import PartitionLog
from afl_stream.transport import BrokerView, OffsetOutOfRange, Record, TopicPartition, TransportError

#: Records fetched from the file at once for a reader that is far behind.
FETCH_RECORDS = 500


class NotAssigned(TransportError):
    """The partition is not assigned to this consumer at the moment."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        self.partition = partition


class Position:
    """The position of a consumer in one partition. `offset` is unset while the owner is asked where to start."""

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
        """Return up to `limit` records, which then count as read."""
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
                # A gap alone is not a reason to stop.
                return [r for r in records if r.offset not in self.log.markers] or self.take(limit)
        return records


def view_of(positions: Mapping[TopicPartition, Position]) -> BrokerView:
    """Return what the broker says about these partitions besides their records."""
    held = {partition: position for partition, position in positions.items() if not position.log.deleted}
    waiting = {
        partition: position.log.high - max(position.offset, position.log.low)
        for partition, position in held.items()
        if not position.paused and position.offset is not None
    }
    most = max(waiting, key=lambda partition: waiting[partition], default=None)
    return BrokerView(
        bounds={partition: position.log.bounds for partition, position in held.items()},
        is_reported=True,
        unfetched=sum(waiting.values()),
        most_unfetched="" if most is None else f"{waiting[most]} of them in {most.topic}[{most.partition}]",
    )


def take_in_turn(
    ready: dict[TopicPartition, None],
    positions: Mapping[TopicPartition, Position],
    limit: int,
    follow_topic: Callable[[TopicPartition], None],
    log_of: Callable[[TopicPartition], PartitionLog],
) -> list[Record]:
    """Take records of what is ready: first each partition's share of `limit`, then what more there is.

    The shares let no partition wait for a longer one. `follow_topic` is called for a topic that is gone. Raises
    OffsetOutOfRange.
    """
    taken: list[Record] = []
    for share in (-(-limit // max(1, len(ready))), limit):
        for _ in range(len(ready)):
            partition = next(iter(ready))
            position = positions.get(partition)
            if position is None or position.paused:
                del ready[partition]
                continue
            if position.log.deleted:
                follow_topic(partition)
            if position.is_lost() and taken:
                return taken
            # The next one in turn comes first the next time, also when this one raises.
            del ready[partition]
            ready[partition] = None
            if position.is_lost():
                raise OffsetOutOfRange(partition, position.offset or 0, log_of(partition).bounds)
            records = position.take(min(share, limit - len(taken)))
            if not records:
                del ready[partition]
                continue
            taken.extend(records)
            if len(taken) >= limit:
                return taken
    return taken
