"""Subscriptions while brokers are away, logs lose records, members are fenced, and topics come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from afl.core.probes import no_probe
from afl_stream.embedded.transport import (
    EmbeddedAdmin,
    EmbeddedBroker,
    EmbeddedConsumer,
    EmbeddedProducer,
    EmbeddedTransport,
    Faults,
)
from afl_stream.outage import GaveUp
from afl_stream.pubsub import Message, Publisher, Subscription, SubscriptionSettings
from afl_stream.pubsub.errors import PublishFailed, SubscribedTopicMissing
from afl_stream.pubsub.subscriptions.settings import StartAt
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    NotAuthorized,
    OffsetOutOfRange,
    RecordTooLarge,
    Start,
    TopicPartition,
    UnknownTopic,
    UnreadableHeaders,
)
from tests.contract.subscription_contract import came, first, reader_threads, run, values

AWAY = BrokerUnavailable("no broker answers at 127.0.0.1:9092")
PARTITION = TopicPartition("orders", 0)


class Bench:
    """A broker with a topic of one partition, and a transport whose calls fail on command."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.broker = EmbeddedBroker()
        self.admin = EmbeddedTransport(self.broker).admin()
        self.transport = EmbeddedTransport(self.broker, probe=self.faults.probe)
        self.admin.create_topic("orders", partitions=1)
        self._producer = EmbeddedTransport(self.broker).producer()

    def write(self, *values: bytes, topic: str = "orders") -> None:
        for value in values:
            self._producer.produce(topic, value, key=b"k")
        assert self._producer.flush(5.0) == 0

    def subscription(
        self,
        *,
        pattern: str | None = None,
        outage_timeout_s: int = 600,
        start: StartAt = Start.EARLIEST,
        **settings: Any,
    ) -> Subscription:
        return Subscription(
            self.transport,
            StreamConfig(kafka=KafkaSettings(outage_timeout_s=outage_timeout_s)),
            "s",
            topics=() if pattern else ("orders",),
            pattern=pattern,
            start=start,
            settings=SubscriptionSettings(commit_interval_s=0.01, max_backoff_s=0.05, **settings),
        )

    @property
    def consumer(self) -> EmbeddedConsumer:
        """The consumer of the only subscription."""
        [consumer] = self.transport._consumers
        return consumer

    def committed(self) -> int | None:
        offset = self.broker.group("afl.pubsub.sub.s").committed.get(PARTITION)
        return None if offset is None else offset.offset


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    with closing(bench.transport):
        yield bench


# --- brokers that are away --------------------------------------------------------------------------------------------


