"""Records as their places tell them apart: the identities of what is kept of records that have no id."""

from __future__ import annotations

from afl_stream.transport import Record, TopicPartition


def place_of(record: Record) -> str:
    """Return the identity of a record, the same however often it is read: its place, and its time.

    A topic that was recreated has other records in the same places. Their times tell them apart.
    """
    # This is the dedup key of stored rows; never change its form.
    return f"{record.topic}/{record.partition}/{record.offset}@{record.timestamp_ms}"


def place_in(identity: str, topic: str) -> tuple[TopicPartition, int] | None:
    """Return the partition of a topic, and the offset in it, of an identity; None for one of another form."""
    found, _, numbers = identity.rpartition("@")[0].partition("/")
    partition, _, offset = numbers.partition("/")
    if found != topic or not all(_is_number(text) for text in (partition, offset)):
        return None
    return TopicPartition(topic, int(partition)), int(offset)


def _is_number(text: str) -> bool:
    """Whether it is a number that a place may have: identities are also chosen by senders."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


#: Digits of a number of 63 bits that are certain to fit.
_MOST_DIGITS = 18
