"""Settings and starts of subscriptions that cannot work are refused with what would be right."""

import asyncio
from datetime import datetime

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.pubsub import Publisher, Since, Subscription, SubscriptionSettings
from afl_stream.pubsub.errors import SubscriptionClosed, SubscriptionInvalid
from afl_stream.settings.config import StreamConfig


def subscription(name: str = "s", start: object = "earliest") -> Subscription:
    return Subscription(EmbeddedTransport(), StreamConfig(prefix="shop."), name, topics=["t"], start=start)  # type: ignore[arg-type]


def test_the_group_is_named_after_the_subscription() -> None:
    named = SubscriptionSettings(group="another")

    assert subscription("audit").group == "shop.pubsub.sub.audit"
    assert Subscription(EmbeddedTransport(), StreamConfig(), "s", topics=["t"], settings=named).group == "another"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 151])
def test_a_name_is_part_of_a_group(name: str) -> None:
    with pytest.raises(SubscriptionInvalid, match="a name has 1 to 150 letters"):
        subscription(name)


@pytest.mark.parametrize("start", ["earliest", "latest", 0, 7, Since(0), {("t", 0): 3}])
def test_a_start_says_where(start: object) -> None:
    subscription(start=start)


@pytest.mark.parametrize("start", ["first", -1, True, 1.5, None])
def test_what_says_no_start_is_refused(start: object) -> None:
    with pytest.raises(SubscriptionInvalid, match="start is earliest, latest, a time, an offset"):
        subscription(start=start)


def test_a_time_says_its_zone() -> None:
    with pytest.raises(SubscriptionInvalid, match="tzinfo=UTC"):
        subscription(start=datetime(2024, 5, 1))


@pytest.mark.parametrize("name", ["max_buffered", "max_buffered_bytes", "window"])
def test_a_buffer_holds_something(name: str) -> None:
    with pytest.raises(SubscriptionInvalid, match=f"{name} is at least 1, found 0"):
        SubscriptionSettings(**{name: 0})  # type: ignore[arg-type]


def test_a_subscription_is_used_inside_its_block() -> None:
    with pytest.raises(SubscriptionClosed, match="subscription s is not open"):
        aiter(subscription())


def test_a_subscription_is_opened_once() -> None:
    transport = EmbeddedTransport()
    transport.admin().create_topic("t", partitions=1)
    once = Subscription(transport, StreamConfig(), "s", topics=["t"])

    async def body() -> None:
        async with once:
            pass
        with pytest.raises(SubscriptionInvalid, match="opened before"):
            await once.__aenter__()

    asyncio.run(body())
    transport.close()


def test_a_publisher_is_used_inside_its_block() -> None:
    async def body() -> None:
        publisher = Publisher(EmbeddedTransport())
        with pytest.raises(SubscriptionClosed, match="publisher is not open"):
            await publisher.publish("t", 1)
        async with publisher:
            pass
        with pytest.raises(SubscriptionClosed):
            await publisher.publish_and_wait("t", 1)

    asyncio.run(body())


@pytest.mark.parametrize(("size", "within_s"), [(0, 1.0), (2, -1.0)])
def test_a_batch_has_a_size_and_a_time(size: int, within_s: float) -> None:
    with pytest.raises(SubscriptionInvalid, match="at least 1"):
        subscription().batch(size, within_s)


def test_batches_have_no_key_to_run_by() -> None:
    async def body() -> None:
        with pytest.raises(SubscriptionInvalid, match="concurrency of 1"):
            await subscription().batch(2).run(print, concurrency=2)

    asyncio.run(body())
