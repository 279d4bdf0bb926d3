"""The offsets where a group starts in partitions for which it has committed nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from afl_stream.pubsub.errors import SubscriptionInvalid
from afl_stream.pubsub.subscriptions.selection import TopicSelection
from afl_stream.pubsub.subscriptions.settings import Since, StartAt
from afl_stream.transport import Admin, Consumer, Start, TopicPartition, UnknownTopic


class Starts:
    """Where reading starts in a partition without a committed offset.

    LATEST and an offset for all are those of the partitions that exist when the group's first subscription opens: a
    topic or partition that comes later is read from its beginning, also when it came while the group was away, and so
    is one that was deleted and recreated.
    """

    def __init__(self, start: StartAt, selection: TopicSelection, who: str, *, commits: bool = True) -> None:
        """Raise SubscriptionInvalid for a time without a zone, and for what says no start."""
        self._selection = selection
        self._commits = commits
        self._is_latest = False
        self._offset: int | None = None
        self._since_ms: int | None = None
        self._fixed: dict[TopicPartition, int] = {}
        self._continued: dict[TopicPartition, int] = {}
        if isinstance(start, str) and start in tuple(Start):
            self._is_latest = start == Start.LATEST
        elif isinstance(start, Since):
            self._since_ms = start.epoch_ms
        elif isinstance(start, datetime):
            if start.tzinfo is None:
                raise SubscriptionInvalid(who, f"start is the time {start} without a zone; say which: tzinfo=UTC")
            self._since_ms = int(start.timestamp() * 1000)
        elif isinstance(start, Mapping):
            self._fixed = {TopicPartition(*partition): offset for partition, offset in start.items()}
        elif isinstance(start, int) and not isinstance(start, bool) and start >= 0:
            self._offset = start
        else:
            raise SubscriptionInvalid(
                who, f"start is earliest, latest, a time, an offset, or an offset for each partition, found {start!r}"
            )

    def look(self, admin: Admin, consumer: Consumer) -> None:
        """Note the partitions that exist, for a group that is new. Raises what the transport raises."""
        if not self._is_latest and self._offset is None:
            return
        selected = [name for name in admin.topic_names() if self._selection.takes(name)]
        existing = [
            TopicPartition(name, number)
            for name, description in admin.topics(selected).items()
            for number in range(description.partitions)
        ]
        # A group commits its start in every partition that it is assigned. What it has no offset for came later.
        if self._commits and existing and consumer.committed(existing):
            return
        for partition in existing:
            try:
                self._fixed[partition] = consumer.watermarks(partition).high if self._offset is None else self._offset
            except UnknownTopic:
                continue  # It was deleted between the two questions.

    def of(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets for these partitions; those that are left out start at the first record there is."""
        known = {**self._fixed, **self._continued}
        found = {partition: known[partition] for partition in partitions if partition in known}
        if self._since_ms is not None:
            asked = {partition: self._since_ms for partition in partitions if partition not in found}
            return {**found, **consumer.offsets_for_times(asked)} if asked else found
        return found

    def continue_at(self, partition: TopicPartition, offset: int) -> None:
        """Note where a partition continues when it comes back to a member that commits nothing."""
        self._continued[partition] = offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these were lost: they may come back as those of another topic, which has other offsets."""
        for partition in partitions:
            self._fixed.pop(partition, None)
