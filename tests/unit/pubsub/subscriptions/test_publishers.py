"""Publishers whose broker does not answer, and data that cannot be published."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from threading import get_ident
from typing import Any

import pytest

from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedTransport
from afl_stream.pubsub import NotAcknowledged, Publisher, PublisherSettings, SubscriptionClosed
from afl_stream.transport import BrokerUnavailable, DeliveryCallback, Headers, Producer, QueueFull, TopicPartition


class SilentProducer:
    """A producer whose broker never acknowledges. Its queue is full when it holds `limit` records."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        if self._held >= self._limit:
            raise QueueFull(f"{topic}: full")
        self._held += 1

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return self._held

    def close(self) -> None: ...


class SilentTransport(EmbeddedTransport):
    """A cluster that has topics, and acknowledges nothing."""

    def __init__(self, limit: int = 1_000) -> None:
        super().__init__()
        self._limit = limit

    def producer(self) -> Producer:  # type: ignore[override]  # a producer all the same
        return SilentProducer(self._limit)


@pytest.fixture
def transport() -> Iterator[SilentTransport]:
    transport = SilentTransport(limit=3)
    transport.admin().create_topic("t", partitions=1)
    yield transport
    transport.close()


def publisher(transport: EmbeddedTransport, **settings: Any) -> Publisher:
    return Publisher(transport, settings=PublisherSettings(close_timeout_s=0.05, **settings))


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(body, 10.0))


def test_closing_says_that_records_have_no_acknowledgement(transport: SilentTransport) -> None:
    async def body() -> None:
        async with publisher(transport) as opened:
            await opened.publish("t", 1)
            await opened.publish("t", 2)

    with pytest.raises(NotAcknowledged, match="2 records"):
        run(body())


@pytest.mark.parametrize("max_in_flight", [2, 100], ids=["too many in flight", "the producer's queue is full"])
def test_a_task_that_waits_for_room_ends_with_the_publisher(transport: SilentTransport, max_in_flight: int) -> None:
    async def publish_all(opened: Publisher) -> None:
        for number in range(10):
            await opened.publish("t", number)

    async def body() -> None:
        opened = await publisher(transport, max_in_flight=max_in_flight).__aenter__()
        publishing = asyncio.create_task(publish_all(opened))
        while not opened.in_flight:
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(opened.flush())
        with pytest.raises(NotAcknowledged):
            await opened.close()
        for task in (publishing, waiting):
            with pytest.raises(SubscriptionClosed):
                await task

    run(body())


def test_a_task_that_waits_for_its_record_ends_with_the_publisher(transport: SilentTransport) -> None:
    async def body() -> None:
        opened = await publisher(transport).__aenter__()
        publishing = asyncio.create_task(opened.publish_and_wait("t", 1))
        while not opened.in_flight:
            await asyncio.sleep(0.001)
        with pytest.raises(NotAcknowledged):
            await opened.close()
        with pytest.raises(SubscriptionClosed):
            await publishing

    run(body())


def test_a_queue_that_others_fill_does_not_hold_the_event_loop() -> None:
    async def body() -> None:
        transport = SilentTransport(limit=0)
        transport.admin().create_topic("t", partitions=1)
        opened = await publisher(transport).__aenter__()
        publishing = asyncio.create_task(opened.publish("t", 1))
        # Without a turn for others this would never come to its end.
        await asyncio.sleep(0)
        await opened.close()
        with pytest.raises(SubscriptionClosed):
            await publishing
        transport.close()

    run(body())


def test_nothing_is_taken_from_the_call_of_close_on(transport: SilentTransport) -> None:
    async def body() -> None:
        opened = await publisher(transport).__aenter__()
        await opened.publish("t", 1)
        closing = asyncio.create_task(opened.close())
        await asyncio.sleep(0)
        with pytest.raises(SubscriptionClosed):
            await opened.publish("t", 2)
        # Nor does a second call find anything to do.
        await opened.close()
        with pytest.raises(NotAcknowledged, match="1 records"):
            await closing

    run(body())


def test_a_task_whose_topic_is_looked_for_ends_with_the_publisher() -> None:
    class Away(EmbeddedTransport):
        """Its broker can write, and is away for questions."""

        asked = 0

        def admin(self) -> EmbeddedAdmin:
            self.asked += 1
            raise BrokerUnavailable("away")

    async def body() -> None:
        transport = Away()
        opened = await publisher(transport).__aenter__()
        publishing = asyncio.create_task(opened.publish("t", 1))
        while not transport.asked:
            await asyncio.sleep(0.001)
        await opened.close()
        with pytest.raises(SubscriptionClosed):
            await publishing
        transport.close()

    run(body())


def test_callbacks_of_the_last_acknowledgements_run_on_the_event_loop() -> None:
    class LastWords(SilentProducer):
        """Acknowledges when it is closed."""

        callback: DeliveryCallback | None = None

        def produce(self, topic: str, value: bytes | None, **more: Any) -> None:
            self.callback = more["on_delivery"]

        def close(self) -> None:
            assert self.callback is not None
            self.callback(None, TopicPartition("t", 0), 0)

    class Closing(EmbeddedTransport):
        def producer(self) -> Producer:  # type: ignore[override]  # a producer all the same
            return LastWords(1)

    async def body() -> None:
        transport, threads = Closing(), list[int]()
        transport.admin().create_topic("t", partitions=1)
        opened = await publisher(transport).__aenter__()
        await opened.publish("t", 1, on_acknowledged=lambda: threads.append(get_ident()))
        await opened.close()
        assert threads == [get_ident()]
        transport.close()

    run(body())
