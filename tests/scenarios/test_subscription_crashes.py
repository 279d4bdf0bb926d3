"""A program that reads, maps, publishes and acknowledges dies between two steps; its successor finishes the work."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from afl.core.probes import no_probe
from afl.core.process.crashes import Crash
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.pubsub import Message, OnError, Publisher, PublisherSettings, Subscription, SubscriptionSettings
from afl_stream.pubsub.subscriptions.republishing import republish
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Record, TopicPartition

_COUNT = 30
_KEYS = 4

#: Ours, in the order of a record's way, and those of the transport between them.
_POINTS = [
    "rebalance.before_assign",
    "poll.before_deliver",
    "subscription.read",
    "republishing.taken",
    "produce.before_append",
    "republishing.queued",
    "log.before_write",
    "log.after_write",
    "produce.after_append_before_ack",
    "republishing.acknowledged",
    "subscription.applied",
    "commit.before",
    "commit.after",
    "subscription.committed",
]


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def broker(tmp_path: Path, faults: Faults) -> Iterator[EmbeddedBroker]:
    """Provide a durable broker that outlives its parties, with what is to be republished."""
    broker = EmbeddedBroker(tmp_path / "log.sqlite", probe=faults.probe)
    transport = EmbeddedTransport(broker, probe=no_probe)
    for topic in ("numbers", "doubled", "letters"):
        transport.admin().create_topic(topic, partitions=2)
    producer = transport.producer()
    for number in range(_COUNT):
        producer.produce("numbers", b"%d" % number, key=b"k%d" % (number % _KEYS))
    assert producer.flush(5.0) == 0
    yield broker
    broker.close()


def committed(broker: EmbeddedBroker, name: str) -> int:
    """Return how many records a subscription has committed."""
    return sum(offset.offset for offset in broker.group(f"afl.pubsub.sub.{name}").committed.values())


def doubled(message: Message) -> dict[str, int]:
    return {"doubled": 2 * int(message.value or b"")}


def settings(faults: Faults, **more: Any) -> SubscriptionSettings:
    return SubscriptionSettings(max_buffered=8, commit_interval_s=0.005, probe=faults.probe, **more)


async def until(condition: Callable[[], bool], work: Coroutine[Any, Any, object]) -> None:
    """Let the work go on until the condition holds. Raises what the work does."""
    task = asyncio.create_task(work)
    while not task.done() and not condition():
        await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def republishing_party(broker: EmbeddedBroker, faults: Faults) -> None:
    """Republish until all is committed. Raises Crash: then nothing more happens in the party."""
    transport = EmbeddedTransport(broker, probe=faults.probe)
    source = Subscription(transport, StreamConfig(), "doubler", topics=["numbers"], settings=settings(faults))
    async with Publisher(transport, settings=PublisherSettings(close_timeout_s=0.05)) as publisher, source as numbers:
        try:
            work = republish(numbers.map(doubled), publisher, "doubled", probe=faults.probe)
            await until(lambda: committed(broker, "doubler") == _COUNT, work)
        except Crash:
            transport.abandon()
            raise


async def reading_party(broker: EmbeddedBroker, faults: Faults) -> None:
    """Read messages of which one is unreadable, until all is committed."""
    transport = EmbeddedTransport(broker, probe=faults.probe)
    dead = settings(faults, on_error=OnError.DEAD_LETTER, dead_letter_topic="dead")
    async with Subscription(transport, StreamConfig(), "reader", topics=["letters"], settings=dead) as letters:
        try:
            await until(lambda: committed(broker, "reader") == 3, letters.run(lambda message: message.data))
        except Crash:
            transport.abandon()
            raise


def run_until_finished(party: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run one party after the other, and return how many of them died."""
    for died in range(10):
        try:
            asyncio.run(party())
        except Crash:
            continue
        return died
    raise AssertionError("ten parties have died")


def records_of(broker: EmbeddedBroker, topic: str) -> list[Record]:
    transport = EmbeddedTransport(broker)
    consumer = transport.consumer(None)
    consumer.assign({TopicPartition(topic, number): 0 for number in range(2)})
    return consumer.consume(10_000, 0.0)


@pytest.mark.parametrize("passes", [0, 1, 7])
@pytest.mark.parametrize("point", _POINTS)
def test_everything_is_republished_at_least_once_and_in_order(
    broker: EmbeddedBroker, faults: Faults, point: str, passes: int
) -> None:
    faults.fail_at(point, passes=passes)

    died = run_until_finished(lambda: republishing_party(broker, faults))

    # A later pass may not come, or come when all is committed and the party is leaving.
    assert died == 1 or passes
    # The number of each record's first copy, by its key.
    first_copies: dict[bytes | None, list[int]] = defaultdict(list)
    ids: dict[int, set[object]] = defaultdict(set)
    for record in records_of(broker, "doubled"):
        number = int((record.value or b"").removeprefix(b'{"doubled":').removesuffix(b"}")) // 2
        if not ids[number]:
            first_copies[record.key].append(number)
        ids[number].add(dict(record.headers)["ce_id"])
    assert sorted(ids) == list(range(_COUNT))
    # A second copy says that it is one.
    assert all(len(of_number) == 1 for of_number in ids.values())
    assert {key: sorted(numbers) for key, numbers in first_copies.items()} == {
        b"k%d" % key: list(range(key, _COUNT, _KEYS)) for key in range(_KEYS)
    }
    assert all(numbers == sorted(numbers) for numbers in first_copies.values())


@pytest.mark.parametrize(
    "point", ["produce.before_append", "log.after_write", "unreadable.published", "subscription.applied"]
)
def test_a_dead_letter_is_made_before_its_offset_moves(broker: EmbeddedBroker, faults: Faults, point: str) -> None:
    transport = EmbeddedTransport(broker)
    producer = transport.producer()
    for value in (b"1", b"{", b"3"):
        producer.produce("letters", value, key=b"k", partition=0)
    producer.flush(5.0)
    transport.admin().create_topic("dead", partitions=2)
    faults.fail_at(point)

    died = run_until_finished(lambda: reading_party(broker, faults))

    assert died == 1
    letters = records_of(broker, "dead")
    assert {record.value for record in letters} == {b"{"}
    # A second copy names the same place as the first.
    assert {dict(record.headers)["afl.dlq.offset"] for record in letters} == {b"1"}
    assert 1 <= len(letters) <= 2
