"""Reading from Kafka, as a member of a group or on one's own."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition as Place

from afl_stream.kafka_errors import FENCED, ClientLog, Connection, error_of, settings_error, transport_error
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Fenced,
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

#: How long one request may take.
REQUEST_TIMEOUT_S: Final = 10.0
#: How long a look at brokers that were all down may take, and how often one is taken.
_LOOK_S: Final = 1.0

_OUT_OF_RANGE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
#: What passes without anybody's doing, and librdkafka goes on from by itself.
_PASSING: Final = frozenset({
    KafkaError._PARTITION_EOF,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
})  # fmt: skip


class KafkaConsumer:
    """A member of a group, or a reader of its own; see the Consumer port.

    librdkafka's own way to begin where nothing is committed is off: each assigned partition is given its offset here,
    so that a position outside the log is an error and never a silent jump.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        bounds_of: Callable[[TopicPartition], Watermarks],
        *,
        group: str | None,
        incremental: bool,
        start: Start,
    ) -> None:
        """`incremental`: the group moves single partitions (cooperative assignors, the consumer protocol)."""
        self.group = group
        self._connection = connection
        self._bounds_of = bounds_of
        self._incremental = incremental
        self._start = start
        self._listener: RebalanceListener | None = None
        self._assigned: set[TopicPartition] = set()
        #: Assigned by the group, but the listener could not take them yet: silent, and offered again.
        self._unwelcome: list[TopicPartition] = []
        self._paused: set[TopicPartition] = set()
        #: Positions outside the log, until somebody moves them.
        self._outside: dict[TopicPartition, OffsetOutOfRange] = {}
        self._due: deque[Exception] = deque()
        self._failure: BaseException | None = None
        self._revoked: set[TopicPartition] = set()
        self._missing_told: set[str] = set()
        self._next_look_s = 0.0
        self._places: dict[tuple[str, int], TopicPartition] = {}
        self._closed = False
        callbacks = {"error_cb": connection.on_error, "on_commit": self._on_commit}
        try:
            self._client = Client({**settings, **callbacks}, logger=ClientLog())
        except KafkaException as error:
            raise settings_error(error) from error

    # Joining

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Raises TransportError for a consumer without a group, and for a pattern that does not begin with ^."""
        if self.group is None:
            raise TransportError("a consumer without a group cannot subscribe; assign partitions to it")
        wanted = [*topics]
        if pattern is not None:
            if not pattern.startswith("^"):
                raise TransportError(f"Kafka takes a pattern that begins with ^, found {pattern}")
            wanted.append(pattern)
        self._listener = listener
        self._missing_told.clear()
        self._tell_missing(topics)
        try:
            self._client.subscribe(wanted, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        except KafkaException as error:
            raise self._error(error_of(error)) from error

    def _tell_missing(self, topics: Sequence[str]) -> None:
        """librdkafka tells of missing topics in one of the group protocols only."""
        try:
            existing = self._client.list_topics(timeout=REQUEST_TIMEOUT_S).topics if topics else {}
        except KafkaException as error:
            _log.debug("whether all topics are there is not known: %s", error)
            return
        for topic in topics:
            if topic not in existing:
                self._tell_unknown(topic)

    def _tell_unknown(self, topic: str) -> None:
        if topic not in self._missing_told:
            self._missing_told.add(topic)
            self._due.append(UnknownTopic(topic))

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raises TransportError for a member of a group."""
        if self._listener is not None:
            raise TransportError(f"a member of group {self.group} is given its partitions; it cannot assign")
        self._outside.clear()
        self._paused.clear()
        self._client.assign([Place(where.topic, where.partition, offset) for where, offset in positions.items()])
        self._assigned = set(positions)

    # Reading

    def poll(self, timeout_s: float) -> Record | None:
        records = self.consume(1, timeout_s)
        return records[0] if records else None

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Raises OffsetOutOfRange (again and again, until a seek, a pause or a rebalance), BrokerUnavailable,
        NotAuthorized, AuthenticationFailed, BrokerTooOld, UnknownTopic once a topic, and what the listener raises."""
        if self._unwelcome:
            self._welcome_again()
        if self._due:
            raise self._due.popleft()
        if self._outside:
            self._raise_outside(timeout_s)
        messages = self._gather(max_records, timeout_s)
        records = self._sort(messages)
        if self._failure is not None and not records:
            failure, self._failure = self._failure, None
            raise failure
        if records:
            return records
        if self._due:
            raise self._due.popleft()
        self._connection.check()
        if self._connection.is_down:
            self._look()
        return records

    def _gather(self, limit: int, timeout_s: float) -> list[Message[Any, Any]]:
        """Wait for the first, then take what is there: a call for many waits for them all, or its whole time."""
        first = self._client.poll(timeout_s)
        if first is None or limit <= 1 or self._failure is not None:
            return [] if first is None else [first]
        self._revoked.clear()
        rest = self._client.consume(limit - 1, 0)
        if self._revoked and (first.topic(), first.partition()) in self._revoked:
            # It was taken away between the two calls, and comes again to whoever has it now.
            return rest
        return [first, *rest]

    def _sort(self, messages: Iterable[Message[Any, Any]]) -> list[Record]:
        records: list[Record] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._take_error(error, message)
                continue
            records.append(
                Record(
                    topic=message.topic(),  # type: ignore[arg-type]
                    partition=message.partition(),  # type: ignore[arg-type]
                    offset=message.offset(),  # type: ignore[arg-type]
                    key=message.key(),
                    value=message.value(),
                    headers=tuple(message.headers() or ()),  # type: ignore[arg-type]
                    timestamp_ms=message.timestamp()[1],
                )
            )
        if self._unwelcome and records:
            silent = set(self._unwelcome)
            records = [record for record in records if record.topic_partition not in silent]
        return records

    def _take_error(self, error: KafkaError, message: Message[Any, Any]) -> None:
        code, topic, number = error.code(), message.topic() or "", message.partition()
        if code in _PASSING:
            return
        if code in _OUT_OF_RANGE:
            where = TopicPartition(topic, -1 if number is None else number)
            if where in self._assigned:
                self._outside[where] = self._out_of_range(where, message.offset())
                self._due.append(self._outside[where])
            return
        if code == KafkaError._MAX_POLL_EXCEEDED:
            return  # on_lost follows.
        found = transport_error(error, self._connection.address, topic, self.group)
        if isinstance(found, UnknownTopic):
            self._tell_unknown(topic)
        else:
            self._due.append(found)

    def _out_of_range(self, where: TopicPartition, offset: int | None) -> OffsetOutOfRange:
        try:
            bounds = self.watermarks(where)
        except TransportError:
            bounds = Watermarks(low=-1, high=-1)
        return OffsetOutOfRange(where, -1 if offset is None else offset, bounds)

    def _raise_outside(self, timeout_s: float) -> None:
        """Stay in the group, but go on with nothing else before somebody has decided."""
        records = self._sort(self._gather(1, 0.0))
        if records:
            self._client.seek(Place(records[0].topic, records[0].partition, records[0].offset))
        for error in self._outside.values():
            raise error

    def _look(self) -> None:
        """Ask whether a broker is back. Raises BrokerUnavailable."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            raise self._connection.unavailable()
        try:
            self._client.list_topics(timeout=_LOOK_S)
        except KafkaException as error:
            self._next_look_s = time.monotonic() + _LOOK_S
            raise self._connection.unavailable(error_of(error).str()) from error
        self._connection.is_back()

    # Rebalances: called by librdkafka inside poll, consume and close

    def _on_assign(self, client: Client, places: list[Place]) -> None:
        partitions = [TopicPartition(place.topic, place.partition) for place in places]
        try:
            starts = self._starts(partitions)
        except BaseException as error:  # noqa: BLE001 - raised to the caller as soon as librdkafka's call is through
            self._failure = error
            self._unwelcome.extend(partitions)
            self._take(places, {})
            if places:
                client.pause(places)
            return
        self._take(places, starts)
        self._assigned.update(partitions)
        self._speak_again(partitions)

    def _take(self, places: Sequence[Place], starts: Mapping[TopicPartition, int]) -> None:
        begin = [Place(p.topic, p.partition, starts.get((p.topic, p.partition), OFFSET_BEGINNING)) for p in places]  # type: ignore[call-overload]
        if self._incremental:
            self._client.incremental_assign(begin)
        else:
            self._client.assign(begin)

    def _starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each begins: as the listener says, as committed, or as a group without a commit does."""
        given = self._listener.on_assigned(partitions) if self._listener is not None and partitions else None
        starts = dict(given or {})
        rest = [where for where in partitions if where not in starts]
        if rest:
            committed = self.committed(rest)
            begin = OFFSET_BEGINNING if self._start is Start.EARLIEST else OFFSET_END
            starts.update({where: committed[where].offset if where in committed else begin for where in rest})
        return starts

    def _speak_again(self, partitions: Sequence[TopicPartition]) -> None:
        """Being given a partition anew forgets that it was paused."""
        silent = [where for where in partitions if where in self._paused]
        if silent:
            self._client.resume([Place(where.topic, where.partition) for where in silent])
            self._paused.difference_update(silent)

    def _welcome_again(self) -> None:
        """Offer the listener once more what it could not take. Raises what it raises."""
        # A round of its own first: the group may have taken them away meanwhile.
        messages = self._gather(1, 0.0)
        for record in self._sort(messages):
            self._client.seek(Place(record.topic, record.partition, record.offset))
        waiting = list(self._unwelcome)
        starts = self._starts(waiting)
        self._unwelcome.clear()
        places = [Place(where.topic, where.partition, starts[where]) for where in waiting]
        if self._incremental:
            self._client.incremental_unassign([Place(where.topic, where.partition) for where in waiting])
            self._client.incremental_assign(places)
        else:
            self._client.assign(places)
        self._client.resume(places)
        self._assigned.update(waiting)

    def _on_revoke(self, client: Client, places: list[Place]) -> None:
        self._leave(places, None if self._listener is None else self._listener.on_revoked)

    def _on_lost(self, client: Client, places: list[Place]) -> None:
        self._leave(places, None if self._listener is None else self._listener.on_lost)

    def _leave(self, places: Sequence[Place], tell: Callable[[Sequence[TopicPartition]], None] | None) -> None:
        partitions = [TopicPartition(place.topic, place.partition) for place in places]
        held = [where for where in partitions if where in self._assigned]
        try:
            if held and tell is not None:
                tell(held)
        except BaseException as error:  # noqa: BLE001 - raised to the caller as soon as librdkafka's call is through
            self._failure = error
        gone = set(partitions)
        self._revoked |= gone
        self._assigned -= gone
        self._unwelcome = [where for where in self._unwelcome if where not in gone]
        for where in gone:
            self._outside.pop(where, None)

    def _on_commit(self, error: KafkaError | None, places: list[Place]) -> None:
        refused = error if error is not None else next((p.error for p in places if p.error is not None), None)
        if refused is not None and refused.code() != KafkaError._NO_OFFSET:
            _log.warning("group %s: a commit failed: %s", self.group, refused.str())

    # Positions

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._outside.pop(partition, None)
        self._due = deque(e for e in self._due if not (isinstance(e, OffsetOutOfRange) and e.partition == partition))
        place = Place(partition.topic, partition.partition, offset)
        try:
            self._client.seek(place)
        except KafkaException as error:
            if error_of(error).code() != KafkaError._STATE:
                raise self._error(error_of(error), partition.topic) from error
            # Not being read yet: give it a new beginning.
            self._client.incremental_unassign([Place(partition.topic, partition.partition)])
            self._client.incremental_assign([place])

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._client.pause([Place(where.topic, where.partition) for where in partitions])
            self._paused.update(partitions)
            for where in partitions:
                self._outside.pop(where, None)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._client.resume([Place(where.topic, where.partition) for where in partitions])
            self._paused.difference_update(partitions)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Raises Fenced, BrokerUnavailable, NotAuthorized."""
        if self.group is None:
            raise TransportError("a consumer without a group cannot commit")
        places = [Place(w.topic, w.partition, at.offset, metadata=at.metadata) for w, at in offsets.items()]
        try:
            done = self._client.commit(offsets=places, asynchronous=False) if wait else None
            if not wait:
                self._client.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            raise self._commit_error(error_of(error), list(offsets)) from error
        for place in done or ():
            if place.error is not None:
                raise self._commit_error(place.error, list(offsets))

    def _commit_error(self, error: KafkaError, partitions: Sequence[TopicPartition]) -> Exception:
        if error.code() in FENCED:
            return Fenced(partitions)
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            return BrokerUnavailable(f"{self._connection.address}: group {self.group} is rebalancing")
        return self._error(error)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Raises BrokerUnavailable, NotAuthorized."""
        if self.group is None or not partitions:
            return {}
        places = [Place(where.topic, where.partition) for where in partitions]
        try:
            found = self._client.committed(places, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise self._error(error_of(error)) from error
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for place in found:
            if place.error is not None:
                raise self._error(place.error, place.topic)
            if place.offset >= 0:
                where = TopicPartition(place.topic, place.partition)
                offsets[where] = CommittedOffset(offset=place.offset, metadata=place.metadata or "")
        return offsets

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Raises UnknownTopic, BrokerUnavailable, NotAuthorized."""
        return self._bounds_of(partition)

    def _error(self, error: KafkaError, topic: str | None = None) -> Exception:
        return transport_error(error, self._connection.address, topic, self.group)

    # Leaving

    def close(self) -> None:
        """Raises what the listener raised."""
        if self._closed:
            return
        self._closed = True
        try:
            self._client.close()
        except KafkaException as error:
            _log.warning("leaving group %s: %s", self.group, error)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
