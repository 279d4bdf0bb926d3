"""Producing from an event loop: room, acknowledgements, and deliveries that fail."""

from __future__ import annotations

import asyncio

import pytest

from afl_stream.embedded.transport import EmbeddedTransport, Faults
from afl_stream.pubsub.hosting.outbox import Outbox, OutboxClosed, Receipts
from afl_stream.pubsub.hosting.records import Outgoing
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    NotAuthorized,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    UnknownTopic,
)
from tests.worlds.hosted import PATIENCE_S, until

RECORD = Outgoing(topic="orders", key=b"k", value=b"v")


def unexpected(error: BaseException) -> None:
    pytest.fail(str(error))


class ByHand:
    """A producer whose deliveries the test reports."""

    def __init__(self) -> None:
        self.produced: list[DeliveryCallback] = []
        self.full_for = 0
        self.polls = 0
        self._due: list[tuple[DeliveryCallback, Exception | None, int]] = []

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
        if self.full_for:
            self.full_for -= 1
            raise QueueFull("no room")
        assert on_delivery is not None
        self.produced.append(on_delivery)

    def deliver(self, offset: int, error: Exception | None = None) -> None:
        self._due.append((self.produced.pop(0), error, offset))

    def poll(self, timeout_s: float = 0.0) -> int:
        self.polls += 1
        due, self._due = self._due, []
        for callback, error, offset in due:
            callback(error, TopicPartition("orders", 0), offset)
        return len(due)

    def flush(self, timeout_s: float) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def test_what_is_produced_is_acknowledged_with_its_offset() -> None:
    async def scenario() -> None:
        transport = EmbeddedTransport()
        transport.admin().create_topic("orders", partitions=1)
        outbox, receipts = Outbox(transport.producer(), 10, unexpected), Receipts()
        for _ in range(3):
            await outbox.produce(RECORD, receipts)
        await receipts.all()
        assert receipts.offsets == {"orders": 2}
        assert outbox.unacknowledged == 0
        await outbox.close()
        transport.close()

    asyncio.run(scenario())


def test_a_task_waits_while_too_much_is_unacknowledged() -> None:
    async def scenario() -> None:
        producer = ByHand()
        outbox, receipts = Outbox(producer, 2, unexpected), Receipts()
        await outbox.produce(RECORD, receipts)
        await outbox.produce(RECORD, receipts)
        third = asyncio.create_task(outbox.produce(RECORD, receipts))
        cancelled = asyncio.create_task(outbox.produce(RECORD, receipts))
        await asyncio.sleep(0)
        assert len(producer.produced) == 2
        assert not third.done()
        cancelled.cancel()
        producer.deliver(0)
        await third
        assert len(producer.produced) == 2
        await outbox.close()

    asyncio.run(scenario())


def test_room_that_a_cancelled_task_had_got_goes_to_the_next() -> None:
    async def scenario() -> None:
        producer = ByHand()
        outbox, receipts = Outbox(producer, 1, unexpected), Receipts()
        await outbox.produce(RECORD, receipts)
        first, second = (asyncio.create_task(outbox.produce(RECORD, receipts)) for _ in range(2))
        await asyncio.sleep(0)
        producer.deliver(0)
        polls = producer.polls
        while producer.polls < polls + 3:
            """The loop does not run meanwhile: it finds the acknowledgement and the cancellation together."""
        asyncio.get_running_loop().call_soon(first.cancel)
        async with asyncio.timeout(PATIENCE_S):
            await second
        assert first.cancelled()
        assert len(producer.produced) == 1
        await outbox.close()

    asyncio.run(scenario())


def test_a_record_that_the_broker_was_away_for_is_produced_again() -> None:
    async def scenario() -> None:
        producer = ByHand()
        outbox, receipts = Outbox(producer, 2, unexpected), Receipts()
        await outbox.produce(RECORD, receipts)
        producer.deliver(-1, BrokerUnavailable("away"))
        await until(lambda: producer.produced)
        assert receipts.pending == 1
        producer.deliver(7)
        await receipts.all()
        assert receipts.offsets == {"orders": 7}
        await outbox.close()

    asyncio.run(scenario())


def test_a_full_queue_is_waited_for() -> None:
    async def scenario() -> None:
        producer = ByHand()
        producer.full_for = 2
        outbox, receipts = Outbox(producer, 2, unexpected), Receipts()
        await outbox.produce(RECORD, receipts)
        assert len(producer.produced) == 1
        await outbox.close()

    asyncio.run(scenario())


def test_a_record_that_is_too_large_is_an_error_of_those_who_wait_for_it() -> None:
    async def scenario() -> None:
        producer = ByHand()
        outbox, receipts, others = Outbox(producer, 3, unexpected), Receipts(), Receipts()
        await outbox.produce(RECORD, receipts)
        await outbox.produce(RECORD, others)
        producer.deliver(-1, RecordTooLarge("orders", 5, 4))
        producer.deliver(0)
        with pytest.raises(RecordTooLarge):
            await receipts.all()
        await others.all()
        await outbox.close()

    asyncio.run(scenario())


