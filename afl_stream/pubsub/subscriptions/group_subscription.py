"""Reading for a subscription, on one thread: assignments, lots of records, acknowledgements and commits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.text.warning_limits import LimitedLog
from afl_stream.acls import check_visible
from afl_stream.pubsub.errors import SubscribedTopicMissing
from afl_stream.pubsub.subscriptions.message import Decode
from afl_stream.pubsub.subscriptions.owned_partition import OwnedPartition
from afl_stream.pubsub.subscriptions.selection import TopicSelection
from afl_stream.pubsub.subscriptions.settings import SubscriptionCounts, SubscriptionSettings
from afl_stream.pubsub.subscriptions.starts import Starts
from afl_stream.reading.group_reader import GroupReader
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    Transport,
    UnknownTopic,
)

_log = logging.getLogger(__name__)

#: Records that are read with one call.
READ_RECORDS: Final = 500


_place_of: Final = itemgetter(Record._fields.index("topic"), Record._fields.index("partition"))
_key_of: Final = itemgetter(Record._fields.index("key"))
_value_of: Final = itemgetter(Record._fields.index("value"))


class Lot(NamedTuple):
    """Records of one partition that were read together."""

    owned: OwnedPartition
    records: Sequence[Record]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a subscription reads from, for whom."""

    transport: Transport
    kafka: KafkaSettings
    who: str
    group: str
    selection: TopicSelection
    starts: Starts
    decode: Decode


