"""The write queue of the embedded log: records and committed offsets are gathered and written together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Protocol

from afl.core.probes import Probe
from afl_stream.embedded.file import LogFile, Row, pack_headers
from afl_stream.embedded.log import PartitionLog, Topic
from afl_stream.transport import (
    CommittedOffset,
    DeliveryCallback,
    Headers,
    Record,
    TopicPartition,
    UnknownTopic,
)

#: Records waiting for the file at which a producer writes them itself, so that memory stays bounded.
WRITE_AT_RECORDS = 2_000


class Delivery(Protocol):
    """A producer's side of a record, which takes the result."""

    def settled(self, queued: "Queued", error: Exception | None, offset: int) -> None:
        """Take the result: the record is durable at `offset`, or it failed. Called under the broker's lock."""


@dataclass(slots=True, eq=False)
class Queued:
    """A record on its way into the log."""

    topic: Topic
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    delivery: Delivery
    on_delivery: DeliveryCallback | None


class WriteQueue:
    """Gathers records and committed offsets until a caller needs them on disk. Without a file, records pass at once.

    One write, in this order:
      1. take all that has gathered, and give the records their offsets,
      2. write it to the file in one transaction, which is on disk at its end,
      3. put the records into the log that consumers see, and settle the deliveries.
    A crash before the end of 2 loses records whose delivery was not reported. After 2 they are read after a restart,
    although their delivery was never reported: their producer will produce them again.
    """

    def __init__(self, file: LogFile | None, lock: "RLock", *, check_open: Callable[[], None], probe: Probe) -> None:
        #: Held during a write, and by callers that must exclude one. Taken before the broker's lock, never after it.
        self.exclusive = Lock()
        self._file = file
        #: Whether records need not be queued: they are in the log as soon as they are there.
        self.is_in_memory = file is None
        self._lock = lock
        self._check_open = check_open
        self._probe = probe
        self._queued: list[Queued] = []
        self._queued_offsets: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self._refused: Exception | None = None

    def enqueue(self, queued: Queued) -> bool:
        """Take a record for the file, and return whether so many wait for it that they should be written now.

        Under the lock.
        """
        self._queued.append(queued)
        for reader in queued.topic.logs[queued.partition].readers:
            reader.more(TopicPartition(queued.topic.description.name, queued.partition))
        return len(self._queued) >= WRITE_AT_RECORDS

    def enqueue_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Take a group's offsets. Under the lock."""
        if self._file is not None:
            self._queued_offsets.update({(group, partition): offset for partition, offset in offsets.items()})

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets in a deleted topic. Under both locks."""
        for key in [key for key in self._queued_offsets if key[1].topic == topic]:
            del self._queued_offsets[key]

    def clear(self) -> None:
        """Forget everything. Under both locks."""
        self._queued.clear()
        self._queued_offsets.clear()

    def unqueue(self, delivery: Delivery) -> None:
        """Drop the records of a producer that died before they were written."""
        with self.exclusive, self._lock:
            self._queued = [queued for queued in self._queued if queued.delivery is not delivery]

    def has_queued(self) -> bool:
        """Return whether anything waits to be written."""
        return bool(self._queued or self._queued_offsets)

    def write(self, timeout_s: float = -1) -> bool:
        """Write what has gathered (steps 1 to 3), and return whether that was done in time.

        Records that the file refuses fail at their producer; offsets are kept for the next write, and `check_committed`
        raises for them. Raises BrokerUnavailable when the broker is closed.
        """
        if self._file is None:
            return True
        if not self.exclusive.acquire(timeout=timeout_s):
            return False
        try:
            self._write(self._file)
        finally:
            self.exclusive.release()
        return True

    def _write(self, file: LogFile) -> None:
        with self._lock:
            self._check_open()
            batch, self._queued = self._queued, []
            offsets, self._queued_offsets = self._queued_offsets, {}
            rows = self._place(batch)
        if not batch and not offsets:
            return
        try:
            self._probe("log.before_write")
            file.append(rows, [(group, partition, offset) for (group, partition), offset in offsets.items()])
        except Exception as error:  # noqa: BLE001 - whatever the file says is told to each producer
            with self._lock:
                self._refused = error
                self._queued_offsets = offsets | self._queued_offsets
                for queued in batch:
                    queued.delivery.settled(queued, error, -1)
            return
        except BaseException:
            # The writer died; the broker and the records given to it are still there.
            with self._lock:
                self._queued[:0] = batch
                self._queued_offsets = offsets | self._queued_offsets
            raise
        with self._lock:
            self._refused = None
            self._publish(batch)
        self._probe("log.after_write")

    def _place(self, batch: list[Queued]) -> list[Row]:
        """Give the records their offsets. Those of topics deleted meanwhile fail, and leave the batch."""
        gone = [queued for queued in batch if queued.topic.logs[queued.partition].deleted]
        if gone:
            batch[:] = [queued for queued in batch if not queued.topic.logs[queued.partition].deleted]
            for queued in gone:
                queued.delivery.settled(queued, UnknownTopic(queued.topic.description.name), -1)
        following: dict[PartitionLog, int] = {}
        rows: list[Row] = []
        for queued in batch:
            log = queued.topic.logs[queued.partition]
            offset = following.get(log, log.high)
            following[log] = offset + 1
            rows.append(
                (
                    queued.topic.topic_id,
                    queued.partition,
                    offset,
                    queued.key,
                    queued.value,
                    pack_headers(queued.headers),
                    queued.timestamp_ms,
                )
            )
        return rows

    def _publish(self, batch: Sequence[Queued]) -> None:
        appended: dict[PartitionLog, list[Record]] = {}
        for queued in batch:
            log = queued.topic.logs[queued.partition]
            records = appended.setdefault(log, [])
            offset = log.high + len(records)
            records.append(
                Record(
                    topic=log.topic_partition.topic,
                    partition=queued.partition,
                    offset=offset,
                    key=queued.key,
                    value=queued.value,
                    headers=queued.headers,
                    timestamp_ms=queued.timestamp_ms,
                )
            )
            queued.delivery.settled(queued, None, offset)
        for log, records in appended.items():
            log.append(records)

    def check_committed(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Raise the file's error when the last `write` left offsets of these partitions unwritten."""
        with self._lock:
            if self._refused is not None and any(
                (group, partition) in self._queued_offsets for partition in partitions
            ):
                raise self._refused
