"""Processes that republish a topic on a real broker: killed at each step, joined and left; and new topics in time."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub import Message, Publisher, PublisherSettings, Subscription, SubscriptionSettings
from afl_stream.settings.config import KafkaSettings, StreamConfig, load_config
from afl_stream.transport import Start, TopicPartition
from tests.contract.subscription_contract import came, first, run, values
from tests.eventually import eventually
from tests.tiers import some_now
from tests.worlds.processes import DEADLINE_S, Party, Processes

_KEYS = 20
_PARTITIONS = 6
#: Notices a dead member soon; the test broker allows it.
_SOON = {"AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "6000", "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "500"}


class Republishing:
    """Two topics of a deployment of its own, and processes that republish the one to the other."""

    def __init__(self, bootstrap: str, prefix: str, processes: Processes) -> None:
        self.environment = {"AFL_KAFKA_BOOTSTRAP": bootstrap, "AFL_PREFIX": prefix, **_SOON}
        self.source, self.target = f"{prefix}numbers", f"{prefix}doubled"
        self.config = load_config(environ=self.environment)
        self.transport = KafkaTransport(self.config)
        for topic in (self.source, self.target):
            self.transport.admin().create_topic(topic, partitions=_PARTITIONS)
        self._processes = processes

    def write(self, count: int) -> None:
        producer = self.transport.producer()
        for number in range(count):
            producer.produce(self.source, b"%d" % number, key=b"k%d" % (number % _KEYS))
        assert producer.flush(30.0) == 0

    def start(self, *options: str) -> Party:
        words = ["tests.worlds.republishing_process", self.source, self.target, *options]
        return self._processes.start("republishing", *words, environment=self.environment)

    def committed(self) -> int:
        consumer = self.transport.consumer(f"{self.config.prefix}pubsub.sub.doubler")
        try:
            partitions = [TopicPartition(self.source, number) for number in range(_PARTITIONS)]
            return sum(offset.offset for offset in consumer.committed(partitions).values())
        finally:
            consumer.close()

    def published(self) -> list[Message]:
        """Read all that was published up to now."""

        async def body() -> list[Message]:
            reader = Subscription(self.transport, self.config, "judge", topics=[self.target])
            found: list[Message] = []
            ends = self.transport.consumer(None)
            count = sum(ends.watermarks(TopicPartition(self.target, number)).high for number in range(_PARTITIONS))
            async with reader:
                found += await first(count, reader)
            return found

        return run(body())

    def check(self, count: int) -> int:
        """Check that all is published, in the order of each key; return the number of second copies."""
        copies: dict[int, list[str | None]] = defaultdict(list)
        in_order: dict[bytes | None, list[int]] = defaultdict(list)
        for message in self.published():
            number = json.loads(message.value or b"")["doubled"] // 2
            if number not in copies:
                in_order[message.key].append(number)
            copies[number].append(message.header("ce_id"))
        assert sorted(copies) == list(range(count))
        assert all(len(set(ids)) == 1 for ids in copies.values())
        assert all(numbers == sorted(numbers) for numbers in in_order.values())
        return sum(len(ids) - 1 for ids in copies.values())


@pytest.fixture
def republishing(kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path) -> Iterator[Republishing]:
    with Processes(tmp_path) as processes:
        world = Republishing(kafka_bootstrap, kafka_prefix, processes)
        yield world
        world.transport.close()


@pytest.mark.parametrize(
    "point",
    some_now(
        [
            "republishing.acknowledged",
            "subscription.applied",
            "subscription.read",
            "republishing.taken",
            "republishing.queued",
            "subscription.committed",
        ],
        2,
    ),
)
def test_a_process_that_is_killed_at_any_step_is_followed_by_one_that_finishes(
    republishing: Republishing, point: str
) -> None:
    count = 2_000
    republishing.write(count)

    republishing.start("--die-at", point, "--passes", "1").when_dead()
    successor = republishing.start().when_ready()
    eventually(lambda: successor.check_alive() and republishing.committed() == count, DEADLINE_S, interval_s=0.2)
    successor.ask_to_stop()
    assert successor.exit_code() == 0

    republishing.check(count)


def test_processes_that_come_and_are_killed_share_the_partitions_and_lose_nothing(republishing: Republishing) -> None:
    count = 20_000
    republishing.write(count)

    one, other = republishing.start().when_ready(), republishing.start()
    eventually(lambda: republishing.committed() > count // 10, DEADLINE_S, interval_s=0.05)
    one.kill()
    other.when_ready()
    third = republishing.start().when_ready()
    eventually(lambda: republishing.committed() == count, DEADLINE_S, interval_s=0.2)
    for party in (other, third):
        party.ask_to_stop()
        assert party.exit_code() == 0

    republishing.check(count)


def test_a_member_that_leaves_in_good_order_causes_no_second_copy(republishing: Republishing) -> None:
    count = 5_000
    republishing.write(count)

    one = republishing.start().when_ready()
    eventually(lambda: republishing.committed() > 0, DEADLINE_S, interval_s=0.02)
    one.ask_to_stop()
    assert one.exit_code() == 0
    other = republishing.start().when_ready()
    eventually(lambda: republishing.committed() == count, DEADLINE_S, interval_s=0.2)
    other.ask_to_stop()
    assert other.exit_code() == 0

    assert republishing.check(count) == 0


@pytest.mark.parametrize("protocol", some_now(["classic", "consumer"], 1))
def test_the_first_record_of_a_new_topic_is_seen_in_15_s_with_the_settings_as_they_are(
    kafka_bootstrap: str, kafka_prefix: str, protocol: str
) -> None:
    config = StreamConfig(prefix=kafka_prefix, kafka=KafkaSettings(bootstrap=kafka_bootstrap, group_protocol=protocol))
    transport = KafkaTransport(config)
    transport.admin().create_topic(f"{kafka_prefix}orders.old", partitions=1)

    async def body() -> tuple[list[Message], float]:
        pattern = f"{kafka_prefix}orders.*"
        async with Subscription(transport, config, "late", pattern=pattern, start=Start.LATEST) as reader:
            await came(lambda: reader.partitions)
            transport.admin().create_topic(f"{kafka_prefix}orders.new", partitions=1)
            producer = transport.producer()
            producer.produce(f"{kafka_prefix}orders.new", b"first")
            assert producer.flush(10.0) == 0
            created_s = time.monotonic()
            return await first(1, reader), time.monotonic() - created_s

    messages, took_s = run(body())
    transport.close()
    assert values(messages) == [b"first"]
    assert took_s < 15.0


def test_headers_of_any_bytes_are_delivered(kafka_bootstrap: str, kafka_prefix: str) -> None:
    config = StreamConfig(prefix=kafka_prefix, kafka=KafkaSettings(bootstrap=kafka_bootstrap))
    transport = KafkaTransport(config)
    topic = f"{kafka_prefix}odd"
    transport.admin().create_topic(topic, partitions=1)
    # Names that are not UTF-8 no client library writes: tests/integration/kafka/test_any_record_on_kafka.py has them.
    client = Producer({"bootstrap.servers": kafka_bootstrap})
    client.produce(topic, b"1", headers=[("raw", b"\xff\x00"), ("null", None)])
    assert client.flush(10.0) == 0

    async def body() -> Message:
        settings = SubscriptionSettings(commits=False)
        async with Subscription(transport, config, "odd", topics=[topic], settings=settings) as reader:
            return (await first(1, reader))[0]

    message = run(body())
    transport.close()
    assert message.headers == (("raw", b"\xff\x00"), ("null", None))
    assert message.header("raw") == "\ufffd\x00"


def test_a_publisher_waits_while_the_broker_acknowledges_slowly(kafka_bootstrap: str, kafka_prefix: str) -> None:
    config = StreamConfig(
        prefix=kafka_prefix, kafka=KafkaSettings(bootstrap=kafka_bootstrap, producer={"linger.ms": "50"})
    )
    transport = KafkaTransport(config)
    topic = f"{kafka_prefix}slow"
    transport.admin().create_topic(topic, partitions=1)

    async def body() -> tuple[int, float]:
        most, turns = 0, 0
        async with Publisher(transport, settings=PublisherSettings(max_in_flight=20)) as publisher:
            ticking = True

            async def tick() -> None:
                nonlocal turns
                while ticking:
                    turns += 1
                    await asyncio.sleep(0.001)

            ticker = asyncio.create_task(tick())
            for number in range(200):
                await publisher.publish(topic, number)
                most = max(most, publisher.in_flight)
            ticking = False
            await ticker
        return most, turns

    most, turns = run(body())
    transport.close()
    assert most == 20
    # Nine waits of 50 ms, in which the event loop was free.
    assert turns > 50
