"""The offsets that a group of the embedded broker has committed, and the check of who may commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from afl_stream.embedded.broker import EmbeddedBroker
from afl_stream.embedded.group import Member
from afl_stream.transport import CommittedOffset, Fenced, TopicPartition, TransportError


class GroupOffsets:
    """The committed offsets of one consumer's group. All methods but `write` are called under the broker's lock."""

    def __init__(self, broker: EmbeddedBroker, group: str | None) -> None:
        self._broker = broker
        self._group = group

    def show(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        member: Member | None,
        deleted: Collection[TopicPartition],
        *,
        refuses_lost: bool,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Let others of the group see the offsets, and return those of topics that exist.

        Offsets of partitions that the member does not own are left out, or make this raise Fenced.
        """
        if self._group is None:
            raise TransportError("a consumer without a group cannot commit")
        group = self._broker.group(self._group)
        there = {
            partition: at
            for partition, at in offsets.items()
            if partition not in deleted and self._broker.has_topic(partition.topic)
        }
        if member is None:
            lost = list(there) if group.members else []
        else:
            lost = [partition for partition in there if not group.owns(member, partition)]
        if lost and refuses_lost:
            raise Fenced(lost)
        self._broker.commit(self._group, {partition: at for partition, at in there.items() if partition not in lost})
        return there

    def write(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Write the visible offsets to the file. Raises BrokerUnavailable. Not under the broker's lock."""
        assert self._group is not None
        self._broker.queue.write()
        self._broker.queue.check_committed(self._group, offsets)

    def missing_topic(self, partitions: Iterable[TopicPartition]) -> str | None:
        """Return the first of the partitions' topics that does not exist."""
        return min(
            (partition.topic for partition in partitions if not self._broker.has_topic(partition.topic)), default=None
        )

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return what is committed for these; nothing without a group."""
        if self._group is None:
            return {}
        known = self._broker.group(self._group).committed
        return {partition: known[partition] for partition in partitions if partition in known}
