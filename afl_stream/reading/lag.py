"""The lag of a reader: how far its partitions' logs are ahead of what it has read, and of what it has committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.monitoring.health import Turns
from afl_stream.transport import Consumer, TopicPartition

#: How often the lag is measured.
LAG_INTERVAL_S: Final = 5.0


class Lag(NamedTuple):
    """The lag of one partition, in offsets: transaction markers count, so it may stay above 0 where all is read."""

    committed: int
    read: int


class LagWatch:
    """Measures the lag now and then. `look` belongs to the thread that reads; any thread may read `lags`."""

    def __init__(self, clock_s: MonotonicClock = monotonic_s) -> None:
        self._clock_s = clock_s
        self._next_s = clock_s()
        #: The lag of each assigned partition, as last measured.
        self.lags: Mapping[TopicPartition, Lag] = {}

    def look(self, consumer: Consumer, next_offset: Callable[[TopicPartition], int | None]) -> None:
        """Measure, unless that was a moment ago; `next_offset` returns where the committed part of a partition ends."""
        now_s = self._clock_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LAG_INTERVAL_S
        lags: dict[TopicPartition, Lag] = {}
        for partition, bounds in consumer.view().bounds.items():
            committed = next_offset(partition)
            at = bounds.low if committed is None else max(committed, bounds.low)
            read = max(at, _position(consumer, partition))
            lags[partition] = Lag(committed=max(0, bounds.high - at), read=max(0, bounds.high - read))
        self.lags = lags

    def by_topic(self) -> dict[str, Lag]:
        """Return the lag of each topic."""
        found: dict[str, Lag] = {}
        for partition, lag in self.lags.items():
            before = found.get(partition.topic, Lag(0, 0))
            found[partition.topic] = Lag(before.committed + lag.committed, before.read + lag.read)
        return found


class ReaderProgress:
    """When a reader has turned last, and how far the logs are ahead of it. Any thread may ask."""

    def __init__(self, clock_s: MonotonicClock = monotonic_s) -> None:
        self.turns, self.lag = Turns(clock_s), LagWatch(clock_s)

    def turned(self, consumer: Consumer, next_offset: Callable[[TopicPartition], int | None]) -> None:
        """Note a turn, and measure the lag now and then."""
        self.turns.turned()
        self.lag.look(consumer, next_offset)


def _position(consumer: Consumer, partition: TopicPartition) -> int:
    return consumer.position(partition) if partition in consumer.assignment() else -1
