"""The reading of state topics: partition by partition, to its end, and what was read is not read again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.acls import unlisted
from afl_stream.errors import NewerFormat, Unreadable
from afl_stream.limits import MAX_HELD_EVENT_BYTES
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.on_topic_requests import PartitionState, StateKey, StateRecord, state_key_of
from afl_stream.transport import (
    Consumer,
    OffsetOutOfRange,
    Record,
    TopicDescription,
    TopicPartition,
    Transport,
    is_another_topic,
)
from afl_stream.wire.codec import Codec
from afl_stream.wire.topic_events import TopicEvent

_log = logging.getLogger(__name__)

#: How much one step of a read takes, so that appends are served between them.
_STEP_RECORDS: Final = 2_000
_STEP_S: Final = 0.1
#: How long a read may go without a record.
READ_TIMEOUT_S: Final = 30.0
#: How long a read may still take once the process is to end.
_LAST_WAIT_S: Final = 5.0
#: Asking for a topic's id costs a request, and topics are rarely recreated.
_LOOK_INTERVAL_S: Final = 10.0


class _Progress:
    """The progress of a read, which ends when none is made, or the process is to end."""

    def __init__(self, partition: TopicPartition, clock_s: MonotonicClock) -> None:
        self._partition = partition
        self._clock_s = clock_s
        self._position = -1
        self._began_s = self._last_s = clock_s()

    def check(self, position: int) -> None:
        """Note how far it is. Raises EventStoreUnavailable."""
        now_s = self._clock_s()
        if position > self._position:
            self._last_s, self._position = now_s, position
        name = f"{self._partition.topic}[{self._partition.partition}]"
        if now_s - self._last_s > READ_TIMEOUT_S:
            raise EventStoreUnavailable(name, f"nothing came for {READ_TIMEOUT_S:g} s at offset {position}")
        if PROCESS_STOP.is_set() and now_s - self._began_s > _LAST_WAIT_S:
            raise EventStoreUnavailable(name, "it is not read to its end: the process was told to end")


class StateReader:
    """The partitions of state topics as far as they are read. It is for one thread."""

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        *,
        max_held_bytes: int = MAX_HELD_EVENT_BYTES,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._transport, self._codec = transport, codec
        self._max_held_bytes = max_held_bytes
        self._clock_s = clock_s
        #: For the bounds of partitions.
        self._asker: Consumer | None = None
        #: For the records of those that are being read. It is closed when they are: a consumer that waits at the end of
        #: a log waits for half a second, and reads nothing else meanwhile.
        self._consumer: Consumer | None = None
        self._topics: dict[str, tuple[TopicDescription, float]] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        #: When the end was asked for up to which a partition is read.
        self._read_s: dict[TopicPartition, float] = {}
        #: Records that hold no event of ours and were not reported: how many, the first offset, and what it was.
        self._strange: dict[TopicPartition, tuple[int, int, str]] = {}
        #: Of the partitions that are being read: the end, and when it was asked for.
        self._reading: dict[TopicPartition, tuple[int, float]] = {}

    def partition_of(self, topic: str, request_id: str) -> TopicPartition:
        """Return where the records of a request are: its id decides, as on the workflow's other topics.

        Raises UnknownTopic.
        """
        return TopicPartition(topic, partition_for(request_id.encode(), self.partitions(topic)))

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions. Raises UnknownTopic."""
        found = self._topics.get(topic)
        return (found[0] if found is not None else self._look(topic)).partitions

    def known(self) -> list[TopicPartition]:
        """Return the partitions that were read."""
        return list(self._states)

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return what is known of a partition, without asking for more."""
        return self._states[partition]

    def is_read(self, partition: TopicPartition) -> bool:
        return partition in self._states and partition not in self._reading

    def note_end(self, partition: TopicPartition, at_s: float) -> None:
        """Note that everything is known that the partition held at this time."""
        self._read_s[partition] = max(at_s, self._read_s.get(partition, at_s))

    def read(self, partition: TopicPartition, asked_s: float) -> PartitionState:
        """Read a partition to the end that it has now; not when it was read since `asked_s`.

        Raises EventStoreUnavailable when nothing comes, EventStoreUnusable for records of a newer release, and what the
        transport raises.
        """
        progress = _Progress(partition, self._clock_s)
        while not self.read_steps([partition], asked_s):
            state = self._states.get(partition)
            progress.check(-1 if state is None else state.position)
        return self._states[partition]

    def read_steps(self, partitions: Iterable[TopicPartition], asked_s: float) -> bool:
        """Read some of these partitions; return whether all of them are read to the end that they had at `asked_s`.

        Raises as `read` does.
        """
        wanted = [each for each in partitions if self._read_s.get(each, -1.0) < asked_s]
        for partition in wanted:
            if partition not in self._reading:
                self._begin(partition)
        if self._consumer is not None:
            try:
                self._read_some(self._consumer)
            except OffsetOutOfRange as error:
                self._lose(error.partition, f"it holds {error.bounds.low} to {error.bounds.high}")
            except BaseException:
                # The consumer has passed what was not taken.
                for each in list(self._reading):
                    self._end(each)
                raise
        return all(self._read_s.get(each, -1.0) >= asked_s for each in wanted)

    def _read_some(self, consumer: Consumer) -> None:
        self._apply(consumer.consume(_STEP_RECORDS, _STEP_S))
        for partition, (end, begun_s) in list(self._reading.items()):
            state = self._states[partition]
            # The offsets of records would not do: a log may end without a record.
            state.position = max(state.position, consumer.position(partition))
            if state.position >= end:
                self._end(partition)
                self.note_end(partition, begun_s)

    def records(self, partition: TopicPartition, first: int, last: int) -> Iterator[tuple[StateKey, Record]]:
        """Yield the records from one offset to another, with their keys; those of strangers are left out.

        The partition was read to its end. Raises as `read`.
        """
        consumer = self._transport.consumer(None)
        progress = _Progress(partition, self._clock_s)
        try:
            consumer.assign({partition: first})
            while consumer.position(partition) <= last:
                for record in consumer.consume(_STEP_RECORDS, _STEP_S):
                    if record.offset <= last and (key := state_key_of(record.key)) is not None:
                        yield key, record
                progress.check(consumer.position(partition))
        finally:
            consumer.close()

    def request_records(
        self, partition: TopicPartition, request_id: str, first: int, last: int
    ) -> Iterator[StateRecord]:
        """Yield the records of a request from one offset to another. Raises as `read`."""
        for key, record in self.records(partition, first, last):
            if key.request_id == request_id and (decoded := self._decoded(record)) is not None:
                yield decoded
        # They were reported when the partition was read.
        self._strange.clear()

    def forget(self, partition: TopicPartition) -> None:
        """Drop what is known of a partition."""
        self._end(partition)
        self._states.pop(partition, None)
        self._read_s.pop(partition, None)

    def close(self) -> None:
        """Close the consumers."""
        for consumer in (self._asker, self._consumer):
            if consumer is not None:
                consumer.close()

    def _begin(self, partition: TopicPartition) -> None:
        now_s = self._clock_s()
        described, looked_s = self._topics.get(partition.topic, (None, 0.0))
        if described is None or now_s - looked_s > _LOOK_INTERVAL_S:
            found = self._look(partition.topic)
            if described is not None and is_another_topic(described.topic_id, found.topic_id):
                for each in [each for each in self._states if each.topic == partition.topic]:
                    self._lose(each, "it was deleted and created again")
        if self._asker is None:
            self._asker = self._transport.consumer(None)
        bounds = self._asker.watermarks(partition)
        state = self._states.get(partition)
        if state is not None and not bounds.low <= state.position <= bounds.high and state.position:
            self._lose(partition, f"it holds {bounds.low} to {bounds.high}, and was read up to {state.position}")
            state = None
        if state is None:
            state = self._states[partition] = PartitionState(bounds.low)
        if state.position >= bounds.high:
            self.note_end(partition, now_s)
            return
        if self._consumer is None:
            self._consumer = self._transport.consumer(None)
        self._reading[partition] = (bounds.high, now_s)
        self._consumer.assign_more({partition: state.position})

    def _end(self, partition: TopicPartition) -> None:
        if self._reading.pop(partition, None) is not None and self._consumer is not None:
            self._consumer.unassign([partition])
            if not self._reading:
                self._consumer.close()
                self._consumer = None

    def _lose(self, partition: TopicPartition, found: str) -> None:
        _log.error(
            "%s[%d] lacks records that it had: %s; what it says about requests is read again from its beginning",
            *partition,
            found,
        )
        self.forget(partition)

    def _look(self, topic: str) -> TopicDescription:
        found = self._transport.admin().topics([topic]).get(topic)
        if found is None:
            raise unlisted(self._transport.admin(), topic)
        self._topics[topic] = found, self._clock_s()
        return found

    def _apply(self, records: list[Record]) -> None:
        for record in records:
            state = self._states.get(record.topic_partition)
            # Our own appends are known before they are read.
            if state is None or record.offset < state.position:
                continue
            decoded = self._decoded(record)
            if decoded is not None:
                state.apply(decoded)
            state.position = record.offset + 1
        self._tell_of_strangers()
        self.bound_held()

    def bound_held(self) -> None:
        """Drop what is held of requests beyond the bound. It is read again when somebody asks for it."""
        while sum(state.held_bytes for state in self._states.values()) > self._max_held_bytes:
            max(self._states.values(), key=lambda state: state.held_bytes).drop_held()

    def _decoded(self, record: Record) -> StateRecord | None:
        """Return a record; None when it holds no event of ours, which is counted. Raises EventStoreUnusable."""
        key = state_key_of(record.key)
        try:
            event = None if record.value is None else self._codec.decode(record.value, record.headers)
        except NewerFormat as error:
            raise EventStoreUnusable(record.topic, str(error)) from error
        except Unreadable as error:
            self._pass_over(record, str(error))
            return None
        if key is None or (event is not None and not isinstance(event, TopicEvent)):
            self._pass_over(record, "it is none of ours")
            return None
        return StateRecord(record.offset, key, event, record.timestamp_ms, len(record.value or b""))

    def _pass_over(self, record: Record, reason: str) -> None:
        count, first, why = self._strange.get(record.topic_partition, (0, record.offset, reason))
        self._strange[record.topic_partition] = count + 1, first, why

    def _tell_of_strangers(self) -> None:
        """Log what was passed over since the last time, a line for each partition: there may be many of them."""
        for partition, (count, first, reason) in self._strange.items():
            _log.warning(
                "%s[%d]: %d records hold no events of requests, the first of them at offset %d: %s",
                *partition,
                count,
                first,
                reason,
            )
        self._strange.clear()
