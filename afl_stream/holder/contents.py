"""What frames hold: records, partitions, offsets and topics, in forms that JSON has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from afl_stream.group_members import GroupMember, GroupView
from afl_stream.holder.frames import BadFrame
from afl_stream.transport import (
    BrokerView,
    CommittedOffset,
    Headers,
    Record,
    Start,
    TopicDescription,
    TopicPartition,
    UnreadableHeaders,
    Watermarks,
)

#: The length that stands for a null key, value or header.
_NULL: Final = -1


class NewRecord(NamedTuple):
    """A record on its way to the log; `partition` None: the holder chooses it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size(self) -> int:
        """The bytes that it takes in a frame's body."""
        in_headers = sum(len(value or b"") for _, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + in_headers


class Bytes:
    """The body of a frame while it is written: each value is told by its length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, value: bytes | None) -> int:
        if value is None:
            return _NULL
        self._parts.append(value)
        return len(value)

    def joined(self) -> bytes:
        return b"".join(self._parts)


class BytesReader:
    """The body of a frame while it is read."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, length: object) -> bytes | None:
        """Return the next value. Raises BadFrame when the body has no such value."""
        if length == _NULL:
            return None
        if type(length) is not int or not 0 <= length <= len(self._body) - self._at:
            raise BadFrame(f"a record of {length} bytes is not in a body of {len(self._body):,} bytes")
        self._at += length
        return self._body[self._at - length : self._at]


# Records


def records_out(records: Iterable[Record], body: Bytes) -> list[Any]:
    """Return records for a frame, and add their bytes to its body."""
    return [
        [
            r.topic,
            r.partition,
            r.offset,
            body.add(r.key),
            body.add(r.value),
            headers_out(r.headers, body),
            r.timestamp_ms,
        ]
        for r in records
    ]


def records_in(found: Sequence[Any], body: bytes) -> list[Record]:
    """Reverse `records_out`. Raises BadFrame."""
    take = BytesReader(body)
    return [
        Record(topic, partition, offset, take.take(key), take.take(value), headers_in(headers, take), timestamp_ms)
        for topic, partition, offset, key, value, headers, timestamp_ms in found
    ]


def new_records_out(records: Iterable[NewRecord], body: Bytes) -> list[Any]:
    """Return new records for a frame, and add their bytes to its body."""
    return [[r.topic, r.partition, body.add(r.key), body.add(r.value), headers_out(r.headers, body)] for r in records]


def new_records_in(found: Sequence[Any], body: bytes) -> list[NewRecord]:
    """Reverse `new_records_out`. Raises BadFrame."""
    take = BytesReader(body)
    return [
        NewRecord(topic, partition, take.take(key), take.take(value), headers_in(headers, take))
        for topic, partition, key, value, headers in found
    ]


def headers_out(headers: Headers, body: Bytes) -> Any:
    """Return names and lengths; None: headers that nobody can read."""
    if isinstance(headers, UnreadableHeaders):
        return None
    return [[name, body.add(value)] for name, value in headers]


def headers_in(found: Any, body: BytesReader) -> Headers:
    """Reverse `headers_out`. Raises BadFrame."""
    if found is None:
        return UnreadableHeaders()
    return tuple((str(name), body.take(length)) for name, length in found)


# Partitions and offsets


def partitions_out(partitions: Iterable[TopicPartition]) -> list[Any]:
    """Return partitions for a frame."""
    return [[topic, number] for topic, number in partitions]


def partitions_in(found: Iterable[Any]) -> list[TopicPartition]:
    """Reverse `partitions_out`."""
    return [partition_in(pair) for pair in found]


def partition_in(found: Any) -> TopicPartition:
    """Return the partition of a topic and a number."""
    topic, number = found
    return TopicPartition(str(topic), int(number))


def numbers_out(numbers: Mapping[TopicPartition, int]) -> list[Any]:
    """Return offsets or times of partitions for a frame."""
    return [[topic, partition, number] for (topic, partition), number in numbers.items()]


def numbers_in(found: Iterable[Any]) -> dict[TopicPartition, int]:
    """Reverse `numbers_out`."""
    return {TopicPartition(str(topic), int(partition)): int(number) for topic, partition, number in found}


def starts_out(starts: Mapping[TopicPartition, int | Start]) -> list[Any]:
    """Return where reading begins, for a frame."""
    return [[topic, partition, start] for (topic, partition), start in starts.items()]


def starts_in(found: Iterable[Any]) -> dict[TopicPartition, int | Start]:
    """Reverse `starts_out`."""
    return {
        TopicPartition(str(topic), int(partition)): start if type(start) is int else Start(start)
        for topic, partition, start in found
    }


def committed_out(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[Any]:
    """Return committed offsets for a frame."""
    return [[topic, partition, at.offset, at.metadata] for (topic, partition), at in offsets.items()]


def committed_in(found: Iterable[Any]) -> dict[TopicPartition, CommittedOffset]:
    """Reverse `committed_out`."""
    return {
        TopicPartition(str(topic), int(partition)): CommittedOffset(offset=int(offset), metadata=str(metadata))
        for topic, partition, offset, metadata in found
    }


def bounds_out(bounds: Watermarks) -> list[int]:
    """Return a partition's bounds for a frame."""
    return [bounds.low, bounds.high]


def bounds_in(found: Any) -> Watermarks:
    """Reverse `bounds_out`."""
    low, high = found
    return Watermarks(low=int(low), high=int(high))


def view_out(view: BrokerView) -> dict[str, Any]:
    """Return the broker's reports for a frame."""
    return {
        "bounds": [[topic, partition, at.low, at.high] for (topic, partition), at in view.bounds.items()],
        "is_reported": view.is_reported,
        "unfetched": view.unfetched,
        "most_unfetched": view.most_unfetched,
        "unanswered_s": view.unanswered_s,
    }


def view_in(found: Mapping[str, Any]) -> BrokerView:
    """Reverse `view_out`."""
    bounds = {
        TopicPartition(topic, partition): Watermarks(low=low, high=high)
        for topic, partition, low, high in found["bounds"]
    }
    return BrokerView(
        bounds=bounds,
        is_reported=found["is_reported"],
        unfetched=found["unfetched"],
        most_unfetched=found["most_unfetched"],
        unanswered_s=found["unanswered_s"],
    )


# Topics and groups


def topics_out(topics: Iterable[TopicDescription]) -> list[Any]:
    """Return topics for a frame."""
    return [[t.name, t.partitions, t.replication, dict(t.settings), t.topic_id] for t in topics]


def topics_in(found: Iterable[Any]) -> dict[str, TopicDescription]:
    """Reverse `topics_out`; by name."""
    return {
        name: TopicDescription(
            name=name, partitions=partitions, replication=replication, settings=settings, topic_id=topic_id
        )
        for name, partitions, replication, settings, topic_id in found
    }


def groups_out(groups: Iterable[GroupView]) -> list[Any]:
    """Return groups for a frame."""
    return [[g.name, [[m.client_id, m.host, sorted(m.partitions)] for m in g.members]] for g in groups]


def groups_in(found: Iterable[Any]) -> dict[str, GroupView]:
    """Reverse `groups_out`; by name."""
    return {
        name: GroupView(
            name=name,
            members=tuple(
                GroupMember(client_id=client_id, host=host, partitions=frozenset((t, p) for t, p in partitions))
                for client_id, host, partitions in members
            ),
        )
        for name, members in found
    }