class GroupSubscription:
    """One member of a subscription's group.

    Everything belongs to the thread that reads, but `counts`, `partitions` and `problem`.

    A record's way, in this order:
      1. it is read                                     (subscription.read)
      2. it is delivered, and handled by the program
      3. the program acknowledges it, which is taken in (subscription.applied)
      4. the offset moves past it, with all before it   (subscription.committed)
    A crash before 4 delivers it again. Records that are finished above an unfinished one travel with the commit, and
    are not delivered again.
    """

    def __init__(self, source: Source, settings: SubscriptionSettings, clock_s: MonotonicClock = monotonic_s) -> None:
        self._source = source
        self._settings = settings
        self._clock_s = clock_s
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._reader: GroupReader | None = None
        self._is_subscribed = False
        self._is_holding = False
        self._next_commit_s = clock_s() + settings.commit_interval_s
        self._warnings = LimitedLog(_log)
        self.counts = SubscriptionCounts()
        #: The partitions that are this member's now.
        self.partitions: frozenset[TopicPartition] = frozenset()

    @property
    def problem(self) -> str | None:
        """The problem with the broker, in words."""
        return None if self._reader is None else self._reader.problem

    def backoff_s(self) -> float | None:
        """Return how long to leave the broker alone, or None when it answers."""
        return None if self._reader is None else self._reader.backoff_s()

    def open(self) -> None:
        """Join the group.

        Raises SubscribedTopicMissing, TopicHidden, and what the transport raises; call it again then.
        """
        if self._is_subscribed:
            return
        source = self._source
        if self._reader is None:
            consumer = source.transport.consumer(source.group, client_id=source.group)
            self._reader = GroupReader(
                consumer,
                source.kafka,
                source.who,
                lost_records=self._settings.lost_records,
                longest_backoff_s=self._settings.max_backoff_s,
                clock_s=self._clock_s,
            )
        consumer, admin = self._reader.consumer, source.transport.admin()
        if source.selection.names:
            existing = admin.topic_names()
            for topic in source.selection.names:
                if topic not in existing:
                    check_visible(admin, topic, source.who, f"--role subscriber --topic {topic}")
                    raise SubscribedTopicMissing(source.who, topic)
        source.starts.look(admin, consumer)
        consumer.subscribe(source.selection.names, pattern=source.selection.pattern, listener=self)
        self._is_subscribed = True

    def read(self, max_records: int, timeout_s: float) -> list[Lot]:
        """Read, and return lots in the order of their partitions; none while the broker is away.

        Raises GaveUp when an outage has lasted too long, OffsetOutOfRange when lost records are to end it,
        SubscribedTopicMissing, and REFUSALS of the transport.
        """
        reader = self._reader
        assert reader is not None
        lots = self._deferred_lots()
        self._hold(reader)
        try:
            records = reader.read(max_records, 0.0 if lots else timeout_s)
        except OffsetOutOfRange as error:
            self._skip_lost(reader, error)
            return lots
        except UnknownTopic as error:
            self._check_missing(error.topic)
            return lots
        if records:
            self._settings.probe("subscription.read")
            self._sort(records, lots)
        return lots

    def failed(self, error: BrokerUnavailable) -> None:
        """Note that the broker could not be reached. Raises GaveUp when the outage has lasted too long."""
        assert self._reader is not None
        self._reader.failed(error)

    def hold(self, *, is_full: bool) -> None:
        """Pause all partitions while the buffer is full; else resume them."""
        if is_full and not self._is_holding:
            self._count(pauses=1)
        self._is_holding = is_full

    def commit_when_due(self) -> None:
        """Take in the acknowledgements, and commit them when it is time. Raises REFUSALS of the transport."""
        now_s = self._clock_s()
        if now_s >= self._next_commit_s:
            self._next_commit_s = now_s + self._settings.commit_interval_s
            self._commit(self._owned.values(), wait=False)

    def close(self) -> None:
        """Commit what is acknowledged and leave the group."""
        if self._reader is not None and not self._reader.leave():
            self._count(commit_failures=1)
        self.on_lost(tuple(self._owned))

    def _hold(self, reader: GroupReader) -> None:
        if self._is_holding:
            reader.hold(self._owned)
        else:
            reader.hold([place for place, owned in self._owned.items() if owned.deferred])

    def _deferred_lots(self) -> list[Lot]:
        lots: list[Lot] = []
        for owned in self._owned.values():
            if owned.deferred:
                self._count(acknowledged=owned.apply_acks())
                if records := owned.take_deferred():
                    lots.append(Lot(owned, records, _size_of(records)))
        return lots

    def _sort(self, records: Sequence[Record], lots: list[Lot]) -> None:
        """Append the records to the lots, those of each partition together."""
        by_partition: dict[tuple[str, int], list[Record]] = {}
        for place, run in groupby(records, _place_of):
            by_partition.setdefault(place, []).extend(run)
        acknowledged = 0
        for place, found in by_partition.items():
            owned = self._owned.get(place)  # type: ignore[call-overload]  # a TopicPartition is this tuple
            if owned is None:
                continue
            # The window counts what is acknowledged by now, and not at the last commit.
            acknowledged += owned.apply_acks()
            if fresh := owned.take(found):
                lots.append(Lot(owned, fresh, _size_of(fresh)))
            if owned.deferred:
                self._warnings.warning(
                    f"the window of {owned.place}",
                    "%s: %s[%d] waits: offset %s is not acknowledged, and %d past it were delivered",
                    self._source.who,
                    *owned.place,
                    owned.progress.position,
                    self._settings.window,
                )
        self._count(read=len(records), acknowledged=acknowledged)

    def _skip_lost(self, reader: GroupReader, error: OffsetOutOfRange) -> None:
        low = reader.skip_lost(error)
        owned = self._owned.get(error.partition)
        if owned is None or low >= error.offset:
            # What was read before goes on; the offset moves past the lost range when the next record is taken.
            return
        # The log ends before the offset, as that of another broker may: offsets that were taken come again.
        owned.is_lost = True
        self._own(owned.place, CommittedOffset(offset=low))

    def _check_missing(self, topic: str) -> None:
        """Raise SubscribedTopicMissing when a topic of a name is gone; one of a pattern may come again."""
        if topic in self._source.selection.names:
            try:
                existing = self._source.transport.admin().topic_names()
            except BrokerUnavailable as error:
                # Told here: records past the window that are on their way to the program must not be lost.
                self.failed(error)
                return
            if topic not in existing:
                raise SubscribedTopicMissing(self._source.who, topic)
        _log.info("%s: topic %s does not exist now", self._source.who, topic)

    def _commit(self, partitions: Iterable[OwnedPartition], *, wait: bool) -> None:
        offsets: dict[TopicPartition, CommittedOffset] = {}
        acknowledged = 0
        for owned in partitions:
            acknowledged += owned.apply_acks()
            checkpoint = owned.progress.checkpoint(clean=True)
            # A commit that was not waited for may have failed: the last one is made again, and waited for.
            if checkpoint is not None and checkpoint != (owned.confirmed if wait else owned.sent):
                offsets[owned.place] = checkpoint
        if acknowledged:
            self._count(acknowledged=acknowledged)
        if not offsets or not self._settings.commits:
            return
        self._settings.probe("subscription.applied")
        assert self._reader is not None
        if not self._reader.commit(offsets, wait=wait):
            self._count(commit_failures=1)
            return
        for place, checkpoint in offsets.items():
            self._owned[place].sent = checkpoint
            if wait:
                self._owned[place].confirmed = checkpoint
        self._count(commits=1)
        self._settings.probe("subscription.committed")

    def _count(self, **more: int) -> None:
        self.counts = self.counts.plus(**more)

    # Called inside the consumer's own calls

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        assert self._reader is not None
        consumer = self._reader.consumer
        committed = dict(consumer.committed(partitions)) if self._settings.commits else {}
        starts = self._source.starts.of(consumer, [place for place in partitions if place not in committed])
        self._reader.forget(partitions)
        offsets: dict[TopicPartition, int] = {}
        for place in partitions:
            found = committed.get(place)
            begin = found or (CommittedOffset(offset=starts[place]) if place in starts else None)
            # A start that is not committed yet is: the group's next member must not start elsewhere.
            owned = self._own(place, begin)
            owned.sent = owned.confirmed = found
            if begin is not None:
                offsets[place] = begin.offset
        self.partitions = frozenset(self._owned)
        self._next_commit_s = self._clock_s()
        return offsets

    def _own(self, place: TopicPartition, begin: CommittedOffset | None) -> OwnedPartition:
        progress = PartitionProgress(begin, self._settings.window)
        self._owned[place] = owned = OwnedPartition(place, self._source.decode, progress)
        return owned

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._commit([self._owned[place] for place in partitions if place in self._owned], wait=True)
        self._drop(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._source.starts.forget(partitions)
        self._drop(partitions)

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Give partitions up: what is buffered of them is delivered to their next owner."""
        if self._reader is not None:
            self._reader.forget(partitions)
        for place in partitions:
            owned = self._owned.pop(place, None)
            if owned is None:
                continue
            owned.is_lost = True
            if not self._settings.commits and (position := owned.progress.position) is not None:
                self._source.starts.continue_at(place, position)
        self.partitions = frozenset(self._owned)


def _size_of(records: Sequence[Record]) -> int:
    """Return the bytes of the records' keys and values."""
    return sum(sum(map(len, filter(None, map(part_of, records)))) for part_of in (_key_of, _value_of))
