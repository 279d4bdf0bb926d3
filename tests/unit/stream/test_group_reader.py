"""Agents and audits read by one reader: outages, lost records, paused partitions, commits, and records that wait."""

from __future__ import annotations

import logging

import pytest

from afl.core.backoff import Backoff
from afl.core.text.warning_limits import LimitedLog
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable
from afl_stream.outage import GaveUp
from afl_stream.reading.group_reader import FIRST_BACKOFF_S, GroupReader, LostRecords
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Fenced,
    NotAuthorized,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    Watermarks,
)

TOPIC = "afl.events.shop.Pay"
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
AWAY = BrokerUnavailable("no broker answers at 127.0.0.1:9092")


class Bench:
    """A topic with three records in each of two partitions, read by one reader whose clock is set by hand."""

    def __init__(self, lost_records: LostRecords = LostRecords.STOP) -> None:
        self.now_s = 0.0
        self.faults = Faults()
        broker = EmbeddedBroker()
        self.transport = EmbeddedTransport(broker, probe=self.faults.probe)
        self.transport.admin().create_topic(TOPIC, partitions=2)
        producer = EmbeddedTransport(broker).producer()
        for number in range(6):
            # The keys of three records lead to one partition, those of the others to the other.
            producer.produce(TOPIC, b"value", key=b"step:1" if number % 2 else b"step:2")
        assert producer.flush(10) == 0
        self.consumer = self.transport.consumer("readers")
        self.reader = GroupReader(
            self.consumer,
            KafkaSettings(outage_timeout_s=5),
            "group readers",
            lost_records=lost_records,
            longest_backoff_s=0.3,
            clock_s=lambda: self.now_s,
        )
        self.consumer.assign({FIRST: 0, SECOND: 0})

    def read(self) -> list[Record]:
        return [record for _ in range(3) for record in self.reader.read(100, 0)]


def test_a_broker_that_is_away_is_left_alone_for_longer_each_time_until_it_is_back() -> None:
    bench = Bench()
    assert bench.reader.backoff_s() is None
    bench.faults.fail_at("poll.before_deliver", times=4, error=AWAY)

    waits = []
    for _ in range(4):
        assert list(bench.reader.read(100, 0)) == []
        waits.append(bench.reader.backoff_s())

    assert waits == pytest.approx([FIRST_BACKOFF_S, 0.1, 0.2, 0.3])
    assert str(AWAY) in (bench.reader.problem or "")
    assert len(bench.read()) == 6
    assert bench.reader.backoff_s() is None
    assert bench.reader.problem is None


def test_an_outage_that_lasts_too_long_is_raised() -> None:
    bench = Bench()
    bench.faults.fail_at("poll.before_deliver", times=2, error=AWAY)
    assert list(bench.reader.read(100, 0)) == []

    bench.now_s = 6
    with pytest.raises(GaveUp, match="gave up after 5 s"):
        bench.reader.read(100, 0)


def test_what_is_held_is_not_read_until_it_is_let_go_and_the_others_are() -> None:
    bench = Bench()
    partitions = {record.topic_partition for record in Bench().read()}
    assert partitions, "there is something to hold"
    held = min(partitions)

    bench.reader.hold([held])
    assert {record.topic_partition for record in bench.read()} == partitions - {held}

    bench.reader.hold([])
    assert {record.topic_partition for record in bench.read()} == {held}


LOST = OffsetOutOfRange(FIRST, 1, Watermarks(low=2, high=3))


def test_lost_records_stop_the_reader_where_that_is_wanted() -> None:
    with pytest.raises(OffsetOutOfRange):
        Bench(LostRecords.STOP).reader.skip_lost(LOST)


def test_reading_continues_where_the_log_begins_and_the_gap_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(LostRecords.EARLIEST)

    assert bench.reader.skip_lost(LOST) == 2

    assert bench.consumer.position(FIRST) == 2
    assert "group readers: " in caplog.text
    assert "reading continues at offset 2, 1 records are lost" in caplog.text


@pytest.mark.parametrize("error", [AWAY, Fenced([FIRST])])
def test_a_commit_that_cannot_be_made_now_is_told_and_can_be_made_later(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.faults.fail_at("commit.before", error=error)
    offsets = {FIRST: CommittedOffset(offset=2)}

    assert not bench.reader.commit(offsets, wait=True)
    assert "group readers: a commit failed" in caplog.text
    assert bench.reader.commit(offsets, wait=True)

    assert bench.consumer.committed([FIRST]) == offsets


def test_a_commit_that_no_waiting_mends_is_raised() -> None:
    bench = Bench()
    bench.faults.fail_at("commit.before", error=NotAuthorized("group readers", "GROUP_AUTHORIZATION_FAILED"))

    with pytest.raises(NotAuthorized):
        bench.reader.commit({FIRST: CommittedOffset(offset=2)}, wait=True)


# --- records that wait ------------------------------------------------------------------------------------------


class Codec:
    """Decodes a record as its offset, unless there is an error to raise first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def decode(self, record: Record) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return record.offset


def queue_at(now_s: list[float], *offsets: int) -> RecordQueue:
    queue = RecordQueue(Backoff(0.1, 1.0), lambda: now_s[0], LimitedLog(logging.getLogger("queue")))
    queue.records.extend(
        Record(topic=TOPIC, partition=0, offset=offset, key=None, value=b"", headers=(), timestamp_ms=0)
        for offset in offsets
    )
    return queue


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_record_without_its_schema_is_tried_again_after_longer_waits_and_reported_meanwhile(
    is_gone: bool,
) -> None:
    error = SchemaGone("ab12", "afl.schemas is empty") if is_gone else SchemaUnavailable("ab12", "no broker answers")
    now_s, codec = [0.0], Codec(error, error)
    queue = queue_at(now_s, 7, 8)

    assert queue.decode_first(codec.decode) is None
    assert queue.is_held_up
    assert queue.retry_at_s == pytest.approx(0.1)
    assert f"{TOPIC}[0] offset 7: " in (queue.problem or "")
    assert queue.is_away == (not is_gone)
    now_s[0] = 0.1
    assert not queue.is_held_up
    assert queue.decode_first(codec.decode) is None
    assert queue.retry_at_s == pytest.approx(0.3)

    now_s[0] = 0.3
    assert queue.decode_first(codec.decode) == 7
    queue.remove_first()
    assert queue.problem is None
    assert queue.decode_first(codec.decode) == 8


def test_a_record_of_a_newer_format_halts_its_partition_for_good() -> None:
    now_s = [0.0]
    queue = queue_at(now_s, 7)

    assert queue.decode_first(Codec(NewerFormat("afl/9", "afl/2")).decode) is None

    now_s[0] = 1e9
    assert queue.is_held_up
    assert f"{TOPIC}[0] offset 7: " in (queue.problem or "")
