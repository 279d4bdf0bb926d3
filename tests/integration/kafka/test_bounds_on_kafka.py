"""Bounds of partitions on a real Kafka: right, cheap, bounded in time, and no danger to the process that asks."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # documented, not marked as exported

from afl_stream.kafka.consumer import KafkaConsumer
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import BrokerUnavailable, BrokerView, TopicPartition, UnknownTopic, Watermarks
from tests.eventually import eventually
from tools.kafka import Broker

PARTITIONS: Final = 200
_HAMMER: Final = Path(__file__).with_name("hammer_bounds.py")
_CALLS: Final = 20_000


@contextmanager
def connected(bootstrap: str, prefix: str = "", **client: str) -> Iterator[KafkaTransport]:
    transport = KafkaTransport(StreamConfig(prefix=prefix, kafka=KafkaSettings(bootstrap=bootstrap, client=client)))
    try:
        yield transport
    finally:
        transport.close()


@pytest.fixture
def transport(kafka_bootstrap: str, kafka_prefix: str) -> Iterator[KafkaTransport]:
    with connected(kafka_bootstrap, kafka_prefix) as opened:
        yield opened


def write(transport: KafkaTransport, topic: str, counts: dict[int, int]) -> None:
    producer = transport.producer()
    for partition, count in counts.items():
        for _ in range(count):
            producer.produce(topic, b"v", partition=partition)
    assert producer.flush(60) == 0


def view_of(reader: KafkaConsumer, partitions: int) -> BrokerView:
    """Look until that many bounds are known."""
    seen: list[BrokerView] = []

    def has_all() -> bool:
        reader.consume(1_000, 0.05)
        seen.append(reader.view())
        return len(seen[-1].bounds) == partitions

    eventually(has_all, 60)
    return seen[-1]


def test_the_bounds_of_200_partitions_are_those_of_each(transport: KafkaTransport, kafka_prefix: str) -> None:
    topic = f"{kafka_prefix}wide"
    transport.admin().create_topic(topic, partitions=PARTITIONS)
    counts = {number: number % 7 for number in range(PARTITIONS)}
    write(transport, topic, counts)
    partitions = {TopicPartition(topic, number): count for number, count in counts.items()}
    reader = transport.consumer(None)
    reader.assign(dict.fromkeys(partitions, 0))

    assert view_of(reader, PARTITIONS).bounds == {p: Watermarks(low=0, high=n) for p, n in partitions.items()}
    assert reader.offsets_for_times(dict.fromkeys(partitions, 0)) == dict.fromkeys(partitions, 0)
    hour_ahead_ms = int(time.time() * 1_000) + 3_600_000
    assert reader.offsets_for_times(dict.fromkeys(partitions, hour_ahead_ms)) == partitions


def test_a_look_at_200_partitions_puts_two_requests_to_their_leader(
    kafka_bootstrap: str, kafka_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"{kafka_prefix}wide"
    with connected(kafka_bootstrap, kafka_prefix, debug="protocol") as transport:
        transport.admin().create_topic(topic, partitions=PARTITIONS)
        wanted = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        # The leaders are looked up with the first question, and known from then on.
        transport.admin().watermarks(wanted[0])
        with caplog.at_level(logging.DEBUG, "afl_stream.kafka"):
            for answer in transport.admin().ask_bounds(wanted):
                assert len(answer.result(60)) == PARTITIONS
            # Another question hands on what the client has logged of these.
            transport.admin().watermarks(wanted[0])
        requests = [line for line in caplog.messages if "Sent ListOffsetsRequest" in line]

    # Two for the look, and two for each of the questions before and behind it.
    assert 2 <= len(requests) <= 6


def test_partitions_that_were_added_are_known_at_once(
    transport: KafkaTransport, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    topic = f"{kafka_prefix}growing"
    transport.admin().create_topic(topic, partitions=1)
    assert transport.admin().watermarks(TopicPartition(topic, 0)) == Watermarks(low=0, high=0)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    # The controller has answered; the broker that is written to learns of it a moment later.
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3, 30)
    write(transport, topic, {2: 5})

    assert transport.admin().watermarks(TopicPartition(topic, 2)) == Watermarks(low=0, high=5)


def test_a_topic_that_is_gone_hides_the_bounds_of_no_other(transport: KafkaTransport, kafka_prefix: str) -> None:
    kept, gone = TopicPartition(f"{kafka_prefix}kept", 0), TopicPartition(f"{kafka_prefix}gone", 0)
    for topic in (kept.topic, gone.topic):
        transport.admin().create_topic(topic, partitions=1)
    write(transport, kept.topic, {0: 3})
    _, known = transport.admin().ask_bounds([kept, gone])
    assert known.result(60) == {kept: 3, gone: 0}
    transport.admin().delete_topic(gone.topic)

    _, ends = transport.admin().ask_bounds([kept, gone])

    answer = ends.result(60)
    told = answer[gone]
    assert answer[kept] == 3
    assert isinstance(told, confluent_kafka.KafkaError)
    assert told.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(UnknownTopic, match=gone.topic):
        transport.admin().watermarks(gone)


def test_records_of_an_open_transaction_count(
    transport: KafkaTransport, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    partition = TopicPartition(f"{kafka_prefix}open", 0)
    transport.admin().create_topic(partition.topic, partitions=1)
    write(transport, partition.topic, {0: 1})
    writer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_bootstrap, "transactional.id": kafka_prefix, "log_level": 0}
    )
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(partition.topic, b"v", partition=0)
    writer.flush(30)
    reader = transport.consumer(None)
    reader.assign({partition: 0})

    # The next record gets offset 2, though the last stable offset is 1: all that can be read is read.
    assert view_of(reader, 1).bounds == {partition: Watermarks(low=0, high=2)}
    assert transport.admin().watermarks(partition).high == 2
    eventually(lambda: not (reader.consume(10, 0.1) or reader.view().unfetched), 60)
    writer.abort_transaction(30)


def test_a_broker_that_stands_still_is_told_in_time_and_asked_again_when_it_continues(own_broker: Broker) -> None:
    with connected(own_broker.bootstrap) as transport:
        partition = TopicPartition("t", 0)
        transport.admin().create_topic(partition.topic, partitions=1)
        assert transport.admin().watermarks(partition).high == 0
        own_broker.pause()
        try:
            began_s = time.monotonic()
            asked = transport.admin().ask_bounds([partition])
            with pytest.raises(BrokerUnavailable, match=own_broker.bootstrap):
                transport.admin().watermarks(partition)
            # Five seconds for what was asked before, five for this, and slack for a busy machine.
            assert time.monotonic() - began_s < 25
            with pytest.raises(confluent_kafka.KafkaException, match=r"_TIMED_OUT|_TRANSPORT|_ALL_BROKERS_DOWN"):
                asked[1].result(30)
        finally:
            own_broker.resume()

        def is_told() -> bool:
            try:
                return transport.admin().watermarks(partition).high == 0
            except BrokerUnavailable:
                return False

        eventually(is_told, 60)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_there", [True, False], ids=["a broker", "no broker"])
def test_no_number_of_questions_out_of_time_ends_the_process(kafka_bootstrap: str, is_there: bool) -> None:
    """librdkafka's admin client, asked this way, ends the process after some thousand calls."""
    address = kafka_bootstrap if is_there else "127.0.0.1:1"

    ended = subprocess.run(
        [sys.executable, str(_HAMMER), address, str(_CALLS)], capture_output=True, text=True, timeout=550, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) >= _CALLS
