"""Durability of the embedded broker's file, whatever dies when."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from afl_stream.embedded.log import TAIL_RECORDS
from afl_stream.embedded.transport import Crash, EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Headers,
    Record,
    TopicPartition,
    UnreadableHeaders,
    Watermarks,
)

REPOSITORY = Path(__file__).parents[4]
T0 = TopicPartition("t", 0)


class Deliveries:
    def __init__(self) -> None:
        self.heard: list[tuple[Exception | None, TopicPartition, int]] = []

    def __call__(self, error: Exception | None, partition: TopicPartition, offset: int) -> None:
        self.heard.append((error, partition, offset))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with_topic(path)
    return path


def with_topic(path: Path, **settings: str) -> None:
    broker = EmbeddedBroker(path)
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    broker.create_topic("t", 1, 1, dotted)
    broker.close()


def write(broker: EmbeddedBroker, *values: bytes | None, key: bytes | None = None) -> None:
    producer = EmbeddedTransport(broker).producer()
    for value in values:
        producer.produce("t", value, key=key)
    assert producer.flush(10) == 0


def everything(broker: EmbeddedBroker, start: int = 0) -> list[Record]:
    consumer = EmbeddedTransport(broker).consumer(None)
    consumer.assign({T0: start})
    seen: list[Record] = []
    while batch := consumer.consume(500, 0):
        seen += batch
    consumer.close()
    return seen


def bounds(broker: EmbeddedBroker) -> Watermarks:
    return EmbeddedTransport(broker).consumer(None).watermarks(T0)


def stored_values(path: Path) -> list[bytes | None]:
    """Return what a new process finds."""
    broker = EmbeddedBroker(path)
    try:
        return [record.value for record in everything(broker)]
    finally:
        broker.close()


def test_records_offsets_topics_and_the_cluster_id_outlive_the_process(path: Path) -> None:
    broker = EmbeddedBroker(path)
    transport = EmbeddedTransport(broker)
    transport.admin().create_topic("u", partitions=3, settings={"retention.ms": "1000"})
    producer = transport.producer()
    producer.produce("t", None, key=b"\xff", headers=(("h", b"1"), ("h", b"\x00"), ("", b"")))
    producer.flush(5)
    consumer = transport.consumer("g")
    consumer.subscribe(["t"])
    before = consumer.consume(10, 0)
    consumer.commit({T0: CommittedOffset(offset=1, metadata="möbius")}, wait=True)
    topics, cluster_id = broker.topics(), broker.cluster_id
    broker.close()

    again = EmbeddedBroker(path)

    assert again.cluster_id == cluster_id
    assert again.topics() == topics
    assert everything(again) == before
    member = EmbeddedTransport(again).consumer("g")
    member.subscribe(["t"])
    assert member.poll(0) is None
    assert member.committed([T0]) == {T0: CommittedOffset(offset=1, metadata="möbius")}
    again.close()


def test_what_was_delivered_outlives_a_broker_that_is_abandoned(path: Path) -> None:
    broker = EmbeddedBroker(path)
    write(broker, b"delivered")
    EmbeddedTransport(broker).producer().produce("t", b"never flushed")

    broker.abandon()

    assert stored_values(path) == [b"delivered"]
    with pytest.raises(BrokerUnavailable):
        broker.topics()


def test_closing_writes_what_was_not_flushed(path: Path) -> None:
    broker = EmbeddedBroker(path)
    EmbeddedTransport(broker).producer().produce("t", b"v")

    broker.close()

    assert stored_values(path) == [b"v"]


def test_no_delivery_is_reported_before_the_record_is_on_disk(path: Path) -> None:
    broker = EmbeddedBroker(path)
    producer, deliveries = EmbeddedTransport(broker).producer(), Deliveries()
    producer.produce("t", b"v", on_delivery=deliveries)
    assert bounds(broker) == Watermarks(low=0, high=0)
    assert deliveries.heard == []

    producer.flush(5)

    assert deliveries.heard == [(None, T0, 0)]
    assert bounds(broker) == Watermarks(low=0, high=1)
    broker.abandon()
    assert stored_values(path) == [b"v"]


@pytest.mark.parametrize(
    ("point", "survives"),
    [
        ("produce.before_append", False),
        ("log.before_write", False),
        ("log.after_write", True),
        ("produce.after_append_before_ack", True),
    ],
)
def test_a_record_is_there_after_a_crash_if_it_was_written_before(path: Path, point: str, survives: bool) -> None:
    faults, deliveries = Faults(), Deliveries()
    broker = EmbeddedBroker(path, probe=faults.probe)
    producer = EmbeddedTransport(broker).producer()
    faults.fail_at(point)

    def produce() -> None:
        producer.produce("t", b"v", on_delivery=deliveries)
        producer.flush(5)

    crash(produce, point)
    broker.abandon()

    assert deliveries.heard == []
    assert stored_values(path) == ([b"v"] if survives else [])


def crash(step: Callable[[], object], point: str) -> None:
    with pytest.raises(Crash) as caught:
        step()
    assert caught.value.point == point


@pytest.mark.parametrize(
    ("point", "survives"), [("commit.before", False), ("log.before_write", False), ("commit.after", True)]
)
def test_an_offset_is_there_after_a_crash_if_it_was_written_before(path: Path, point: str, survives: bool) -> None:
    faults = Faults()
    broker = EmbeddedBroker(path, probe=faults.probe)
    consumer = EmbeddedTransport(broker).consumer("g")
    consumer.subscribe(["t"])
    consumer.poll(0)
    faults.fail_at(point)

    crash(lambda: consumer.commit({T0: CommittedOffset(offset=0, metadata="m")}, wait=True), point)
    broker.abandon()

    again = EmbeddedBroker(path)
    found = EmbeddedTransport(again).consumer("g").committed([T0])
    again.close()
    assert found == ({T0: CommittedOffset(offset=0, metadata="m")} if survives else {})


def test_the_broker_outlives_a_party_that_crashes_while_it_writes_for_others(path: Path) -> None:
    faults, deliveries = Faults(), Deliveries()
    broker = EmbeddedBroker(path, probe=faults.probe)
    producer = EmbeddedTransport(broker).producer()
    producer.produce("t", b"v", on_delivery=deliveries)
    consumer = EmbeddedTransport(broker).consumer(None)
    consumer.assign({T0: 0})
    faults.fail_at("log.before_write")
    crash(lambda: consumer.poll(0), "log.before_write")

    assert producer.flush(5) == 0

    assert deliveries.heard == [(None, T0, 0)]
    assert [record.value for record in everything(broker)] == [b"v"]
    broker.close()


def test_a_write_that_fails_is_told_to_the_producer_and_the_next_one_works(path: Path) -> None:
    faults, deliveries = Faults(), Deliveries()
    broker = EmbeddedBroker(path, probe=faults.probe)
    producer = EmbeddedTransport(broker).producer()
    full = BrokerUnavailable("the disk is full")
    faults.fail_at("log.before_write", error=full)
    for value in (b"lost", b"kept"):
        producer.produce("t", value, on_delivery=deliveries)
        assert producer.flush(5) == 0

    assert deliveries.heard == [(full, T0, -1), (None, T0, 0)]
    broker.close()
    assert stored_values(path) == [b"kept"]


def test_a_commit_that_waits_says_when_it_could_not_be_written(path: Path) -> None:
    faults = Faults()
    broker = EmbeddedBroker(path, probe=faults.probe)
    consumer = EmbeddedTransport(broker).consumer("g")
    consumer.subscribe(["t"])
    consumer.poll(0)
    faults.fail_at("log.before_write", error=BrokerUnavailable("the disk is full"))

    with pytest.raises(BrokerUnavailable, match="disk is full"):
        consumer.commit({T0: CommittedOffset(offset=0)}, wait=True)
    consumer.commit({T0: CommittedOffset(offset=0)}, wait=True)

    broker.abandon()
    again = EmbeddedBroker(path)
    assert EmbeddedTransport(again).consumer("g").committed([T0]) == {T0: CommittedOffset(offset=0)}
    again.close()


def test_a_party_that_dies_loses_what_it_had_not_written_and_nobody_elses(path: Path) -> None:
    broker = EmbeddedBroker(path)
    dying, living = EmbeddedTransport(broker), EmbeddedTransport(broker)
    dying.producer().produce("t", b"lost")
    living.producer().produce("t", b"kept")

    dying.abandon()

    broker.close()
    assert stored_values(path) == [b"kept"]


def test_offsets_continue_after_everything_was_truncated(path: Path) -> None:
    broker = EmbeddedBroker(path)
    write(broker, b"0", b"1", b"2")
    broker.truncate(T0, before_offset=99)
    broker.close()

    again = EmbeddedBroker(path)

    assert bounds(again) == Watermarks(low=3, high=3)
    write(again, b"3")
    assert [(record.offset, record.value) for record in everything(again, start=3)] == [(3, b"3")]
    again.close()


def test_opening_drops_what_is_past_retention(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with_topic(path, retention_ms="1000")
    broker = EmbeddedBroker(path, now_ms=lambda: 10_000)
    write(broker, b"old")
    broker.now_ms = lambda: 10_900
    write(broker, b"young")
    broker.close()

    again = EmbeddedBroker(path, now_ms=lambda: 11_500)

    assert bounds(again) == Watermarks(low=1, high=2)
    assert [record.value for record in everything(again, start=1)] == [b"young"]
    again.close()


def test_opening_compacts_topics_that_say_so_and_keeps_their_offsets(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with_topic(path, cleanup_policy="compact")
    broker = EmbeddedBroker(path)
    write(broker, b"a1", b"a2", key=b"a")
    write(broker, b"no key")
    write(broker, b"b1", None, key=b"b")
    broker.close()

    again = EmbeddedBroker(path)

    assert [(record.offset, record.value) for record in everything(again)] == [(1, b"a2"), (2, b"no key"), (4, None)]
    write(again, b"a3", key=b"a")
    assert [record.offset for record in everything(again)] == [1, 2, 4, 5]
    again.close()


def test_a_deleted_topic_stays_deleted_and_its_offsets_with_it(path: Path) -> None:
    broker = EmbeddedBroker(path)
    write(broker, b"old")
    consumer = EmbeddedTransport(broker).consumer("g")
    consumer.assign({T0: 0})
    consumer.commit({T0: CommittedOffset(offset=1)}, wait=True)
    broker.delete_topic("t")
    broker.create_topic("t", 1, 1, {})
    broker.close()

    again = EmbeddedBroker(path)

    assert everything(again) == []
    assert EmbeddedTransport(again).consumer("g").committed([T0]) == {}
    again.close()


def test_a_reader_far_behind_reads_from_the_file_and_on_into_memory(path: Path) -> None:
    broker = EmbeddedBroker(path)
    total = 2 * TAIL_RECORDS + 2_500
    write(broker, *(b"%d" % number for number in range(total)))

    records = everything(broker)

    assert [record.offset for record in records] == list(range(total))
    assert [record.value for record in records] == [b"%d" % number for number in range(total)]
    broker.close()


def test_many_records_are_delivered_through_few_writes(path: Path) -> None:
    faults, deliveries = Faults(), Deliveries()
    broker = EmbeddedBroker(path, probe=faults.probe)
    producer = EmbeddedTransport(broker).producer()
    for number in range(5_000):
        producer.produce("t", b"%d" % number, on_delivery=deliveries)
    assert producer.flush(10) == 0

    assert [offset for _, _, offset in deliveries.heard] == list(range(5_000))
    assert faults.reached("log.before_write") <= 5
    broker.close()


#: Produces for ever, and writes down the number of each record whose delivery was reported.
ENDLESS_PRODUCER = """
import itertools, sys
from pathlib import Path
from afl_stream.embedded.transport import EmbeddedTransport
producer = EmbeddedTransport(Path(sys.argv[1])).producer()
for number in itertools.count():
    def report(error, where, offset, number=number):
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
    producer.produce("t", b"%d" % number, on_delivery=report)
    producer.poll(0)
