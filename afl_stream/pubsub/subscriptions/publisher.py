"""A publisher on an event loop, with a bounded number of unacknowledged records."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple

from afl_stream.outage import Outage
from afl_stream.pubsub.errors import NotAcknowledged, PublishFailed, PubSubError, SubscriptionClosed
from afl_stream.pubsub.subscriptions.encoding import Encoder
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    Producer,
    QueueFull,
    TopicPartition,
    Transport,
    UnknownTopic,
)
from afl_stream.wire.codec import Codec

_log = logging.getLogger(__name__)

#: Records that may be unacknowledged at once, and the bytes of their values.
MAX_IN_FLIGHT: Final = 10_000
MAX_IN_FLIGHT_BYTES: Final = 64 * 1024 * 1024
#: A smaller value is not counted among the bytes: as many as there may be are few.
_LARGE_BYTES: Final = 4_096
#: How soon acknowledgements are looked for while records wait for them: at first, and when they take long.
_FIRST_POLL_S: Final = 0.001
_LONGEST_POLL_S: Final = 0.05
#: How often a topic is looked for before it counts as missing, and the time between two looks.
_LOOKS: Final = 2
_LOOK_AGAIN_S: Final = 0.3
#: Records after which a task that publishes without a wait lets others run.
_TURN_AFTER: Final = 250


class Published(NamedTuple):
    """Where an acknowledged record stands."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    """How a publisher writes. `source` is the sender in CloudEvents headers, a URI reference.

    `close_timeout_s`: how long closing waits for acknowledgements. `outage_timeout_s`: how long the first record for a
    topic waits for a broker; later ones wait as long as the transport's setting says.
    """

    source: str = "/afl-stream/pubsub"
    max_in_flight: int = MAX_IN_FLIGHT
    max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES
    close_timeout_s: float = 30.0
    outage_timeout_s: float = 600.0


_DEFAULTS: Final = PublisherSettings()


class _Outcome:
    """The result of a record that is waited for, in the place of a callback."""

    __slots__ = ("published",)

    def __init__(self, published: asyncio.Future[Published]) -> None:
        self.published = published

    def __call__(self) -> None: ...

    def set(self, place: TopicPartition, offset: int) -> None:
        if not self.published.done():
            self.published.set_result(Published(*place, offset))

    def fail(self, error: Exception) -> None:
        if not self.published.done():
            self.published.set_exception(error)


class Publisher:
    """Publishes to topics: bytes as they are, None as a tombstone, one of our records, any other data as JSON.

    Records of one key that one task publishes are in that order. `publish` returns when the record is queued, and waits
    while too many are unacknowledged; what fails later is raised by the next call. Belongs to one event loop. The
    acknowledgements are taken in on the loop's own thread: by a timer while there are any to come.
    """

    def __init__(
        self, transport: Transport, *, codec: Codec | None = None, settings: PublisherSettings = _DEFAULTS
    ) -> None:
        self._transport = transport
        self._close_timeout_s, self._outage_timeout_s = settings.close_timeout_s, settings.outage_timeout_s
        self._max_in_flight, self._max_in_flight_bytes = settings.max_in_flight, settings.max_in_flight_bytes
        self._encoder = Encoder(settings.source, codec)
        self._producer: Producer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known_topics: set[str] = set()
        self._in_flight = 0
        #: Of the values that are large, or that somebody waits for.
        self._in_flight_bytes = 0
        #: One object for all records: a new one for each, thousands at once, keeps the garbage collector busy.
        self._on_delivered = self._delivered
        #: Records until the other tasks of the event loop have a turn.
        self._until_turn = _TURN_AFTER
        self._timer: asyncio.TimerHandle | None = None
        self._poll_s = _FIRST_POLL_S
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._outcomes: set[_Outcome] = set()
        self._failures: deque[PublishFailed] = deque()
        #: Whether `close` was called: nothing is taken any more.
        self._is_closing = False
        #: The callbacks of records that are acknowledged while the producer closes, on another thread.
        self._late: list[Callable[[], object]] = []
        #: What ends this publisher: a refusal of the transport, or an error of `on_acknowledged`.
        self._end: BaseException | None = None
        #: Whether there is one of these.
        self._is_troubled = False

    async def __aenter__(self) -> Publisher:
        self._loop = asyncio.get_running_loop()
        self._producer = self._transport.producer()
        self._is_closing = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except PubSubError as failure:
            if error is None:
                raise
            # The program ends by its own error.
            _log.warning("%s", failure)

    @property
    def in_flight(self) -> int:
        """How many records are not acknowledged yet."""
        return self._in_flight

    async def publish(
        self,
        topic: str,
        data: object,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        on_acknowledged: Callable[[], object] | None = None,
    ) -> None:
        """Queue a record, after waiting for room; `on_acknowledged` is called when it is durable.

        Raises UnknownTopic and RecordTooLarge, where that is known at once, DataRefused for data without a JSON form,
        and PublishFailed for an earlier record that could not be written.
        """
        producer = self._producer
        if self._is_troubled or self._is_closing or producer is None:
            self._raise_trouble()
            producer = self._producer_for_more()
        self._until_turn -= 1
        if (
            self._until_turn <= 0
            or self._in_flight >= self._max_in_flight
            or self._in_flight_bytes >= self._max_in_flight_bytes
            or topic not in self._known_topics
        ):
            await self._make_room(topic)
            producer = self._producer_for_more()
        raw_key = key.encode() if isinstance(key, str) else key
        if data.__class__ is bytes or data is None:
            value = data
        else:
            if not self._encoder.is_ready_for(topic, data):
                # The topic of schemas or a registry is asked: the other tasks of the loop do not wait for that.
                await asyncio.to_thread(self._encoder.announce, topic, data)
                producer = self._producer_for_more()
            value, headers = self._encoder.encode(topic, data, headers)
        size = 0
        delivered: DeliveryCallback = self._on_delivered
        if on_acknowledged is not None or (value is not None and len(value) >= _LARGE_BYTES):
            size = len(value) if value else 0
            delivered = partial(self._delivered_one, size, on_acknowledged)
        try:
            producer.produce(topic, value, key=raw_key, headers=headers, on_delivery=delivered)
        except QueueFull:
            await self._produce_later(topic, value, raw_key, headers, delivered)
        self._in_flight += 1
        self._in_flight_bytes += size
        if self._timer is None:
            self._start_timer(_FIRST_POLL_S)

    async def publish_and_wait(
        self, topic: str, data: object, *, key: bytes | str | None = None, headers: Headers = ()
    ) -> Published:
        """Publish a record, and return where it stands when it is durable.

        Raises what its delivery failed with, and what `publish` raises.
        """
        outcome = _Outcome(self._opened_loop().create_future())
        await self.publish(topic, data, key=key, headers=headers, on_acknowledged=outcome)
        self._outcomes.add(outcome)
        try:
            self._poll()
            return await outcome.published
        finally:
            self._outcomes.discard(outcome)

    async def flush(self) -> None:
        """Wait until all records are acknowledged. Raises PublishFailed for one that could not be written."""
        await self._wait_until(lambda: not self._in_flight)
        self._raise_trouble()

    async def failure(self) -> None:
        """Wait until a record cannot be written, and raise why; for a program that may not publish again for long."""
        await self._wait_until(lambda: self._is_troubled)
        self._raise_trouble()

    async def close(self) -> None:
        """Wait for the acknowledgements, then close; who still waits for one then gets SubscriptionClosed.

        So does who publishes from now on. Raises PublishFailed for a record that could not be written, and
        NotAcknowledged at the end of the time. A second call does nothing.
        """
        producer = self._producer
        if producer is None or self._is_closing:
            return
        self._is_closing = True
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await self._wait_until(lambda: not self._in_flight)
        except TimeoutError:
            _log.warning("%d records are not acknowledged in %g s", self._in_flight, self._close_timeout_s)
        finally:
            self._producer = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._let_go()
            if self._in_flight:
                # It waits for the broker, which the event loop must not.
                await asyncio.to_thread(producer.close)
            else:
                producer.close()
            late, self._late = self._late, []
            for on_acknowledged in late:
                on_acknowledged()
        self._raise_trouble()
        if self._in_flight:
            raise NotAcknowledged(self._in_flight)

    def _let_go(self) -> None:
        """Tell those who wait for room or for their records that nothing comes any more."""
        for outcome in self._outcomes:
            outcome.fail(SubscriptionClosed("publisher"))
        self._wake()

    def _raise_trouble(self) -> None:
        """Raise what ended this publisher, or the oldest failure of a record."""
        if self._end is not None:
            raise self._end
        if self._failures:
            failure = self._failures.popleft()
            self._is_troubled = bool(self._failures)
            raise failure

    def _producer_for_more(self) -> Producer:
        """Return the producer. Raises SubscriptionClosed from the call of `close` on."""
        if self._is_closing:
            raise SubscriptionClosed("publisher")
        return self._opened_producer()

    def _opened_producer(self) -> Producer:
        if self._producer is None:
            raise SubscriptionClosed("publisher")
        return self._producer

    def _opened_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._producer is None:
            raise SubscriptionClosed("publisher")
        return self._loop

    async def _make_room(self, topic: str) -> None:
        """Look a new topic up, take in acknowledgements, and wait until there is room."""
        if topic not in self._known_topics:
            await self._look_up(topic)
            self._producer_for_more()
        if self._until_turn <= 0:
            self._until_turn = _TURN_AFTER
            self._poll()
            await asyncio.sleep(0)
        if self._in_flight >= self._max_in_flight or self._in_flight_bytes >= self._max_in_flight_bytes:
            await self._wait_until(self._has_room)

    async def _produce_later(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, delivered: DeliveryCallback
    ) -> None:
        """Produce when the producer's own queue has room."""
        while True:
            if self._in_flight:
                await self._wait_until(partial(self._is_below, self._in_flight))
            else:
                # Nothing of ours is in it: another's records fill it.
                self._poll()
                await asyncio.sleep(_LONGEST_POLL_S)
            try:
                self._producer_for_more().produce(topic, value, key=key, headers=headers, on_delivery=delivered)
            except QueueFull:
                continue
            return

    def _delivered(self, error: Exception | None, place: TopicPartition, _offset: int) -> None:
        self._in_flight -= 1
        if error is not None:
            self._failed(place.topic, error, None)

    def _delivered_one(
        self,
        size: int,
        on_acknowledged: Callable[[], object] | None,
        error: Exception | None,
        place: TopicPartition,
        offset: int,
    ) -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= size
        if error is not None:
            self._failed(place.topic, error, on_acknowledged)
        elif on_acknowledged is not None:
            if on_acknowledged.__class__ is _Outcome:
                on_acknowledged.set(place, offset)
            elif self._producer is None:
                self._late.append(on_acknowledged)
            else:
                on_acknowledged()

    async def _look_up(self, topic: str) -> None:
        """Ask for a topic once, on another thread: the transport would do it on this one.

        Waits for a broker. Raises UnknownTopic, and GaveUp when the outage has lasted too long.
        """
        outage = Outage(self._outage_timeout_s)
        looks = 0
        while topic not in self._known_topics:
            self._producer_for_more()
            try:
                found = await asyncio.to_thread(self._transport.admin().topics, [topic])
            except BrokerUnavailable as error:
                await asyncio.sleep(outage.failed(error))
                continue
            outage.over()
            looks += 1
            if topic in found:
                self._known_topics.add(topic)
            elif looks < _LOOKS:
                # Not every broker has heard of a new topic.
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                raise UnknownTopic(topic)

    def _failed(self, topic: str, error: Exception, waiting: object) -> None:
        if isinstance(error, UnknownTopic):
            self._known_topics.discard(topic)
        if isinstance(waiting, _Outcome):
            waiting.fail(error)
            return
        failure = PublishFailed(topic, str(error))
        failure.__cause__ = error
        self._failures.append(failure)
        self._is_troubled = True

    def _is_below(self, in_flight: int) -> bool:
        return self._in_flight < in_flight

    def _has_room(self) -> bool:
        """Return whether so much is acknowledged that publishing is worth while again."""
        return (
            self._in_flight * 4 <= self._max_in_flight * 3
            and self._in_flight_bytes * 4 <= self._max_in_flight_bytes * 3
        )

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until deliveries make the condition true. Raises the transport's refusals, and SubscriptionClosed."""
        loop = self._opened_loop()
        self._poll()
        while not condition():
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
            if self._end is not None:
                raise self._end
            self._opened_producer()

    def _start_timer(self, wait_s: float) -> None:
        self._poll_s = wait_s
        self._timer = self._opened_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._producer is not None:
            served = self._poll()
            if self._in_flight:
                self._start_timer(_FIRST_POLL_S if served else min(2 * self._poll_s, _LONGEST_POLL_S))

    def _poll(self) -> int:
        """Take in the acknowledgements that are here, and return how many."""
        served = 0
        try:
            served = self._opened_producer().poll(0)
        except BaseException as error:  # noqa: BLE001 - raised to the program, which a timer cannot do
            self._end = error
            self._is_troubled = True
        if served or self._end is not None:
            self._wake()
        return served

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
