"""Records on their way to a state topic, and the wait for their acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from afl.core.clock import MonotonicClock, epoch_ms, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.on_topic_requests import StateKey
from afl_stream.transport import Producer, QueueFull, TopicPartition, Transport, TransportError
from afl_stream.wire.topic_events import TopicEvent

#: How long acknowledgements are waited for, and once the process is to end.
ACKNOWLEDGEMENT_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
#: One wait for them. It ends as soon as one comes.
_SLICE_S: Final = 0.1


@dataclass(slots=True)
class Outgoing:
    """A record on its way; `event` None: a tombstone. `offset` -1: it is not acknowledged."""

    partition: TopicPartition
    key: StateKey
    event: TopicEvent | None
    value: bytes | None
    offset: int = -1
    error: Exception | None = None
    #: When it was produced, in milliseconds since the epoch.
    at_ms: int = 0

    @property
    def is_settled(self) -> bool:
        return self.offset >= 0 or self.error is not None

    def settle(self, error: Exception | None, _partition: TopicPartition, offset: int) -> None:
        """Take what became of it. The producer's `poll` calls this."""
        if error is None:
            self.offset = offset
        else:
            self.error = error


class Delivery:
    """Delivers records, and returns when it is known what became of each. It is for one thread."""

    def __init__(self, transport: Transport, *, clock_s: MonotonicClock = monotonic_s, probe: Probe = no_probe) -> None:
        self._transport = transport
        self._clock_s, self._probe = clock_s, probe
        self._producer: Producer | None = None

    def deliver(self, records: Sequence[Outgoing]) -> None:
        """Produce records in this order, and wait for their acknowledgements. Each has an offset then, or an error."""
        if not records:
            return
        if self._producer is None:
            self._producer = self._transport.producer()
        at_ms = epoch_ms()
        for record in records:
            record.at_ms = at_ms
            try:
                self._produce(self._producer, record)
            except TransportError as error:
                record.error = error
            self._probe("state_topic.produced")
        began_s = self._clock_s()
        waiting = [record for record in records if not record.is_settled]
        while waiting:
            self._producer.poll(_SLICE_S)
            waiting = [record for record in waiting if not record.is_settled]
            waited_s = self._clock_s() - began_s
            if waited_s > ACKNOWLEDGEMENT_S or (PROCESS_STOP.is_set() and waited_s > _LAST_WAIT_S):
                for record in waiting:
                    record.error = EventStoreUnavailable(record.partition.topic, "no acknowledgement came")
                return

    def _produce(self, producer: Producer, record: Outgoing) -> None:
        topic, partition = record.partition
        key = record.key.encode()
        while True:
            try:
                producer.produce(topic, record.value, key=key, partition=partition, on_delivery=record.settle)
            except QueueFull:
                producer.poll(_SLICE_S)
            else:
                return

    def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            self._producer.close()