def test_a_broker_that_is_away_is_waited_for(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.write(b"0", b"1")
    bench.faults.fail_at("poll.before_deliver", times=3, error=AWAY)

    async def body() -> list[Message]:
        async with bench.subscription() as reader:
            return await first(2, reader)

    assert values(run(body())) == [b"0", b"1"]
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert logged[0] == "no broker answers at 127.0.0.1:9092; waiting for it, up to 600 s; nothing is lost"
    assert logged[1].startswith("the broker is back")
    assert len(logged) == 2


def test_a_broker_that_stays_away_ends_the_subscription(bench: Bench) -> None:
    bench.write(b"0")
    bench.faults.fail_at("poll.before_deliver", times=1_000_000, error=AWAY)

    async def body() -> None:
        async with bench.subscription(outage_timeout_s=1) as reader:
            await came(lambda: reader.problem)
            await first(1, reader)

    with pytest.raises(GaveUp, match="gave up after 1 s"):
        run(body())


def test_a_broker_that_is_away_when_partitions_are_assigned_is_waited_for(bench: Bench) -> None:
    bench.write(b"0")
    bench.faults.fail_at("rebalance.before_assign", times=3, error=AWAY)

    async def body() -> list[Message]:
        async with bench.subscription() as reader:
            return await first(1, reader)

    assert values(run(body())) == [b"0"]


def test_a_commit_that_fails_is_counted_and_made_later(bench: Bench) -> None:
    bench.write(b"0")
    bench.faults.fail_at("commit.before", times=2, error=AWAY)

    async def body() -> None:
        async with bench.subscription() as reader:
            await first(1, reader)
            await came(lambda: bench.committed() == 1)
            assert reader.counts.commit_failures == 2

    run(body())


def test_a_refused_commit_ends_the_subscription(bench: Bench) -> None:
    bench.write(b"0")
    bench.faults.fail_at("commit.before", times=2, error=NotAuthorized("group s", "GROUP_AUTHORIZATION_FAILED"))

    async def body() -> None:
        async with bench.subscription() as reader:
            async for _ in reader:
                pass

    with pytest.raises(NotAuthorized, match="not allowed: group s"):
        run(body())
    assert reader_threads() == []


# --- records that are lost --------------------------------------------------------------------------------------------


def test_lost_records_end_a_subscription(bench: Bench) -> None:
    bench.write(b"0", b"1", b"2")

    async def body() -> None:
        async with bench.subscription() as reader:
            await first(1, reader)
        bench.broker.truncate(PARTITION, 2)
        async with bench.subscription() as reader:
            await first(1, reader)

    with pytest.raises(OffsetOutOfRange, match=r"orders\[0\]: position 1 is out of range: the log holds 2 to 3"):
        run(body())


def test_lost_records_may_be_reported_and_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.write(b"0", b"1", b"2")

    async def body() -> list[Message]:
        async with bench.subscription() as reader:
            await first(1, reader)
        bench.broker.truncate(PARTITION, 2)
        async with bench.subscription(lost_records=LostRecords.EARLIEST) as reader:
            found = await first(1, reader)
            await came(lambda: bench.committed() == 3)
            return found

    assert values(run(body())) == [b"2"]
    assert "reading continues at offset 2, 1 records are lost" in caplog.text


def test_a_start_past_the_end_of_the_log_reads_what_there_is(bench: Bench) -> None:
    bench.write(b"0", b"1")

    async def body() -> list[Message]:
        async with bench.subscription(start={PARTITION: 100}, lost_records=LostRecords.EARLIEST) as reader:
            found = await first(2, reader)
            bench.write(b"2")
            found += await first(1, reader)
            await came(lambda: bench.committed() == 3)
            return found

    assert values(run(body())) == [b"0", b"1", b"2"]


# --- rebalances -------------------------------------------------------------------------------------------------------


def test_a_fenced_member_drops_what_it_has_and_continues_from_the_committed_offset(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.write(*[b"%d" % n for n in range(6)])
    caplog.set_level(logging.DEBUG, "afl_stream.pubsub")

    async def body() -> list[Message]:
        async with bench.subscription(auto_ack=False) as reader:
            held = await first(3, reader)
            held[0].ack()
            await came(lambda: bench.committed() == 1)
            bench.broker.expire(bench.consumer)
            await came(lambda: held[1].owned.is_lost)
            held[1].ack()
            return await first(5, reader)

    assert values(run(body())) == [b"1", b"2", b"3", b"4", b"5"]
    assert "orders[0] offset 1: the partition was lost, so it is not acknowledged" in caplog.text


def test_a_fenced_member_that_commits_nothing_continues_where_it_was(bench: Bench) -> None:
    bench.write(b"before")

    async def body() -> list[Message]:
        async with bench.subscription(start=Start.LATEST, commits=False) as reader:
            bench.write(b"0", b"1")
            found = await first(1, reader)
            await came(lambda: reader.counts.acknowledged == 1)
            bench.broker.expire(bench.consumer)
            await came(lambda: found[0].owned.is_lost)
            return [*found, *await first(1, reader)]

    assert values(run(body())) == [b"0", b"1"]


def test_a_partition_that_is_revoked_commits_what_is_acknowledged_first(bench: Bench) -> None:
    bench.write(b"0", b"1", b"2")

    async def body() -> None:
        async with bench.subscription(auto_ack=False) as reader:
            for message in await first(2, reader):
                message.ack()
            other = bench.transport.consumer("afl.pubsub.sub.s")
            other.subscribe(["orders"])
            bench.broker.rebalance("afl.pubsub.sub.s", moves={PARTITION: other})
            await came(lambda: not reader.partitions)
            assert bench.committed() == 2
            other.close()

    run(body())


# --- topics that come and go ------------------------------------------------------------------------------------------


def test_a_recreated_topic_is_read_from_its_beginning_also_after_a_start_at_the_end(bench: Bench) -> None:
    bench.write(b"old")

    async def body() -> list[Message]:
        async with bench.subscription(start=Start.LATEST) as reader:
            await came(lambda: bench.committed() == 1)
            bench.admin.delete_topic("orders")
            bench.admin.create_topic("orders", partitions=1)
            bench.write(b"new")
            return await first(1, reader)

    assert values(run(body())) == [b"new"]


def test_a_named_topic_that_is_deleted_ends_the_subscription(bench: Bench) -> None:
    async def body() -> None:
        async with bench.subscription() as reader:
            await came(lambda: reader.partitions)
            bench.admin.delete_topic("orders")
            await first(1, reader)

    with pytest.raises(SubscribedTopicMissing, match="subscription s: topic orders does not exist"):
        run(body())


def test_a_topic_of_a_pattern_may_go_and_come_again(bench: Bench) -> None:
    bench.write(b"0")

    async def body() -> list[Message]:
        async with bench.subscription(pattern="ord*") as reader:
            found = await first(1, reader)
            bench.admin.delete_topic("orders")
            await came(lambda: not reader.partitions)
            bench.admin.create_topic("orders", partitions=1)
            bench.write(b"1")
            return [*found, *await first(1, reader)]

    assert values(run(body())) == [b"0", b"1"]


def test_a_record_whose_headers_no_client_can_read_is_delivered(bench: Bench) -> None:
    bench.transport.producer().produce("orders", b"1", headers=UnreadableHeaders())

    async def body() -> list[Message]:
        async with bench.subscription() as reader:
            return await first(1, reader)

    [message] = run(body())
    assert (message.value, message.headers, message.header("any")) == (b"1", (), None)


# --- full buffers -----------------------------------------------------------------------------------------------------


def is_paused(bench: Bench) -> bool:
    positions = bench.consumer._positions.values()
    return bool(positions) and all(position.paused for position in positions)


def test_a_full_buffer_pauses_the_partitions_and_half_of_it_resumes_them(bench: Bench) -> None:
    bench.write(*[b"%d" % n for n in range(40)])

    async def body() -> list[int]:
        buffered: list[int] = []
        async with bench.subscription(max_buffered=8) as reader:
            await came(lambda: is_paused(bench))
            buffered.append(reader.buffered)
            async for _ in reader.take(3):
                pass
            # Less than half was taken: still paused, while the member stays in its group.
            await asyncio.sleep(0.3)
            assert is_paused(bench)
            buffered.append(reader.buffered)
            async for _ in reader.take(2):
                pass
            await came(lambda: reader.counts.read > 8)
            return [*buffered, len(await first(35, reader))]

    # What was taken counts when the lot of two that it came with is through.
    assert run(body()) == [8, 6, 35]


def test_messages_that_are_acknowledged_leave_the_window_before_they_are_committed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.write(*[b"%d" % n for n in range(40)])

    async def body() -> None:
        async with bench.subscription(window=10, max_buffered=8) as reader:
            assert len(await first(40, reader)) == 40

    run(body())
    assert "is not acknowledged" not in caplog.text


# --- publishing -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_raised_by_the_next_call(bench: Bench) -> None:
    faulty = Failing(bench.broker)

    async def body() -> None:
        async with Publisher(faulty) as publisher:
            await publisher.publish("orders", b"v")
            await came(lambda: not publisher.in_flight)
            with pytest.raises(PublishFailed, match="a record was not written to orders: topic orders") as raised:
                await publisher.publish("orders", b"v")
            assert isinstance(raised.value.__cause__, UnknownTopic)
            await publisher.publish("orders", b"v")
            with pytest.raises(PublishFailed):
                await publisher.flush()
            with pytest.raises(UnknownTopic):
                await publisher.publish_and_wait("orders", b"v")

    run(body())


def test_leaving_a_publisher_raises_what_could_not_be_written_unless_the_program_has_an_error_of_its_own(
    bench: Bench,
) -> None:
    async def body(error: Callable[[], object]) -> None:
        async with Publisher(Failing(bench.broker)) as publisher:
            await publisher.publish("orders", b"v")
            error()

    with pytest.raises(PublishFailed):
        run(body(lambda: None))
    with pytest.raises(ZeroDivisionError):
        run(body(lambda: 1 // 0))


def test_a_publisher_waits_for_a_broker_before_its_first_record(bench: Bench) -> None:
    class Away(EmbeddedTransport):
        asked = 0

        def admin(self) -> EmbeddedAdmin:
            self.asked += 1
            if self.asked < 3:
                raise AWAY
            return super().admin()

    async def body() -> int:
        async with Publisher(Away(bench.broker)) as publisher:
            return (await publisher.publish_and_wait("orders", b"v")).offset

    assert run(body()) == 0


def test_a_record_that_is_too_large_is_refused_at_once(bench: Bench) -> None:
    bench.admin.create_topic("small", partitions=1, settings={"max.message.bytes": "10"})

    async def body() -> None:
        async with Publisher(bench.transport) as publisher:
            with pytest.raises(RecordTooLarge):
                await publisher.publish("small", b"v" * 5_000)
            assert publisher.in_flight == 0

    run(body())


class FailingProducer(EmbeddedProducer):
    """A producer whose records are never written: the broker says that the topic is gone."""

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
        assert on_delivery is not None
        self._finish(on_delivery, UnknownTopic(topic), TopicPartition(topic, -1), -1)


class Failing(EmbeddedTransport):
    """A transport whose producers write nothing."""

    def producer(self) -> EmbeddedProducer:
        return FailingProducer(self.broker, no_probe, 10)
