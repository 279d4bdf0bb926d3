"""The Kafka consumer: a member of a group, or a reader without one."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from afl_stream.acls import Operation
from afl_stream.kafka.callbacks import weakly
from afl_stream.kafka.error_codes import Decision, decision_of
from afl_stream.kafka.errors import ClientLog, Connection, error_of, is_needless, settings_error, transport_error
from afl_stream.kafka.leaving_groups import hear_rest
from afl_stream.kafka.offsets import GroupOffsets
from afl_stream.kafka.partitions import LOGICAL, Partitions, is_end, offsets_of
from afl_stream.kafka.records import records_of
from afl_stream.kafka.topic_ids import AskIds, TopicIds
from afl_stream.kafka.view import AskBounds, KafkaView
from afl_stream.kafka.waits import LONGEST_CALL_S
from afl_stream.transport import (
    BrokerView,
    CommittedOffset,
    OffsetOutOfRange,
    RebalanceListener,
    Record,
    Start,
    TopicPartition,
    TransportError,
    UnknownTopic,
    Watermarks,
)

_log = logging.getLogger(__name__)


class KafkaConsumer:
    """A member of a group, or a reader without one; see the Consumer port.

    librdkafka's own choice of a start without a committed offset is off: each assigned partition gets its offset here,
    so that a position out of range is an error and never a silent jump.
    """

    def __init__(  # noqa: PLR0913 - wired by the transport alone
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        bounds_of: Callable[[TopicPartition], Watermarks],
        offsets_since: Callable[[Mapping[TopicPartition, int]], dict[TopicPartition, int]],
        ask_ids: AskIds,
        ask_bounds: AskBounds,
        *,
        group: str | None,
        incremental: bool,
        start: Start,
        on_close: Callable[[KafkaConsumer], None] = lambda _consumer: None,
    ) -> None:
        """Create the client. `incremental`: the group moves single partitions; `on_close` is called at the end."""
        self.group = group
        self._connection = connection
        self._bounds_of, self._offsets_since = bounds_of, offsets_since
        self._start = start
        self._on_close = on_close
        self._listener: RebalanceListener | None = None
        self._is_member = self._is_called_back = False
        #: Whether the group keeps the partitions of this member for the one that comes back under its name.
        self._is_static = "group.instance.id" in settings
        self._subscribed: frozenset[str] = frozenset()
        self._assigned: set[TopicPartition] = set()
        #: Assigned by the group, but the listener could not take them yet: paused, and offered again.
        self._pending_assignment: list[TopicPartition] = []
        #: Those of them that the listener already has, and must be called for when they go.
        self._known_to_listener: set[TopicPartition] = set()
        #: Positions out of range, until a seek.
        self._out_of_range: dict[TopicPartition, int] = {}
        self._due: deque[Exception] = deque()
        self._failure: BaseException | None = None
        self._revoked: set[TopicPartition] = set()
        self._missing_reported: set[str] = set()
        self._closed = False
        self._topic_ids = TopicIds(ask_ids, address=connection.address)
        self._offsets = GroupOffsets(group, connection, self._topic_ids)
        callbacks = {"error_cb": connection.on_error, "on_commit": weakly(self._offsets.on_commit)}
        try:
            self._client = Client({**settings, **callbacks}, logger=ClientLog(connection))
        except KafkaException as error:
            raise settings_error(error, connection) from error
        self._offsets.use(self._client)
        self._partitions = Partitions(self._client, incremental=incremental)
        self._view = KafkaView(self._client, ask_bounds, ask_ids)

    # Joining
    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe. Raises TransportError without a group, and for a pattern that does not begin with ^."""
        if self.group is None:
            raise TransportError("a consumer without a group cannot subscribe; assign partitions to it")
        wanted = [*topics]
        if pattern is not None:
            if not pattern.startswith("^"):
                raise TransportError(f"Kafka takes a pattern that begins with ^, found {pattern}")
            wanted.append(pattern)
        self._listener, self._is_member = listener, True
        self._subscribed = frozenset(topics)
        self._missing_reported.clear()
        self._report_missing(topics)
        try:
            assign, revoke, lost = weakly(self._on_assign), weakly(self._on_revoke), weakly(self._on_lost)
            self._client.subscribe(wanted, on_assign=assign, on_revoke=revoke, on_lost=lost)
            self._is_called_back = True
        except KafkaException as error:
            raise self._error(error_of(error)) from error

    def _report_missing(self, topics: Sequence[str]) -> None:
        """Report missing topics, which librdkafka reports in one of the group protocols only."""
        try:
            existing = self._client.list_topics(timeout=LONGEST_CALL_S).topics if topics else {}
        except KafkaException as error:
            _log.debug("could not check whether all topics exist: %s", error)
            return
        for topic in topics:
            if topic not in existing:
                self._report_unknown(topic)

    def _report_unknown(self, topic: str) -> None:
        if topic not in self._missing_reported:
            self._missing_reported.add(topic)
            self._due.append(self._topic_ids.unlisted(topic))

    def assign(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises TransportError for a member of a group."""
        self._check_outside_groups()
        self._out_of_range.clear()
        self._partitions.assign_all(offsets_of(positions))
        self._assigned = set(positions)

    def assign_more(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Assign; see the port. Raises TransportError for a member of a group."""
        self._check_outside_groups()
        self.unassign([partition for partition in positions if partition in self._assigned])
        starts = offsets_of(positions)
        self._partitions.assign_more(starts)
        self._accept(starts)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Unassign; see the port. Raises TransportError for a member of a group."""
        self._check_outside_groups()
        gone = [partition for partition in partitions if partition in self._assigned]
        self._partitions.end(gone)
        self._report_gone(gone, None)
        self._missing_reported.difference_update(partition.topic for partition in gone)

    def _check_outside_groups(self) -> None:
        if self._is_member:
            raise TransportError(f"a member of group {self.group} is given its partitions; it cannot assign")

    # Reading
    def poll(self, timeout_s: float) -> Record | None:
        records = self.consume(1, timeout_s)
        return records[0] if records else None

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Read records. Raises OffsetOutOfRange (again and again, until a seek, a pause or a rebalance),
        BrokerUnavailable, NotAuthorized, AuthenticationFailed, BrokerTooOld, UnknownTopic once a topic, TransportError
        again and again when this member can never continue, and what the listener raises.
        A recreated topic is another topic: its partitions are lost, and assigned to the listener again.
        """
        if self._is_member:
            self._offsets.commit_again()
            if (changes := self._topic_ids.look(self._topics)) is not None:
                self._drop_recreated(changes.recreated)
                for topic in sorted(changes.gone):
                    self._report_unknown(topic)
        if self._pending_assignment:
            self._retry_assignment()
        if self._due:
            raise self._due.popleft()
        if self._out_of_range:
            self._drop_recreated(self._offsets.others(self._out_of_range).recreated)
        if self._out_of_range and not self._out_of_range.keys() <= self._partitions.paused:
            # Stay in the group, but read nothing else before the owner has decided.
            self._stay_in_group()
            self._raise_out_of_range()
        records = self._sort(self._gather(max_records, timeout_s))
        if records:
            return records
        self._raise_failure()
        if self._due:
            raise self._due.popleft()
        if self._out_of_range:
            self._drop_recreated(self._offsets.others(self._out_of_range).recreated)
            self._raise_out_of_range()
        self._connection.check()
        if self._connection.fatal is not None:
            raise self._connection.fatal
        if self._connection.is_down:
            self._look()
        return records

    def _topics(self) -> frozenset[str]:
        return self._subscribed | {partition.topic for partition in self._assigned}

    def _gather(self, limit: int, timeout_s: float) -> list[Message[Any, Any]]:
        """Wait for the first record, then take what is there: one call for many would wait for all of them."""
        try:
            first = self._poll(timeout_s)
            if first is None or limit <= 1 or self._failure is not None:
                return [] if first is None else [first]
            self._revoked.clear()
            rest = self._client.consume(limit - 1, 0)
        except KafkaException as error:
            # The client reports here that it will never work again.
            self._connection.on_error(error_of(error))
            raise self._connection.fatal or self._error(error_of(error)) from error
        if self._revoked and (first.topic(), first.partition()) in self._revoked:
            # It was revoked between the two calls, and comes again to its owner.
            return rest
        return [first, *rest]

    def _poll(self, timeout_s: float) -> Message[Any, Any] | None:
        """Wait for the first record. A member waits on at the end of a log: more will come."""
        deadline_s = time.monotonic() + timeout_s
        first = self._client.poll(timeout_s)
        while first is not None and self._is_member and is_end(first):
            self._partitions.note_end(first)
            first = self._client.poll(max(0.0, deadline_s - time.monotonic()))
        return first

    def _sort(self, messages: Iterable[Message[Any, Any]]) -> list[Record]:
        records = records_of(messages, self._take_error)
        if self._pending_assignment and records:
            paused = set(self._pending_assignment)
            records = [record for record in records if record.topic_partition not in paused]
        return records

    def _take_error(self, error: KafkaError, message: Message[Any, Any]) -> None:
        decision, topic, number = decision_of(error), message.topic() or "", message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            self._partitions.note_end(message)
            return
        if decision in (Decision.PASS, Decision.FENCED) or is_needless(error, self.group):
            # librdkafka retries, or joins again; on_lost reports partitions that were lost meanwhile.
            _log.debug("group %s: %s[%s]: %s", self.group, topic, number, error)
            return
        if decision is Decision.OUT_OF_RANGE:
            partition = TopicPartition(topic, -1 if number is None else number)
            if partition in self._assigned:
                offset = message.offset()
                self._out_of_range[partition] = -1 if offset is None else offset
                self._topic_ids.soon()
            return
        if error.code() == KafkaError._FATAL or error.fatal():
            self._connection.on_error(error)
            return
        found = self._error(error, topic)
        if isinstance(found, UnknownTopic):
            self._report_unknown(topic)
        else:
            self._due.append(found)

    def _raise_out_of_range(self) -> None:
        """Raise OffsetOutOfRange, or the error that hides the log's bounds, so that none are guessed."""
        for partition, offset in self._out_of_range.items():
            if partition not in self._partitions.paused:
                raise OffsetOutOfRange(partition, offset, self.watermarks(partition))

    def _stay_in_group(self) -> None:
        """Take in rebalances without a record, which is read again later. Raises what the listener raised."""
        for record in self._sort(self._gather(1, 0.0)):
            self._move(record.topic_partition, record.offset)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _look(self) -> None:
        self._connection.look(lambda limit_s: self._client.list_topics(timeout=limit_s))

    # Rebalances: called by librdkafka inside poll and consume; inside close for a static member
    def _on_assign(self, _client: Client, tps: list[KafkaPartition]) -> None:
        partitions = [TopicPartition(tp.topic, tp.partition) for tp in tps]
        if self._closed:
            self._partitions.assign(partitions, {})
            return
        self._missing_reported.difference_update(partition.topic for partition in partitions)
        self._topic_ids.soon()
        try:
            starts = self._starts(partitions)
        except BaseException as error:  # noqa: BLE001 - raised to the caller as soon as librdkafka's call is through
            self._failure = error
            self._pending_assignment.extend(partitions)
            self._partitions.assign(partitions, {})
            self._partitions.pause(partitions)
            return
        self._partitions.assign(partitions, starts)
        self._accept({partition: starts[partition] for partition in partitions})

    def _accept(self, starts: Mapping[TopicPartition, int]) -> None:
        self._assigned.update(starts)
        self._known_to_listener.difference_update(starts)
        self._partitions.resume_assigned(starts)

    def _starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where each partition begins: by the listener, by the commit, or as a group without a commit does."""
        self._offsets.note_assigned(partitions)
        given = None
        if self._listener is not None and partitions:
            given = self._listener.on_assigned(partitions)
            self._known_to_listener.update(partitions)
        starts = dict(given or {})
        rest = [partition for partition in partitions if partition not in starts]
        if rest:
            committed = self.committed(rest)
            default_start = LOGICAL[self._start]
            starts.update({tp: committed[tp].offset if tp in committed else default_start for tp in rest})
        return starts

    def _retry_assignment(self) -> None:
        """Assign to the listener again what it could not take. Raises what it raises."""
        # The group may have taken them away meanwhile, or given others.
        self._stay_in_group()
        waiting = list(self._pending_assignment)
        starts = self._starts(waiting)
        for partition in waiting:
            self._move(partition, starts[partition])
        self._pending_assignment.clear()
        self._accept({partition: starts[partition] for partition in waiting})

    def _drop_recreated(self, recreated: frozenset[str]) -> None:
        """Drop recreated topics: the positions in the old ones have no meaning."""
        gone = [partition for partition in sorted(self._assigned) if partition.topic in recreated]
        if not gone:
            return
        self._partitions.pause(gone)
        self._offsets.note_recreated(gone)
        self._report_gone(gone, None if self._listener is None else self._listener.on_lost)
        self._pending_assignment.extend(gone)

    def _on_revoke(self, client: Client, tps: list[KafkaPartition]) -> None:
        # Of a topic that is another one by now nothing may be committed any more.
        found = self._offsets.others(TopicPartition(tp.topic, tp.partition) for tp in tps)
        others = found.recreated | found.gone
        if others:
            self._on_lost(client, [tp for tp in tps if tp.topic in others])
        kept = [tp for tp in tps if tp.topic not in others]
        self._leave(kept, None if self._listener is None else self._listener.on_revoked)

    def _on_lost(self, _client: Client, tps: list[KafkaPartition]) -> None:
        self._leave(tps, None if self._listener is None else self._listener.on_lost)

    def _leave(self, tps: Sequence[KafkaPartition], tell: Callable[[Sequence[TopicPartition]], None] | None) -> None:
        gone = [TopicPartition(tp.topic, tp.partition) for tp in tps]
        self._report_gone(gone, tell)
        self._revoked.update(gone)
        taken = set(gone)
        self._pending_assignment = [partition for partition in self._pending_assignment if partition not in taken]

    def _report_gone(
        self, gone: Sequence[TopicPartition], tell: Callable[[Sequence[TopicPartition]], None] | None
    ) -> None:
        held = [partition for partition in gone if partition in self._assigned or partition in self._known_to_listener]
        try:
            if held and tell is not None:
                tell(held)
        except BaseException as error:  # noqa: BLE001 - raised to the caller as soon as librdkafka's call is through
            self._failure = error
        self._assigned.difference_update(gone)
        self._known_to_listener.difference_update(gone)
        self._offsets.forget(gone)
        self._partitions.forget(gone)
        for partition in gone:
            self._out_of_range.pop(partition, None)

    # Positions
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._move(partition, offset)
        self._out_of_range.pop(partition, None)

    def _move(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._partitions.move(partition, offset)
        except KafkaException as error:
            raise self._error(error_of(error), partition.topic) from error

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._partitions.pause(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._partitions.resume(partitions)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Commit, and retry what is refused. Raises Fenced, BrokerUnavailable, NotAuthorized, UnknownTopic."""
        if wait and self._connection.is_down:
            # librdkafka would wait for a coordinator as long as a session lasts, for each commit.
            self._look()
        self._offsets.commit(offsets, wait=wait)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets. Raises BrokerUnavailable, NotAuthorized."""
        return self._offsets.committed(partitions)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return a partition's bounds. Raises UnknownTopic, BrokerUnavailable, NotAuthorized."""
        return self._bounds_of(partition)

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._offsets_since(times_ms)

    def position(self, partition: TopicPartition) -> int:
        return self._partitions.position(partition)

    def view(self) -> BrokerView:
        paused = {*self._partitions.paused, *self._out_of_range, *self._pending_assignment}
        return self._view.look(self._assigned, paused, self._topics())

    def _error(self, error: KafkaError, topic: str | None = None) -> Exception:
        return transport_error(error, self._connection.address, topic, self.group, Operation.READ)

    def close(self) -> None:
        """Leave the group and close the client. Raises what the listener raised.

        The listener is given no partitions any more: an assignment that waits in the client is heard, and not read.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._is_called_back:
                hear_rest(self._client, is_static=self._is_static)
            self._client.close()
        except KafkaException as error:
            _log.warning("leaving group %s: %s", self.group, error)
        finally:
            self._on_close(self)
        self._raise_failure()
