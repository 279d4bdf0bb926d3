"""Appends to requests whose events are kept on a topic."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from afl.core.clock import MonotonicClock, epoch_ms, monotonic_s
from afl.core.errors import AFLError
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_text
from afl_stream.errors import EventTooLarge, SchemaUnavailable
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable
from afl_stream.pubsub.event_stores.on_topic_delivery import Delivery, Outgoing
from afl_stream.pubsub.event_stores.on_topic_reader import StateReader
from afl_stream.pubsub.event_stores.on_topic_requests import StateKey, StateRecord
from afl_stream.pubsub.event_stores.records import RecordPlace, placed_record_of
from afl_stream.pubsub.event_stores.store import RequestKey
from afl_stream.pubsub.model.events import StoredEvent
from afl_stream.transport import REFUSALS, RecordTooLarge, TopicPartition, TransportError
from afl_stream.wire.codec import Codec
from afl_stream.wire.topic_events import STATUS, TopicEvent


class TopicAppend(NamedTuple):
    """What is to be appended to a request: see EventStore.append. `context` is a map of JSON."""

    key: RequestKey
    context: Mapping[str, Any]
    first: int
    events: Sequence[StoredEvent]
    status: str

    @property
    def size(self) -> int:
        """About how many bytes it takes: it is not encoded yet."""
        return 1_000 * (1 + len(self.events))


@contextmanager
def speaking(topic: str) -> Iterator[None]:
    """Turn errors of the transport into EventStoreUnavailable. REFUSALS stay as they are: waiting does not help."""
    try:
        yield
    except REFUSALS:
        raise
    except (TransportError, SchemaUnavailable) as error:
        raise EventStoreUnavailable(topic, exception_text(error)) from error


@dataclass(slots=True)
class _Flight:
    """An append on its way."""

    index: int
    append: TopicAppend
    partition: TopicPartition
    id: str
    records: list[Outgoing] = field(default_factory=list)


class _End(NamedTuple):
    """Where a request ends, with the appends that are on their way."""

    events: int = 0
    append: str | None = None
    context: object = None


class Appender:
    """Writes appends to state topics. It is for one thread."""

    def __init__(
        self,
        reader: StateReader,
        delivery: Delivery,
        codec: Codec,
        topic_of: Callable[[str], str],
        *,
        clock_s: MonotonicClock = monotonic_s,
        probe: Probe = no_probe,
    ) -> None:
        self._reader, self._delivery, self._codec, self._topic_of = reader, delivery, codec, topic_of
        self._clock_s, self._probe = clock_s, probe
        #: Appends of this one have ids that no other's have.
        self._own = uuid.uuid4().hex[:12]
        self._count = 0

    def append(self, appends: Sequence[TopicAppend]) -> list[Exception | None]:
        """Append events to requests; return what became of each.

        In this order:
          1. read the partitions of the requests to their ends, unless that was done before,
          2. produce the records of all appends,
          3. wait until they are acknowledged,
          4. read what others have written between them; those count that follow the last append that counts.

        A crash after the first record of an append and before its last leaves records that never count.
        """
        outcomes: list[Exception | None] = [None] * len(appends)
        flights: list[_Flight] = []
        ends: dict[RequestKey, _End] = {}
        began_s = self._clock_s()
        for index, append in enumerate(appends):
            try:
                flights.append(self._prepared(index, append, ends))
            except AFLError as error:
                outcomes[index] = error
        self._delivery.deliver([record for flight in flights for record in flight.records])
        self._probe("state_topic.acknowledged")
        counted, unknown = self._account(flights, began_s)
        for flight in flights:
            if flight.id not in counted:
                failed = next((record.error for record in flight.records if record.error is not None), None)
                outcomes[flight.index] = self._failure(flight, failed or unknown.get(flight.partition))
        return outcomes

    def next_id(self) -> str:
        """Return the id of an append that no other has."""
        self._count += 1
        return f"{self._own}.{self._count:x}"

    def outgoing(self, partition: TopicPartition, append: str, event: TopicEvent) -> Outgoing:
        """Return a record to produce. Raises EventsTooLarge, SchemaUnavailable and ValueRefused."""
        try:
            value = self._codec.encode(event, partition.topic)
        except EventTooLarge as error:
            what = f"event {event.id} of topic {event.topic}"
            raise EventsTooLarge(partition.topic, what, error.size_bytes, error.limit_bytes) from error
        return Outgoing(partition, StateKey(event.request_id, event.number or 0, append), event, value)

    def _prepared(self, index: int, append: TopicAppend, ends: dict[RequestKey, _End]) -> _Flight:
        """Return an append as records. Raises RequestConflict, EventsTooLarge, EventStoreUnavailable, ValueRefused."""
        key, first = append.key, append.first
        topic = self._topic_of(key.workflow)
        with speaking(topic):
            partition = self._reader.partition_of(topic, key.request_id)
            end = ends.get(key)
            if end is None:
                if not self._reader.is_read(partition):
                    self._reader.read(partition, self._clock_s())
                end = self._end_of(partition, key)
                if end.events != first:
                    # Others may have appended to it.
                    self._reader.read(partition, self._clock_s())
                    end = self._end_of(partition, key)
            if end.events != first:
                raise RequestConflict(*key, first, end.events)
            flight = _Flight(index, append, partition, self.next_id())
            flight.records += [
                self.outgoing(partition, flight.id, event) for event in _records_of(append, flight.id, end)
            ]
        ends[key] = _End(first + len(append.events), flight.id, append.context)
        return flight

    def _end_of(self, partition: TopicPartition, key: RequestKey) -> _End:
        state = self._reader.state(partition).request(key.request_id)
        return _End() if state is None else _End(state.events, state.last_append, state.context)

    def _account(self, flights: Sequence[_Flight], began_s: float) -> tuple[set[str], dict[TopicPartition, Exception]]:
        """Do step 4 of `append`: return the appends that count, and by partition why it is not known of others."""
        by_partition: dict[TopicPartition, dict[int, Outgoing]] = {}
        awaited: dict[TopicPartition, set[str]] = {}
        for flight in flights:
            awaited.setdefault(flight.partition, set()).add(flight.id)
            own = by_partition.setdefault(flight.partition, {})
            own |= {record.offset: record for record in flight.records if record.offset >= 0}
        counted: set[str] = set()
        unknown: dict[TopicPartition, Exception] = {}
        for partition, own in by_partition.items():
            state = self._reader.state(partition)
            state.awaited = awaited[partition]
            began_at = state.position
            while (record := own.pop(state.position, None)) is not None:
                # It follows what was read: others have written nothing between.
                size = len(record.value or b"")
                state.apply(StateRecord(record.offset, record.key, record.event, record.at_ms, size))
            self._reader.bound_held()
            try:
                if own or state.position == began_at:
                    with speaking(partition.topic):
                        self._reader.read(partition, self._clock_s())
                else:
                    self._reader.note_end(partition, began_s)
            except AFLError as error:
                unknown[partition] = error
            if self._reader.state(partition) is not state:
                unknown[partition] = EventStoreUnavailable(partition.topic, "it has lost records while it was written")
            counted |= state.counted
            state.awaited, state.counted = set(), set()
        return counted, unknown

    def _failure(self, flight: _Flight, failed: Exception | None) -> Exception:
        """Return why an append does not count, or is not known to."""
        topic, key = flight.partition.topic, flight.append.key
        if failed is None:
            found = self._end_of(flight.partition, key).events
            return RequestConflict(*key, flight.append.first, found)
        if isinstance(failed, RecordTooLarge):
            return EventsTooLarge(topic, f"an event of request {key.request_id}", failed.size, failed.limit or 0)
        if isinstance(failed, (*REFUSALS, EventStoreUnavailable)):
            return failed
        return EventStoreUnavailable(topic, f"request {key.request_id}: {exception_text(failed)}")


def _records_of(append: TopicAppend, append_id: str, end: _End) -> Iterator[TopicEvent]:
    """Yield the records of an append: one for each event, or one for the status alone."""
    context = None if end.context == append.context else append.context
    last = append.first + len(append.events) - 1
    if not append.events:
        yield TopicEvent(
            id=append_id,
            request_id=append.key.request_id,
            kind=STATUS,
            context=context,
            created_at=epoch_ms(),
            status=append.status,
            number=append.first,
            last=append.first,
            after=end.append,
        )
    for number, event in enumerate(append.events, append.first):
        place = RecordPlace(append.key.request_id, append.status, number, last, end.append)
        yield placed_record_of(event, place, context if number == append.first else None)
