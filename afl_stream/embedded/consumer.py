"""Reading from the embedded broker: positions, deliveries and the steps of a rebalance, on the caller's thread."""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from threading import Condition

from afl.core.probes import Probe
from afl_stream.embedded.broker import EmbeddedBroker
from afl_stream.embedded.faults import Swallowed
from afl_stream.embedded.group import Member
from afl_stream.embedded.log import PartitionLog
from afl_stream.embedded.missing import MissingTopics
from afl_stream.embedded.offsets import GroupOffsets
from afl_stream.embedded.position import NotAssigned, Position, take_in_turn, view_of
from afl_stream.offset_owner import TOPIC_RECREATED
from afl_stream.transport import (
    Assignor,
    BrokerView,
    CommittedOffset,
    RebalanceListener,
    Record,
    Start,
    TopicPartition,
    TransportError,
    UnknownTopic,
    Watermarks,
)

_log = logging.getLogger(__name__)


class EmbeddedConsumer:
    """A member of a group, or a reader without one; see the Consumer port."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        group: str | None,
        *,
        client_id: str,
        assignor: Assignor,
        start: Start,
        probe: Probe,
    ) -> None:
        self.group = group
        self.member: Member | None = None
        self._broker = broker
        self._offsets = GroupOffsets(broker, group)
        self._client_id = client_id
        self._assignor = assignor
        self._start = start
        self._probe = probe
        self._wake, self._is_waiting = Condition(broker.lock), False
        self._positions: dict[TopicPartition, Position] = {}
        #: Partitions that may have something to read, longest waiting first.
        self._ready: dict[TopicPartition, None] = {}
        self._listener: RebalanceListener | None = None
        self._topics: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._group_moved = False
        self._missing = MissingTopics()
        self._closed = False
        self._unanswered_since_s: float | None = None
        broker.wake_at_close(self._moved)

    # Called by the broker, under its lock

    def more(self, partition: TopicPartition) -> None:
        self._ready[partition] = None
        if self._is_waiting:
            self._wake.notify_all()

    def _moved(self) -> None:
        self._group_moved = True
        self._wake.notify_all()

    # Joining

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe; see the port. Raises AssignorMismatch, and TransportError for a consumer without a group."""
        if self.group is None:
            raise TransportError("a consumer without a group cannot subscribe; assign partitions to it")
        compiled = None if pattern is None else re.compile(pattern)
        with self._broker.lock:
            self._check_open()
            self._listener = listener
            self._topics, self._pattern = frozenset(topics), compiled
            self._missing = MissingTopics()
            if self.member is None:
                self._drop(list(self._positions))
                self._join(self.group)
            elif not self.member.fenced:
                self.member.topics, self.member.pattern = self._topics, self._pattern
                self._broker.rebalance(self.group)

    def _join(self, group: str) -> Member:
        member = Member(
            client_id=self._client_id,
            sequence=self._broker.next_sequence(),
            topics=self._topics,
            pattern=self._pattern,
            wake=self._moved,
        )
        self._broker.join(group, member, self._assignor)
        self.member = member
        self._group_moved = True
        return member

    def assign(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises UnknownTopic, UnknownPartition, and TransportError for a member of a group."""
        self._assign(positions, keep_others=False)

    def assign_more(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises UnknownTopic, UnknownPartition, and TransportError for a member of a group."""
        self._assign(positions, keep_others=True)

    def _assign(self, positions: Mapping[TopicPartition, int | Start], *, keep_others: bool) -> None:
        with self._broker.lock:
            self._check_outside_groups()
            logs = {partition: self._broker.log(partition) for partition in positions}
            self._drop(list(positions) if keep_others else list(self._positions))
            for partition, start in positions.items():
                bounds = logs[partition].bounds
                begin = bounds.low if start is Start.EARLIEST else bounds.high
                self._add(partition, logs[partition], begin if isinstance(start, Start) else start)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Unassign; see the port. Raises TransportError for a member of a group."""
        with self._broker.lock:
            self._check_outside_groups()
            self._drop(partitions)

    def _check_outside_groups(self) -> None:
        self._check_open()
        if self.member is not None:
            raise TransportError(f"a member of group {self.group} is given its partitions; it cannot assign")

    # Reading

    def poll(self, timeout_s: float) -> Record | None:
        records = self.consume(1, timeout_s)
        return records[0] if records else None

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Read records; see the port.

        Raises OffsetOutOfRange (again and again, until a seek, a pause or a rebalance), BrokerUnavailable, and
        UnknownTopic once for a subscribed topic that does not exist, or one that the pattern had found.
        """
        deadline_s = time.monotonic() + timeout_s
        wrote_late = False
        while True:
            if self._group_moved:
                self._drop_recreated()
                self._follow_group()
            with self._broker.lock:
                self._check_open()
                if self._group_moved:
                    continue
                self._missing.check(self._topics, self._broker.topics_version, self._broker.has_topic)
                records = take_in_turn(self._ready, self._positions, max_records, self._follow_topic, self._broker.log)
                if not records:
                    remaining_s = deadline_s - time.monotonic()
                    queued = self._broker.queue.has_queued()
                    if remaining_s <= 0 and (wrote_late or not queued):
                        return []
                    if not queued:
                        self._is_waiting = True
                        self._wake.wait(remaining_s)
                        self._is_waiting = False
                        continue
            if records:
                try:
                    return self._deliver(records)
                except Swallowed:
                    with self._wake:
                        self._wake.wait(max(0.0, deadline_s - time.monotonic()))
                    return []
            # Records of other producers may be for this consumer, and no other call may come to write them.
            wrote_late = remaining_s <= 0
            self._broker.queue.write(max(0.0, remaining_s))

    def _follow_topic(self, partition: TopicPartition) -> None:
        """Continue in a recreated topic where no record of either log is skipped. Raises UnknownTopic."""
        position, log = self._positions[partition], self._broker.log(partition)
        if position.offset == position.log.high == log.low:
            self._enter(position, log, log.low)

    def _enter(self, position: Position, log: PartitionLog, offset: int) -> None:
        if log is not position.log:
            position.log.readers.remove(self)
            log.readers.append(self)
        position.move(offset, log)

    def _deliver(self, records: list[Record]) -> list[Record]:
        try:
            self._probe("poll.before_deliver")
        except BaseException:
            with self._broker.lock:
                for record in reversed(records):
                    position = self._positions.get(record.topic_partition)
                    if position is not None:
                        position.move(record.offset, position.log)
                        self._ready[record.topic_partition] = None
            raise
        return records

    # Rebalances

    def _follow_group(self) -> None:
        """Run the callbacks that are due, one step of the group at a time, until none is left."""
        while True:
            with self._broker.lock:
                self._check_open()
                member, name = self.member, self.group
                if member is None or name is None:
                    self._group_moved = False
                    return
                if member.fenced:
                    lost = sorted(self._positions)
                    self._drop(lost)
                    member = self._join(name)
                else:
                    lost = []
                group = self._broker.group(name)
                revoked = [] if lost else group.to_revoke(member)
                granted = [] if lost or revoked else group.grant(member)
                if not (lost or revoked or granted):
                    self._group_moved = False
                    return
                for partition in granted:
                    self._add(partition, self._broker.log(partition), None)
                if self._pattern is not None:
                    self._missing.note_found(partition.topic for partition in granted)
            if lost:
                if self._listener is not None:
                    self._listener.on_lost(lost)
            elif revoked:
                self._revoke(revoked, member)
            else:
                self._hand_over(granted, member)

    def _revoke(self, partitions: list[TopicPartition], member: Member) -> None:
        """Revoke partitions.

        No other member gets them until the callback has run; a callback that fails is called again.
        """
        self._probe("rebalance.before_revoke")
        self._report_gone(partitions)
        self._probe("rebalance.after_revoke")
        with self._broker.lock:
            self._drop(partitions)
            if not member.fenced:
                self._broker.group(self.group or "").release(member, partitions)

    def _report_gone(self, partitions: Sequence[TopicPartition], *, is_lost: bool = False) -> None:
        """Call the listener. Partitions of a topic that is gone or recreated are lost, whatever comes first."""
        with self._broker.lock:
            lost = list(partitions) if is_lost else sorted(self._deleted() & set(partitions))
        if self._listener is not None and lost:
            self._listener.on_lost(lost)
        if self._listener is not None and len(lost) < len(partitions):
            self._listener.on_revoked([partition for partition in partitions if partition not in set(lost)])

    def _drop_recreated(self) -> None:
        """Drop the partitions of topics that were deleted and recreated: their old positions have no meaning."""
        with self._broker.lock:
            lost = sorted(w for w in self._deleted() if self._broker.has_topic(w.topic))
        if not lost or (member := self.member) is None:
            return
        for topic in sorted({partition.topic for partition in lost}):
            _log.warning(TOPIC_RECREATED, self.group, topic)
        self._report_gone(lost)
        with self._broker.lock:
            self._drop(lost)
            if not member.fenced:
                # They are granted again, as those of the new topics.
                self._broker.group(self.group or "").release(member, lost)
            self._group_moved = True

    def _hand_over(self, partitions: list[TopicPartition], member: Member) -> None:
        """Ask the listener where to start. If that fails the partitions are released, and assigned again."""
        try:
            self._probe("rebalance.before_assign")
            starts = None if self._listener is None else self._listener.on_assigned(partitions)
            for partition, offset in (starts or {}).items():
                self.seek(partition, offset)
        except BaseException:
            with self._broker.lock:
                self._drop(partitions)
                if not member.fenced:
                    self._broker.group(self.group or "").release(member, partitions)
            raise
        with self._broker.lock:
            committed = self._offsets.committed(partitions)
            for partition in partitions:
                position = self._positions.get(partition)
                if position is not None and position.offset is None:
                    bounds = position.log.bounds
                    begin = bounds.low if self._start is Start.EARLIEST else bounds.high
                    position.offset = committed[partition].offset if partition in committed else begin

    def _add(self, partition: TopicPartition, log: PartitionLog, offset: int | None) -> None:
        self._positions[partition] = Position(log, offset)
        log.readers.append(self)
        self._ready[partition] = None

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            position = self._positions.pop(partition, None)
            if position is not None and self in position.log.readers:
                position.log.readers.remove(self)
            self._ready.pop(partition, None)

    # Positions

    def view(self) -> BrokerView:
        try:
            self._probe("view.before_answer")
        except Swallowed:
            now_s = time.monotonic()
            self._unanswered_since_s = now_s if self._unanswered_since_s is None else self._unanswered_since_s
            return BrokerView(unanswered_s=now_s - self._unanswered_since_s)
        except TransportError:
            return BrokerView()
        self._unanswered_since_s = None
        with self._broker.lock:
            return view_of(self._positions)

    def assignment(self) -> frozenset[TopicPartition]:
        with self._broker.lock:
            return frozenset(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Move the position. Raises NotAssigned, UnknownTopic."""
        with self._broker.lock:
            position = self._position(partition)
            self._enter(position, self._broker.log(partition), offset)
            self._ready[partition] = None

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Pause partitions. Raises NotAssigned."""
        with self._broker.lock:
            for partition in partitions:
                self._position(partition).paused = True

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Resume partitions. Raises NotAssigned."""
        with self._broker.lock:
            for partition in partitions:
                self._position(partition).paused = False
                self._ready[partition] = None

    def _position(self, partition: TopicPartition) -> Position:
        self._check_open()
        position = self._positions.get(partition)
        if position is None:
            raise NotAssigned(partition)
        return position

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Commit, in this order:
          1. check that this member still owns the partitions,
          2. let others of the group see the offsets,
          3. with `wait`, write them to the file.

        After a crash before 3 the restarted broker has the older offsets: the records come again. Nothing is committed
        for a topic that does not exist, or was recreated since it was read: it begins with another record. Raises
        BrokerUnavailable, and with `wait` UnknownTopic for a topic that does not exist, after the others are committed.
        """
        self._probe("commit.before")
        with self._broker.lock:
            self._check_open()
            missing = self._offsets.missing_topic(offsets)
            shown = self._offsets.show(offsets, self.member, self._deleted(), refuses_lost=wait)
        if wait:
            self._offsets.write(shown)
        self._probe("commit.after")
        if missing is not None and wait:
            raise UnknownTopic(missing)

    def _deleted(self) -> set[TopicPartition]:
        """Return the partitions of topics that are gone, or were recreated."""
        return {partition for partition, position in self._positions.items() if position.log.deleted}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        with self._broker.lock:
            self._check_open()
            return self._offsets.committed(partitions)

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset to read. Raises NotAssigned."""
        with self._broker.lock:
            position = self._position(partition)
            return position.log.low if position.offset is None else position.offset

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._broker.offsets_since(times_ms)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return a partition's bounds. Raises UnknownTopic, UnknownPartition."""
        with self._broker.lock:
            self._check_open()
            return self._broker.log(partition).bounds

    # Leaving

    def close(self) -> None:
        if self._closed:
            return
        if self._broker.closed:
            self.abandon()
            return
        self._probe("close.before_leave")
        held = sorted(self._positions)
        try:
            if self.member is not None and self._listener is not None and held:
                self._report_gone(held, is_lost=self.member.fenced)
        except Exception:
            self._leave()
            raise
        self._leave()
        self._broker.queue.write()

    def _leave(self) -> None:
        with self._broker.lock:
            self._detach()
            if self.member is not None and self.group is not None and not self.member.fenced:
                self._broker.leave(self.group, self.member)
                self.member = None

    def abandon(self) -> None:
        """Stop as a dying process does: no callback runs, and the group has to expire this member."""
        with self._broker.lock:
            self._detach()

    def _detach(self) -> None:
        self._closed = True
        self._drop(list(self._positions))
        self._broker.wake_at_close(self._moved, wanted=False)
        self._wake.notify_all()

    def _check_open(self) -> None:
        self._broker.check_open()
        if self._closed:
            raise TransportError("this consumer is closed")