def test_what_no_attempt_mends_is_the_owners_end() -> None:
    async def scenario() -> None:
        producer, errors = ByHand(), list[BaseException]()
        outbox, receipts = Outbox(producer, 2, errors.append), Receipts()
        await outbox.produce(RECORD, receipts)
        producer.deliver(-1, NotAuthorized("topic orders", "produce"))
        await until(lambda: errors)
        assert isinstance(errors[0], NotAuthorized)
        await outbox.close()

    asyncio.run(scenario())


def test_a_topic_that_does_not_exist_is_told_at_once() -> None:
    async def scenario() -> None:
        transport = EmbeddedTransport()
        outbox = Outbox(transport.producer(), 2, unexpected)
        with pytest.raises(UnknownTopic):
            await outbox.produce(RECORD, Receipts())
        await outbox.close()
        transport.close()

    asyncio.run(scenario())


def test_a_crash_in_a_callback_reaches_the_owner() -> None:
    async def scenario() -> None:
        faults, errors = Faults(), list[BaseException]()
        transport = EmbeddedTransport(probe=faults.probe)
        transport.admin().create_topic("orders", partitions=1)
        outbox = Outbox(transport.producer(), 2, errors.append)
        faults.fail_at("produce.after_append_before_ack")
        await outbox.produce(RECORD, Receipts())
        await until(lambda: errors)
        await outbox.close(is_dead=True)
        transport.abandon()

    asyncio.run(scenario())


def test_an_error_of_the_producer_itself_reaches_the_owner_whatever_its_class() -> None:
    class Broken(ByHand):
        def poll(self, timeout_s: float = 0.0) -> int:
            raise RuntimeError("handle has been terminated")

    async def scenario() -> None:
        errors: list[BaseException] = []
        outbox = Outbox(Broken(), 2, errors.append)
        await outbox.produce(RECORD, Receipts())
        await until(lambda: errors)
        assert "terminated" in str(errors[0])
        await outbox.close(is_dead=True)

    asyncio.run(scenario())


class LastWords(ByHand):
    """A producer that acknowledges its oldest records in the last flush."""

    def __init__(self, acknowledged: int) -> None:
        super().__init__()
        self._acknowledged = acknowledged
        self.is_closed = False

    def flush(self, timeout_s: float) -> int:
        for offset in range(self._acknowledged):
            self.deliver(offset)
        self.poll()
        return len(self.produced)

    def close(self) -> None:
        self.is_closed = True


def test_what_the_last_flush_acknowledges_counts_and_nobody_waits_for_the_rest() -> None:
    async def scenario() -> None:
        outbox = Outbox(LastWords(acknowledged=2), 3, unexpected)
        first, others = Receipts(), Receipts()
        for receipts in (first, others, others):
            await outbox.produce(RECORD, receipts)
        waiting = [asyncio.create_task(first.all()), *(asyncio.create_task(others.all()) for _ in range(2))]
        waits_for_room = asyncio.create_task(outbox.produce(RECORD, Receipts()))
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            await outbox.close()
            await waiting[0]
            for ended in (*waiting[1:], waits_for_room):
                with pytest.raises(OutboxClosed):
                    await ended
        assert first.offsets == {"orders": 0}
        # Who asks only now hears of it too.
        with pytest.raises(OutboxClosed):
            await others.all()

    asyncio.run(scenario())


def test_nothing_is_produced_from_the_call_of_close_on() -> None:
    async def scenario() -> None:
        producer = LastWords(acknowledged=0)
        producer.full_for = 1
        outbox = Outbox(producer, 2, unexpected)
        waits_for_the_library = asyncio.create_task(outbox.produce(RECORD, Receipts()))
        await asyncio.sleep(0)
        closing = asyncio.create_task(outbox.close())
        await asyncio.sleep(0)
        with pytest.raises(OutboxClosed):
            await outbox.produce(RECORD, Receipts())
        with pytest.raises(OutboxClosed):
            await waits_for_the_library
        await closing
        assert not producer.produced

    asyncio.run(scenario())


def test_who_waits_gets_the_error_that_no_attempt_mends() -> None:
    async def scenario() -> None:
        producer, errors = ByHand(), list[BaseException]()
        outbox, receipts = Outbox(producer, 1, errors.append), Receipts()
        await outbox.produce(RECORD, receipts)
        waiting = asyncio.create_task(receipts.all())
        waits_for_room = asyncio.create_task(outbox.produce(RECORD, Receipts()))
        await asyncio.sleep(0)
        producer.deliver(-1, NotAuthorized("topic orders", "produce"))
        async with asyncio.timeout(PATIENCE_S):
            for ended in (waiting, waits_for_room):
                with pytest.raises(NotAuthorized):
                    await ended
            with pytest.raises(NotAuthorized):
                await outbox.produce(RECORD, Receipts())
        assert len(errors) == 1
        await outbox.close()

    asyncio.run(scenario())


def test_the_producer_is_closed_also_when_its_last_flush_fails() -> None:
    class Refused(LastWords):
        def flush(self, timeout_s: float) -> int:
            raise NotAuthorized("topic orders", "produce")

    async def scenario() -> None:
        producer = Refused(acknowledged=0)
        outbox, receipts = Outbox(producer, 1, unexpected), Receipts()
        await outbox.produce(RECORD, receipts)
        await outbox.close()
        assert producer.is_closed
        with pytest.raises(OutboxClosed):
            await receipts.all()

    asyncio.run(scenario())
