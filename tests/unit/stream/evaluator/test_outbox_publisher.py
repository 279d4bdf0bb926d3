"""The outcomes of committed outbox records that the client, or the broker, does not take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from afl.engine.model.store import Batch, OutboxRecord
from afl.stores.memory.store import MemoryStore
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
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

LANE = "control/0"


class Line:
    """A producer whose records are on their way until `answer` says what became of them."""

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.refuses: Exception | None = None
        self._under_way: list[DeliveryCallback] = []

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
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(value)
        assert on_delivery is not None
        self._under_way.append(on_delivery)

    def answer(self, error: Exception | None = None) -> None:
        callbacks, self._under_way = self._under_way, []
        for offset, callback in enumerate(callbacks):
            callback(error, TopicPartition("t", 0), offset)

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return len(self._under_way)

    def close(self) -> None: ...


class Bench:
    """A publisher with a store and a line, and records that are committed."""

    def __init__(self) -> None:
        self.store, self.line = MemoryStore(), Line()
        self.publisher = OutboxPublisher(self.store, self.line, queue_timeout_s=0.0)

    def commit(self, *values: bytes) -> tuple[int, list[OutboxRecord]]:
        records = [OutboxRecord(LANE, "t", b"key", value) for value in values]
        return self.store.commit_batch(Batch(outbox=records)), records

    def publish(self, *values: bytes) -> None:
        self.publisher.publish(*self.commit(*values))

    def delete_published(self) -> list[bytes | None]:
        """Delete the rows of what was published, and return what the store still holds."""
        self.store.commit_batch(Batch(published=self.publisher.take_published()))
        return [row.record.value for row in self.store.outbox()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    "refusal", [BrokerUnavailable("away"), QueueFull("full")], ids=["nobody answers", "the queue is full"]
)
def test_records_that_cannot_be_handed_over_wait_and_are_sent_once_when_they_can(
    bench: Bench, refusal: Exception
) -> None:
    bench.line.refuses = refusal
    bench.publish(b"a", b"b")
    with pytest.raises(BrokerUnavailable):
        bench.publisher.settle()
    assert bench.publisher.in_flight == 2

    bench.line.refuses = None
    bench.publisher.settle()
    bench.line.answer()

    assert bench.line.sent == [b"a", b"b"]
    assert bench.delete_published() == []


def test_a_commit_whose_sending_breaks_off_loses_the_rows_of_what_was_delivered_only(bench: Bench) -> None:
    bench.publish(b"a")
    bench.line.refuses = BrokerUnavailable("away")
    bench.publish(b"b")
    bench.line.answer()

    assert bench.delete_published() == [b"b"]


@pytest.mark.parametrize(
    "refusal",
    [NotAuthorized("topic t", "write"), UnknownTopic("t"), RecordTooLarge("t", 9, 1)],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "by its delivery"])
def test_what_the_topic_does_not_take_waits_aside_and_is_not_sent_again_and_again(
    bench: Bench, refusal: Exception, at_once: bool
) -> None:
    bench.line.refuses = refusal if at_once else None
    bench.publish(b"a")
    bench.line.answer(refusal)
    bench.line.refuses, sent = None, len(bench.line.sent)

    bench.publisher.settle()
    assert bench.publisher.undeliverable() == {"t": 1}
    assert len(bench.line.sent) == sent
    bench.publisher.retry_undeliverable()
    bench.publisher.retry_undeliverable()
    bench.line.answer()

    assert len(bench.line.sent) == sent + 1, "it is on its way when it is asked for again"
    assert bench.publisher.undeliverable() == {}
    assert bench.delete_published() == []


def test_lanes_that_were_not_acknowledged_in_time_are_not_sent_twice(bench: Bench) -> None:
    bench.commit(b"a", b"b")
    for _ in range(3):
        with pytest.raises(BrokerUnavailable, match="2 outbox records were not acknowledged"):
            bench.publisher.publish_lanes([LANE], 0.0)
    bench.line.answer()

    bench.publisher.publish_lanes([LANE], 0.0)

    assert bench.line.sent == [b"a", b"b"]
    assert bench.store.outbox() == []


def test_a_lane_is_published_when_what_is_on_its_way_in_it_is_acknowledged(bench: Bench) -> None:
    bench.publish(b"a")

    with pytest.raises(BrokerUnavailable):
        bench.publisher.publish_lanes([LANE], 0.0)

    assert bench.publisher.publish_lanes(["control/1"], 0.0) == 0
    assert bench.line.sent == [b"a"]


@pytest.fixture
def threads_that_take_turns_often() -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("threads_that_take_turns_often")
def test_another_thread_may_count_what_waits_aside_while_that_changes(bench: Bench) -> None:
    ended = Event()

    def count_all_the_while() -> int:
        counted = 0
        while not ended.is_set():
            bench.publisher.undeliverable()
            counted += 1
        return counted

    values = [b"a"] * 300
    with ThreadPoolExecutor(1) as others:
        counting = others.submit(count_all_the_while)
        try:
            for _ in range(5):
                bench.line.refuses = UnknownTopic("t")
                bench.publish(*values)
                bench.line.refuses = None
                bench.publisher.retry_undeliverable()
                bench.line.answer()
        finally:
            ended.set()

        assert counting.result() > 0
    assert bench.publisher.undeliverable() == {}
