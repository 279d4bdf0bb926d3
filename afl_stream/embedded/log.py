"""Topics of the embedded broker: a partition's newest records in memory, and all of them in the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from afl.core.row_maker import row_maker
from afl_stream.embedded.file import LogFile
from afl_stream.transport import Headers, Record, TopicDescription, TopicPartition, Watermarks

#: Records a partition keeps in memory when a file has them too. Readers at the end never touch the file.
TAIL_RECORDS = 10_000


_record = row_maker(Record, "topic", "partition", "offset", "key", "value", "headers", "timestamp_ms")


class Reader(Protocol):
    """A reader that is notified when a partition has more to read."""

    def more(self, partition: TopicPartition) -> None:
        """Note that a partition has more. Called under the broker's lock."""


class PartitionLog:
    """The records of one partition. Not safe for threads: the broker's lock is held around each call."""

    def __init__(
        self, partition: TopicPartition, topic_id: int, file: LogFile | None = None, bounds: tuple[int, int] = (0, 0)
    ) -> None:
        self.topic_partition = partition
        self.topic_id = topic_id
        self.low, self.high = bounds
        self.deleted = False
        self.readers: list[Reader] = []
        self._file = file
        #: Records `_tail_start` .. `high - 1`, without gaps.
        self._tail: list[Record] = []
        self._tail_start = self.high
        #: Offsets without a record, as a transaction leaves them in a log of Kafka.
        self.markers: set[int] = set()

    @property
    def bounds(self) -> Watermarks:
        return Watermarks(low=self.low, high=self.high)

    def append_new(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> int:
        """Add a new record, notify the readers, and return its offset."""
        topic, partition = self.topic_partition
        offset = self.high
        self.append((_record((topic, partition, offset, key, value, headers, timestamp_ms)),))
        return offset

    def append(self, records: Sequence[Record]) -> None:
        """Add records, with offsets from `high` on, and notify the readers."""
        self._tail.extend(records)
        self.high += len(records)
        if self._file is not None and len(self._tail) > 2 * TAIL_RECORDS:
            self._drop(len(self._tail) - TAIL_RECORDS)
        self.tell()

    def append_marker(self) -> None:
        """Add an offset that is never delivered, and notify the readers."""
        self.markers.add(self.high)
        self.append([Record(self.topic_partition.topic, self.topic_partition.partition, self.high, None, None)])

    def tell(self) -> None:
        for reader in self.readers:
            reader.more(self.topic_partition)

    def read(self, offset: int, limit: int) -> Sequence[Record]:
        """Return up to `limit` records from `offset` on. Compaction leaves gaps: the first may come after `offset`."""
        if offset >= self._tail_start or self._file is None:
            start = max(0, offset - self._tail_start)
            return self._tail[start : start + limit]
        return self._file.read(self.topic_id, self.topic_partition, offset, limit) or self._tail[:limit]

    def is_in_memory(self, offset: int) -> bool:
        return offset >= self._tail_start

    def first_since(self, since_ms: int) -> int | None:
        """Return the first offset in memory whose record is not older than `since_ms`."""
        return next((record.offset for record in self._tail if record.timestamp_ms >= since_ms), None)

    def truncate(self, low: int) -> None:
        """Drop the records before `low`."""
        self.low = low
        if low > self._tail_start:
            self._drop(min(low - self._tail_start, len(self._tail)))
        self.tell()

    def _drop(self, count: int) -> None:
        del self._tail[:count]
        self._tail_start += count


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and its partitions. A recreated topic is another object."""

    description: TopicDescription
    topic_id: int
    logs: list[PartitionLog]
    max_message_bytes: int
