"""The partitions that an agent holds in one group: reading, pausing, and committing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from afl.core.clock import epoch_ns
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.lost_offsets import ReadAgain
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import PartitionWork
from afl_stream.reading.group_reader import GroupReader
from afl_stream.reading.lag import Lag
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.transport import (
    CommittedOffset,
    Consumer,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    UnknownTopic,
)

log = logging.getLogger(__name__)

#: A record's topic and partition.
_PLACE: Final = itemgetter(Record._fields.index("topic"), Record._fields.index("partition"))


class AssignedPartitions:
    """The partitions that one membership holds. Everything but `health` belongs to the thread that reads.

    `before_revoke` runs while partitions are still held, `on_drop` after one is gone.
    """

    def __init__(
        self,
        resources: AgentResources,
        consumer: Consumer,
        group: str,
        before_revoke: Callable[[Sequence[TopicPartition]], None],
        on_drop: Callable[[PartitionWork], None],
    ) -> None:
        self.group = group
        self._warnings = LimitedLog(log)
        #: Topics that records are wanted of. Of others that are still held nothing is read.
        self.wanted: frozenset[str] = frozenset()
        self.read_again = ReadAgain(resources, group)
        self._resources = resources
        self._consumer = consumer
        self._before_revoke = before_revoke
        self._on_drop = on_drop
        self._partitions: dict[TopicPartition, PartitionWork] = {}
        self._reader = GroupReader(
            consumer,
            resources.config.stream.kafka,
            f"group {group}",
            lost_records=resources.config.lost_records,
            longest_backoff_s=resources.config.max_backoff_s,
            clock_s=resources.clock_s,
        )
        self._last_commit_s = resources.clock_s()
        self._last_progress_s = resources.clock_s()
        self._next_lag_s = resources.clock_s()
        self._lag = 0
        #: The lag of each partition, as last measured.
        self.lags: Mapping[TopicPartition, Lag] = {}
        #: When the member has had its last turn.
        self.turned_s = resources.clock_s()

    def join(self, topics: Sequence[str]) -> None:
        """Join the group, or change to these topics."""
        self._consumer.subscribe(topics, listener=self)

    def leave(self) -> None:
        """Commit what is finished and leave the group."""
        if not self._reader.leave():
            self._resources.counters.add("commit_failures")

    def __iter__(self) -> Iterator[PartitionWork]:
        return iter(tuple(self._partitions.values()))

    @property
    def is_waiting(self) -> bool:
        """Return whether records were read that could not be opened, and will be before long."""
        return any(
            partition.undecoded.records and not partition.undecoded.paused_reason
            for partition in self._partitions.values()
        )

    # Reading

    def read(self, max_records: int, timeout_s: float) -> int:
        """Read into the partitions' queues, and return the number of records.

        Raises OffsetOutOfRange, UnknownTopic, and GaveUp when an outage has lasted too long.
        """
        tracing = self._resources.tracing
        began_ns = 0 if tracing is None else epoch_ns()
        try:
            records = self._reader.read(max_records, timeout_s)
        except OffsetOutOfRange as error:
            self._lost_records(error)
            return 0
        except UnknownTopic as error:
            if not self._resources.does_without(error.topic):
                raise
            # Nothing more is committed for it: a recreated topic begins with another record.
            self._drop(
                [topic_partition for topic_partition in self._partitions if topic_partition.topic == error.topic]
            )
            return 0
        for _, of_partition in groupby(records, _PLACE):
            rows = list(of_partition)
            partition = self._partitions.get(rows[0].topic_partition)
            if partition is not None:
                partition.undecoded.records.extend(rows)
        if records:
            self._resources.counters.add("read", len(records))
            if tracing is not None:
                tracing.received(records, self.group, began_ns)
            self.progressed()
            self._resources.probe("agent.polled")
        return len(records)

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that nothing waits to be read."""
        paused = self._resources.paused
        if paused.is_active and all(paused.holds_topic(topic) for topic in self.wanted):
            return True
        return self._reader.has_read_all

    def backoff_s(self) -> float | None:
        """Return how long to leave the broker alone, or None when it answers."""
        return self._reader.backoff_s()

    def pause_full(self, room: int) -> None:
        """Pause partitions without room: all of them without room for records, else those whose own queue does not
        move, those that are about to be left, and those of paused facets.
        """
        held = {
            topic_partition
            for topic_partition, partition in self._partitions.items()
            if room <= 0 or partition.undecoded.records or topic_partition.topic not in self.wanted
        }
        if self._resources.paused.is_active:
            held |= {partition for partition in self._partitions if self._resources.paused.holds_topic(partition.topic)}
        self._reader.hold(held)

    def _lost_records(self, error: OffsetOutOfRange) -> None:
        """Report the records between the position and the log, which are gone: as an error, or as a gap."""
        low = self._reader.skip_lost(error)
        self._resources.counters.add("lost_records", max(0, low - error.offset))
        self._drop([error.partition])
        self._hold(error.partition, CommittedOffset(offset=low)).dirty = True

    # Coming and going: called inside the consumer's own calls

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        committed = self._consumer.committed(partitions)
        ends = self.read_again.ends(self._consumer, partitions, committed, self._noted_ends(committed))
        for partition in partitions:
            self._hold(partition, committed.get(partition)).progress.read_again_until = ends.get(partition, 0)
        self.progressed()
        return None

    def _noted_ends(self, committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
        ends = {partition: PartitionProgress(at, 1).read_again_until for partition, at in committed.items()}
        return {partition: end for partition, end in ends.items() if end > committed[partition].offset}

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._resources.shutdown.is_dead:
            return
        self._before_revoke(partitions)
        assigned = [self._partitions[partition] for partition in partitions if partition in self._partitions]
        self.commit(assigned, wait=True, clean=True)
        self._drop(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            if partition in self._partitions:
                self._partitions[partition].is_lost = True
        self._drop(partitions)

    def _hold(self, topic_partition: TopicPartition, committed: CommittedOffset | None) -> PartitionWork:
        progress = PartitionProgress(committed, self._resources.config.stream.agent.window)
        queue = RecordQueue(self._resources.config.backoff, self._resources.clock_s, self._warnings)
        partition = self._partitions[topic_partition] = PartitionWork(
            topic_partition=topic_partition, progress=progress, undecoded=queue
        )
        self._reader.forget([topic_partition])
        return partition

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        self._reader.forget(partitions)
        for topic_partition in partitions:
            partition = self._partitions.pop(topic_partition, None)
            if partition is not None:
                partition.is_assigned = False
                partition.undecoded.records.clear()
                self._on_drop(partition)

    # Committing

    @property
    def is_dirty(self) -> bool:
        return any(partition.dirty for partition in self._partitions.values())

    def commit_when_due(self) -> None:
        """Commit what has changed, unless the last commit was a moment ago."""
        interval_s = self._resources.config.commit_interval_s
        if self.is_dirty and self._resources.clock_s() - self._last_commit_s >= interval_s:
            self.commit([partition for partition in self._partitions.values() if partition.dirty])

    def commit_now(self) -> None:
        """Commit what has changed and wait until it is durable."""
        self.commit([partition for partition in self._partitions.values() if partition.dirty], wait=True)

    def commit(self, partitions: Iterable[PartitionWork], *, wait: bool = False, clean: bool = False) -> bool:
        """Commit these partitions, and return whether all were: some may be lost, or it was not possible now."""
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for partition in partitions:
            checkpoint = partition.progress.checkpoint(clean=clean)
            if checkpoint is not None and partition.is_assigned:
                offsets[partition.topic_partition] = checkpoint
        if not offsets or self._resources.shutdown.is_dead:
            return not self._resources.shutdown.is_dead
        self._last_commit_s = self._resources.clock_s()
        tracing = self._resources.tracing
        began_ns = 0 if tracing is None else epoch_ns()
        is_committed = self._reader.commit(offsets, wait=wait)
        if tracing is not None:
            for topic in {partition.topic for partition in offsets}:
                tracing.committed(topic, self.group, began_ns, is_committed=is_committed)
        if not is_committed:
            self._resources.counters.add("commit_failures")
            return False
        for topic_partition in offsets:
            if topic_partition in self._partitions:
                self._partitions[topic_partition].dirty = False
                self._partitions[topic_partition].progress.is_announced |= wait and not clean
        self._resources.counters.add("commits")
        self._resources.probe("agent.committed")
        return True

    # Health

    def progressed(self) -> None:
        """Note that a record made progress."""
        self._last_progress_s = self._resources.clock_s()

    def measure_lag(self) -> None:
        """Measure from time to time how many records are still to be read."""
        now_s = self.turned_s = self._resources.clock_s()
        if now_s < self._next_lag_s:
            return
        self._next_lag_s = now_s + self._resources.config.lag_interval_s
        lag, lags, view = 0, dict[TopicPartition, Lag](), self._consumer.view()
        paused = self._resources.paused
        if not view.unfetched and all(
            p.progress.is_finished and not p.undecoded.records for p in self._partitions.values()
        ):
            # All that a log gives is handled. What is left of its offsets are markers of transactions.
            self._lag, self.lags = 0, dict.fromkeys(self._partitions, Lag(0, 0))
            return
        for topic_partition, bounds in view.bounds.items():
            partition = self._partitions.get(topic_partition)
            if partition is not None:
                position = partition.progress.position
                behind = bounds.high - (bounds.low if position is None else position)
                if not (paused.is_active and paused.holds_topic(topic_partition.topic)):
                    lag += behind
                unread = max(0, bounds.high - self._consumer.position(topic_partition))
                lags[topic_partition] = Lag(committed=behind, read=min(behind, unread))
        self._lag, self.lags = lag, lags

    def health(self, in_flight: int) -> tuple[tuple[str, ...], int]:
        """Return what is wrong, in words, and the lag. Any thread may call this."""
        assigned = tuple(self._partitions.values())
        reasons = [why for partition in assigned if (why := partition.undecoded.problem) is not None]
        if (problem := self._reader.problem) is not None:
            reasons.append(problem if self.group in problem else f"group {self.group}: {problem}")
        silent_s = self._resources.clock_s() - self._last_progress_s
        if self._lag and not in_flight and silent_s > self._resources.config.stall_after_s:
            reasons.append(f"group {self.group}: {self._lag} records wait and none was handled for {silent_s:.0f} s")
        return tuple(reasons), self._lag
