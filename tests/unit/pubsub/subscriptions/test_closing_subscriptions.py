"""Subscriptions that are closed while they open, or while a message waits for its schema."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedBroker
from afl_stream.errors import SchemaUnavailable
from afl_stream.pubsub import Message, Subscription, SubscriptionClosed, SubscriptionSettings
from afl_stream.pubsub.subscriptions.settings import OnError
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import BrokerUnavailable
from tests.worlds.hosted import PATIENCE_S, until
from tests.worlds.open_parts import WatchedTransport


@pytest.fixture
def transport() -> Iterator[WatchedTransport]:
    broker = EmbeddedBroker()
    transport = WatchedTransport(broker)
    transport.admin().create_topic("orders", partitions=1)
    yield transport
    transport.close()
    broker.close()


def test_a_subscription_that_is_closed_while_it_waits_for_a_broker_says_so(transport: WatchedTransport) -> None:
    class Away(WatchedTransport):
        def admin(self) -> EmbeddedAdmin:
            self.asked.set()
            raise BrokerUnavailable("away")

    async def scenario() -> None:
        away = Away(transport.broker)
        subscription = Subscription(away, StreamConfig(), "s", topics=("orders",))
        opening = asyncio.create_task(subscription.__aenter__())
        await until(away.asked.is_set)
        async with asyncio.timeout(PATIENCE_S):
            await subscription.close()
            with pytest.raises(SubscriptionClosed, match="subscription s is not open"):
                await opening
        assert away.made
        assert not away.left_open

    asyncio.run(scenario())


def test_who_waits_for_the_schema_of_a_message_ends_with_the_subscription(transport: WatchedTransport) -> None:
    is_asked = asyncio.Event()

    def decode(_message: Message) -> object:
        is_asked.set()
        raise SchemaUnavailable("orders", "the registry is away")

    async def scenario() -> None:
        producer = transport.producer()
        producer.produce("orders", b"1")
        settings = SubscriptionSettings(decode=decode, on_error=OnError.SKIP)
        subscription = Subscription(transport, StreamConfig(), "s", topics=("orders",), settings=settings)

        async def read() -> list[Message]:
            return [message async for message in subscription]

        async with asyncio.timeout(PATIENCE_S):
            async with subscription:
                reading = asyncio.create_task(read())
                await is_asked.wait()
            assert await reading == []
        producer.close()
        assert not transport.left_open

    asyncio.run(scenario())
