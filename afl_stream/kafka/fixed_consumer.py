"""A reader for a group without members: which partitions it has is settled outside the broker, once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl_stream.kafka.consumer import KafkaConsumer
from afl_stream.transport import RebalanceListener, TopicPartition, TransportError


class FixedConsumer(KafkaConsumer):
    """A consumer that has the partitions of certain numbers of each topic that it reads.

    They are offered to the listener as partitions of a group are: before anything is read, and again while it cannot
    take them. Offsets are committed under the group's name, which the broker takes only while the group has no members.
    """

    def __init__(self, *args: Any, numbers: frozenset[int], **named: Any) -> None:
        """Take what every consumer takes, and the numbers of the partitions."""
        super().__init__(*args, **named)
        self._numbers = sorted(numbers)

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Take the partitions of these topics. Raises TransportError for a pattern."""
        if pattern is not None:
            raise TransportError(f"partitions that are settled are those of named topics; found the pattern {pattern}")
        self._listener, self._is_member = listener, True
        self._subscribed = frozenset(topics)
        self._report_missing(topics)
        partitions = [TopicPartition(topic, number) for topic in topics for number in self._numbers]
        self._pending_assignment = list(partitions)
        self._partitions.assign(partitions, {})
        self._partitions.pause(partitions)

    def close(self) -> None:
        """Give the partitions back, and close the client."""
        if not self._closed and self._assigned:
            self._report_gone(sorted(self._assigned), None if self._listener is None else self._listener.on_revoked)
        super().close()