"""


def test_no_reported_record_is_missing_after_a_process_was_killed(path: Path) -> None:
    reported: list[int] = []
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS_PRODUCER, str(path)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout is not None
        while len(reported) < 300:
            reported.append(int(process.stdout.readline()))
        process.kill()
        reported += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]

    stored = [int(value or b"") for value in stored_values(path)]

    assert stored == list(range(len(stored)))
    assert set(reported) <= set(stored)


def test_threads_that_write_read_and_commit_at_once_lose_and_double_nothing(path: Path) -> None:
    broker = EmbeddedBroker(path)
    writers, each = 3, 300
    deliveries = [Deliveries() for _ in range(writers)]

    def produce(deliveries: Deliveries) -> None:
        producer = EmbeddedTransport(broker).producer()
        for number in range(each):
            producer.produce("t", b"%d" % number, on_delivery=deliveries)
            producer.poll(0)
        producer.close()

    threads = [Thread(target=produce, args=(heard,)) for heard in deliveries]
    consumer = EmbeddedTransport(broker).consumer("g")
    consumer.subscribe(["t"])
    for thread in threads:
        thread.start()
    seen: list[Record] = []
    while len(seen) < writers * each:
        batch = consumer.consume(50, 10)
        assert batch
        seen += batch
        consumer.commit({T0: CommittedOffset(offset=batch[-1].offset + 1)}, wait=len(seen) % 2 == 0)
    for thread in threads:
        thread.join(timeout=10)
    consumer.close()
    broker.close()

    assert [record.offset for record in seen] == list(range(writers * each))
    assert sorted(offset for heard in deliveries for _, _, offset in heard.heard) == list(range(writers * each))
    assert len(stored_values(path)) == writers * each


def test_headers_without_a_value_and_unreadable_ones_are_kept(path: Path) -> None:
    nulls = (("x", None), ("", b""), ("x", b"1"))
    broker = EmbeddedBroker(path)
    producer = EmbeddedTransport(broker).producer()
    given: list[Headers] = [nulls, UnreadableHeaders(), ()]
    for headers in given:
        producer.produce("t", b"v", headers=headers)
    assert producer.flush(10) == 0
    written = [record.headers for record in everything(broker)]
    broker.close()

    again = EmbeddedBroker(path)
    read = [record.headers for record in everything(again)]
    again.close()

    assert written == read == [nulls, (), ()]
    for found in (written, read):
        assert [isinstance(headers, UnreadableHeaders) for headers in found] == [False, True, False]
