"""Partitions whose group has no committed offset for them: it is new, or brokers have dropped its offsets."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from afl_stream.transport import Consumer, TopicPartition, UnknownTopic, Watermarks

#: Why offsets are gone, for messages.
DROPPED: Final = (
    "brokers drop the offsets of a group without members after offsets.retention.minutes (7 days unless set)"
)
#: Partitions that a message names; of more it gives the numbers.
_NAMED: Final = 12


def uncommitted_ranges(
    consumer: Consumer, partitions: Iterable[TopicPartition], committed: Container[TopicPartition]
) -> dict[TopicPartition, Watermarks]:
    """Return the bounds of those partitions that have records and no committed offset. Raises what a transport does."""
    uncommitted: dict[TopicPartition, Watermarks] = {}
    for partition in partitions:
        if partition not in committed:
            try:
                bounds = consumer.watermarks(partition)
            except UnknownTopic:
                continue  # Not every broker has heard of it yet: it is new, or gone, which reading tells.
            if bounds.low < bounds.high:
                uncommitted[partition] = bounds
    return uncommitted


def in_words(ranges: Mapping[TopicPartition, Watermarks]) -> str:
    """Return the ranges in words: topic, partition, first and last offset, and how many records that are."""
    count = sum(bounds.high - bounds.low for bounds in ranges.values())
    named = [
        f"{partition.topic}[{partition.partition}] {bounds.low} to {bounds.high - 1}"
        for partition, bounds in sorted(ranges.items())[:_NAMED]
    ]
    more = f" and {len(ranges) - _NAMED} more partitions" if len(ranges) > _NAMED else ""
    return f"{', '.join(named)}{more}: {count:,} records"
