"""Reading as a guest: the holder reads, and calls the guest's listener at each step of a rebalance."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Final

from afl_stream.holder import contents
from afl_stream.holder.frames import Frame
from afl_stream.holder.link import HolderAway, Link
from afl_stream.holder.parties import LONGEST_WAIT_S
from afl_stream.transport import (
    BrokerView,
    CommittedOffset,
    Fenced,
    RebalanceListener,
    Record,
    Start,
    TopicPartition,
    TransportError,
    Watermarks,
)

_log = logging.getLogger(__name__)

_NOTHING_RETURNED: Final[Mapping[str, Any]] = {"returns": None}


class GuestConsumer:
    """A member of a group, or a reader without one, through the holder's socket; see the Consumer port.

    While there is no holder, reading raises HolderAway. With the next one a member joins again: it has lost its
    partitions, and on_lost says so; what it had not committed comes again. A reader without a group goes on where it
    stood.
    """

    def __init__(self, link: Link, group: str | None, on_close: Callable[[GuestConsumer], None]) -> None:
        self.group = group
        self._link = link
        self._on_close = on_close
        self._lock = RLock()
        self._subscription: tuple[tuple[str, ...], str | None] | None = None
        self._listener: RebalanceListener | None = None
        #: The connection on which it has joined, or assigned its partitions.
        self._joined = 0
        #: What it reads: a member's partitions, and where a reader without a group goes on with another holder.
        self._held: dict[TopicPartition, int | Start] = {}
        self._paused: set[TopicPartition] = set()
        #: The error of the guest's own listener, on its way to the caller of `consume`.
        self._failure: BaseException | None = None
        self._closed = False

    # Joining

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe; see the port. Without a holder it is done with the next one.

        Raises AssignorMismatch, and TransportError for a consumer without a group.
        """
        if self.group is None:
            raise TransportError("a consumer without a group cannot subscribe; assign partitions to it")
        with self._lock:
            self._check_open()
            self._listener = listener
            is_first, self._subscription = self._subscription is None, (tuple(topics), pattern)
            if is_first:
                self._held.clear()
            with suppress(HolderAway):
                if not self._be_there():
                    self._request("subscribe", topics=list(topics), pattern=pattern)

    def assign(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises UnknownTopic, UnknownPartition, HolderAway."""
        self._assign(positions, more=False)

    def assign_more(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises UnknownTopic, UnknownPartition, HolderAway."""
        self._assign(positions, more=True)

    def _assign(self, positions: Mapping[TopicPartition, int | Start], *, more: bool) -> None:
        with self._lock:
            self._check_outside_groups()
            self._be_there()
            answer = self._request("assign", starts=contents.starts_out(positions), more=more)
            if not more:
                self._held.clear()
                self._paused.clear()
            self._held.update(contents.numbers_in(answer.head["ok"]))
            self._paused.difference_update(positions)
            self._joined = self._link.generation

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Unassign; see the port. Raises TransportError for a member of a group."""
        with self._lock:
            self._check_outside_groups()
            for partition in partitions:
                self._held.pop(partition, None)
                self._paused.discard(partition)
            if self._is_joined():
                with suppress(HolderAway):
                    self._request("unassign", partitions=contents.partitions_out(partitions))

    def _check_outside_groups(self) -> None:
        self._check_open()
        if self._subscription is not None:
            raise TransportError(f"a member of group {self.group} is given its partitions; it cannot assign")

    def _be_there(self) -> bool:
        """Connect, and join again if that is another connection; return whether it has just joined.

        Raises HolderAway, and what joining raises.
        """
        self._link.connect()
        if self._is_joined():
            return False
        if self._subscription is not None:
            lost = sorted(self._held)
            self._held.clear()
            self._paused.clear()
            if lost and self._listener is not None:
                self._listener.on_lost(lost)
            topics, pattern = self._subscription
            self._request("subscribe", topics=list(topics), pattern=pattern)
        elif self._held:
            answer = self._request("assign", starts=contents.starts_out(self._held), more=False)
            self._held.update(contents.numbers_in(answer.head["ok"]))
            if self._paused:
                self._request("pause", partitions=contents.partitions_out(sorted(self._paused)))
        self._joined = self._link.generation
        return True

    def _is_joined(self) -> bool:
        return self._joined == self._link.generation and self._link.is_up

    # Reading

    def poll(self, timeout_s: float) -> Record | None:
        records = self.consume(1, timeout_s)
        return records[0] if records else None

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Read records; see the port.

        Raises OffsetOutOfRange, HolderAway, and UnknownTopic once for a topic that does not exist.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._check_open()
                self._be_there()
                wait_s = min(max(0.0, deadline_s - time.monotonic()), LONGEST_WAIT_S)
                answer = self._request("consume", max_records=max_records, timeout_s=wait_s, wait_s=wait_s)
                records = contents.records_in(answer.head["ok"], answer.body)
                for record in records:
                    self._held[record.topic_partition] = record.offset + 1
            if records or time.monotonic() >= deadline_s:
                return records

    def _request(self, action: str, *, wait_s: float = 0.0, **arguments: Any) -> Frame:
        """Ask the holder. Raises HolderAway, its error, or what the guest's own listener raised meanwhile."""
        try:
            return self._link.request({"do": action, **arguments}, wait_s=wait_s, on_call=self._called)
        except TransportError:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure from None
            raise

    def _called(self, frame: Frame) -> None:
        """Run the listener as the holder asks, and tell it the outcome. Raises HolderAway."""
        partitions = contents.partitions_in(frame.head["partitions"])
        try:
            answer = self._run_listener(frame.head["call"], partitions)
        except BaseException as error:  # noqa: BLE001 - it goes on to the caller, once the holder has taken it back
            self._failure = error
            self._forget(partitions)
            answer = {"failed": True}
        self._link.send(answer)

    def _run_listener(self, step: str, partitions: list[TopicPartition]) -> Mapping[str, Any]:
        listener = self._listener
        if step == "assigned":
            self._held.update(dict.fromkeys(partitions, 0))
            starts = None if listener is None else listener.on_assigned(partitions)
            return _NOTHING_RETURNED if starts is None else {"returns": contents.numbers_out(starts)}
        if step == "lost":
            self._forget(partitions)
            if listener is not None:
                listener.on_lost(partitions)
        else:
            if listener is not None:
                listener.on_revoked(partitions)
            self._forget(partitions)
        return _NOTHING_RETURNED

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._held.pop(partition, None)
            self._paused.discard(partition)

    # Positions

    def assignment(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._held)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Move the position. Raises NotAssigned, UnknownTopic. Without a holder, a member has lost the partition."""
        with self._lock:
            if self._is_joined():
                self._request("seek", partition=list(partition), offset=offset)
            if partition in self._held:
                self._held[partition] = offset

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Pause partitions. Raises NotAssigned."""
        with self._lock:
            if self._is_joined():
                self._request("pause", partitions=contents.partitions_out(partitions))
            self._paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Resume partitions. Raises NotAssigned."""
        with self._lock:
            if self._is_joined():
                self._request("resume", partitions=contents.partitions_out(partitions))
            self._paused.difference_update(partitions)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Commit; see the port. A member whose holder is gone has lost its partitions: its commit is refused.

        Raises with `wait` Fenced, UnknownTopic and HolderAway; else what is not committed comes again.
        """
        with self._lock:
            self._check_open()
            try:
                if self._subscription is not None and not self._is_joined():
                    raise Fenced(sorted(offsets))
                self._link.connect()
                self._request("commit", offsets=contents.committed_out(offsets), wait=wait)
            except (HolderAway, Fenced) as error:
                if wait:
                    raise
                _log.debug("a commit was not made: %s", error)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group has committed. Raises HolderAway."""
        answer = self._ask("committed", partitions=contents.partitions_out(partitions))
        return contents.committed_in(answer.head["ok"])

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return a partition's bounds. Raises UnknownTopic, UnknownPartition, HolderAway."""
        return contents.bounds_in(self._ask("watermarks", partition=list(partition)).head["ok"])

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        answer = self._ask("offsets_for_times", times=contents.numbers_out(times_ms))
        return contents.numbers_in(answer.head["ok"])

    def _ask(self, action: str, **arguments: Any) -> Frame:
        """Ask what needs no partitions of one's own."""
        with self._lock:
            self._check_open()
            self._link.connect()
            return self._request(action, **arguments)

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset to read. Raises NotAssigned, HolderAway."""
        with self._lock:
            self._check_open()
            if not self._is_joined() and self._subscription is None:
                self._be_there()
            return int(self._ask("position", partition=list(partition)).head["ok"])

    def view(self) -> BrokerView:
        with self._lock:
            try:
                if self._is_joined():
                    return contents.view_in(self._request("view").head["ok"])
            except TransportError as error:
                _log.debug("the holder's view is not known: %s", error)
            since_s = self._link.away_since_s
            return BrokerView(unanswered_s=0.0 if since_s is None else time.monotonic() - since_s)

    # Leaving

    def close(self) -> None:
        """Leave the group; without a holder there is none to leave. Raises what the listener raises."""
        with self._lock:
            if self._closed:
                return
            try:
                if self._is_joined():
                    with suppress(HolderAway):
                        self._request("close")
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Stop as a dying process does: no callback runs, and the holder notices."""
        self._closed = True
        self._held.clear()
        self._link.close()
        self._on_close(self)

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError("this consumer is closed")
