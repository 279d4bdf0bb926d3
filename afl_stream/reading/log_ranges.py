"""Reading of what is in a log now, without a group: ranges of partitions, up to their ends or a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.reading.lost_offsets import in_words
from afl_stream.transport import (
    OffsetOutOfRange,
    Record,
    Stopping,
    TopicPartition,
    Transport,
    TransportError,
    Watermarks,
)

_BATCH_RECORDS: Final = 1_000
_POLL_S: Final = 0.1


class NotReadInTime(TransportError):
    """Ranges of partitions were not read to their ends in the given time."""

    def __init__(self, partitions: Iterable[TopicPartition], timeout_s: float) -> None:
        topics = sorted({partition.topic for partition in partitions})
        super().__init__(f"{', '.join(topics)} could not be read to the end in {timeout_s:g} s")


def read_ranges(
    transport: Transport, ranges: Mapping[TopicPartition, Watermarks], timeout_s: float
) -> Iterator[list[Record]]:
    """Return the records of these ranges, from `low` to before `high`, as they come.

    Records that are deleted meanwhile are left out. Raises NotReadInTime when the time is up, Stopping once the process
    is told to end, and what the transport raises.
    """
    left = {partition: bounds.high for partition, bounds in ranges.items() if bounds.low < bounds.high}
    if not left:
        return
    deadline_s = time.monotonic() + timeout_s
    consumer = transport.consumer(None)
    try:
        consumer.assign({partition: ranges[partition].low for partition in left})
        while left:
            if PROCESS_STOP.is_set():
                raise Stopping(in_words(ranges))
            if time.monotonic() >= deadline_s:
                raise NotReadInTime(left, timeout_s)
            try:
                records = consumer.consume(_BATCH_RECORDS, _POLL_S)
            except OffsetOutOfRange as error:
                consumer.seek(error.partition, error.bounds.low)
                continue
            wanted = [record for record in records if record.offset < left.get(record.topic_partition, 0)]
            # The offsets of records would not do: a range may end with a transaction marker, which is not a record.
            for partition in [partition for partition, end in left.items() if consumer.position(partition) >= end]:
                del left[partition]
                consumer.pause([partition])
            if wanted:
                yield wanted
    finally:
        consumer.close()
