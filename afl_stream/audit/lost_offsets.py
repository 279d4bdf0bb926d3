"""An audit file whose group has lost its offsets: the log is read again, and the file tells which records it has."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from afl_stream.audit.sinks import AuditSink, LastWritten
from afl_stream.reading.lost_offsets import DROPPED, in_words, uncommitted_ranges
from afl_stream.transport import Consumer, TopicPartition

log = logging.getLogger(__name__)


def written_before_offsets_were_lost(
    consumer: Consumer, group: str | None, partitions: Sequence[TopicPartition], sink: AuditSink
) -> dict[TopicPartition, LastWritten]:
    """Return how far those partitions are written that have records, lines in the sink, and no committed offset.

    This reads the whole file, and logs why: brokers drop the offsets of a group without members.
    """
    if not sink.written():
        return {}
    uncommitted = uncommitted_ranges(consumer, partitions, consumer.committed(partitions))
    written = sink.written(whole=True) if uncommitted else {}
    lost = {partition: bounds for partition, bounds in uncommitted.items() if partition in written}
    if lost:
        log.warning(
            "group %s has no committed offsets for %s, but the audit file has lines of their records: %s. All of "
            "them are read again, and lines that the file has are not written twice",
            group, in_words(lost), DROPPED,
        )  # fmt: skip
    return {partition: written[partition] for partition in lost}


def behind_the_group(
    consumer: Consumer,
    group: str | None,
    partitions: Sequence[TopicPartition],
    written: Mapping[TopicPartition, LastWritten],
) -> dict[TopicPartition, int]:
    """Return where to read those partitions from whose sink ends before the group's offset, which it alone moves.

    So it is when the sink is an earlier copy of itself. What the log does not have any more is not read.
    """
    starts: dict[TopicPartition, int] = {}
    for partition, found in consumer.committed(partitions).items():
        last = written.get(partition)
        if last is not None and found.offset > last.offset + 1:
            starts[partition] = max(last.offset + 1, min(consumer.watermarks(partition).low, found.offset))
    if starts:
        log.warning(
            "the audit's lines end before the offsets of group %s, in %s: what is missing is read again",
            group,
            ", ".join(f"{partition.topic}[{partition.partition}] from {at}" for partition, at in starts.items()),
        )
    return starts
