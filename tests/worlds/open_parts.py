"""A transport that knows which of its producers and consumers are open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Event

from afl.core.probes import Probe, no_probe
from afl_stream.embedded.consumer import EmbeddedConsumer
from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedBroker, EmbeddedProducer, EmbeddedTransport
from afl_stream.transport import Assignor, RebalanceListener, Start, TopicDescription, TopicPartition, Watermarks
from tests.worlds.hosted import PATIENCE_S


class _Producer(EmbeddedProducer):
    is_open = True
    errors: Mapping[str, Exception]

    def flush(self, timeout_s: float) -> int:
        if "flush" in self.errors:
            raise self.errors["flush"]
        return super().flush(timeout_s)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            if "close" in self.errors:
                raise self.errors["close"]
        super().close()


class _Consumer(EmbeddedConsumer):
    is_open = True
    errors: Mapping[str, Exception]

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        if "subscribe" in self.errors:
            raise self.errors["subscribe"]
        super().subscribe(topics, pattern=pattern, listener=listener)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        if "watermarks" in self.errors:
            raise self.errors["watermarks"]
        return super().watermarks(partition)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.is_open = False


class _Admin(EmbeddedAdmin):
    def __init__(self, broker: EmbeddedBroker, asked: Event, answers: Event) -> None:
        super().__init__(broker)
        self._asked, self._answers = asked, answers

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        self._asked.set()
        assert self._answers.wait(PATIENCE_S)
        return super().topics(names)


class WatchedTransport(EmbeddedTransport):
    """Remembers what it has made. A question for topics waits while `answers` is not set, and sets `asked`.

    `errors`: what is raised instead of an answer, by the name of the call: `flush`, `subscribe`, `watermarks`; and by
    the `close` of a producer, which is closed then all the same.
    """

    def __init__(self, broker: EmbeddedBroker, *, probe: Probe = no_probe) -> None:
        super().__init__(broker, probe=probe)
        self._made: list[_Producer | _Consumer] = []
        self.errors: dict[str, Exception] = {}
        self.asked, self.answers = Event(), Event()
        self.answers.set()

    def producer(self) -> EmbeddedProducer:
        producer = _Producer(self.broker, self._probe, self._queue_limit)
        producer.errors = self.errors
        self._made.append(producer)
        return producer

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> EmbeddedConsumer:
        consumer = _Consumer(self.broker, group, client_id=client_id, assignor=assignor, start=start, probe=self._probe)
        consumer.errors = self.errors
        self._made.append(consumer)
        return consumer

    def admin(self) -> EmbeddedAdmin:
        return _Admin(self.broker, self.asked, self.answers)

    @property
    def made(self) -> int:
        """How many producers and consumers it has made."""
        return len(self._made)

    @property
    def left_open(self) -> list[str]:
        """What was not closed."""
        return [type(each).__name__ for each in self._made if each.is_open]
