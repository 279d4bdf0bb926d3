"""The embedded producer's own behaviour, its limits and its faults."""

import pytest

from afl_stream.embedded.transport import (
    FAULT_POINTS,
    Crash,
    EmbeddedBroker,
    EmbeddedTransport,
    Faults,
    TopicRefused,
    UnknownPartition,
)
from afl_stream.transport import BrokerUnavailable, QueueFull, RecordTooLarge, TopicPartition, TransportError


def ignore(error: Exception | None, partition: TopicPartition, offset: int) -> None:
    assert error is None


def test_records_without_a_key_go_round_the_partitions() -> None:
    transport = EmbeddedTransport()
    transport.admin().create_topic("t", partitions=3)
    producer, places = transport.producer(), list[int]()
    for _ in range(6):
        producer.produce("t", b"v", on_delivery=lambda error, partition, offset: places.append(partition.partition))
    producer.flush(1)

    assert places == [0, 1, 2, 0, 1, 2]
    transport.close()


def test_a_full_queue_has_room_again_after_a_poll() -> None:
    transport = EmbeddedTransport(queue_limit=2)
    transport.admin().create_topic("t", partitions=1)
    producer = transport.producer()
    producer.produce("t", b"1", on_delivery=ignore)
    producer.produce("t", b"2", on_delivery=ignore)
    with pytest.raises(QueueFull):
        producer.produce("t", b"3", on_delivery=ignore)

    assert producer.poll(0) == 2
    producer.produce("t", b"3", on_delivery=ignore)

    assert producer.flush(1) == 0
    transport.close()


def test_the_size_of_a_record_is_key_value_and_headers_and_the_limit_itself_fits() -> None:
    transport = EmbeddedTransport()
    transport.admin().create_topic("t", partitions=1, settings={"max.message.bytes": "10"})
    producer = transport.producer()
    producer.produce("t", b"12345", key=b"12", headers=(("a", b"12"),))

    with pytest.raises(RecordTooLarge) as caught:
        producer.produce("t", b"123456", key=b"12", headers=(("a", b"12"),))

    assert (caught.value.size, caught.value.limit) == (11, 10)
    transport.close()


def test_a_partition_that_is_not_there_is_named() -> None:
    transport = EmbeddedTransport()
    transport.admin().create_topic("t", partitions=2)

    with pytest.raises(UnknownPartition, match="t has partitions 0 to 1, and no 2"):
        transport.producer().produce("t", b"v", partition=2)
    with pytest.raises(UnknownPartition):
        transport.consumer(None).assign({TopicPartition("t", 7): 0})
    transport.close()


@pytest.mark.parametrize(
    ("name", "partitions", "settings"),
    [
        ("", 1, {}),
        ("a b", 1, {}),
        ("..", 1, {}),
        ("x" * 250, 1, {}),
        ("t", 0, {}),
        ("t", 1, {"max.message.bytes": "1k"}),
    ],
)
def test_a_topic_that_kafka_would_refuse_is_refused(name: str, partitions: int, settings: dict[str, str]) -> None:
    with pytest.raises(TopicRefused):
        EmbeddedTransport().admin().create_topic(name, partitions=partitions, settings=settings)


def test_a_callback_may_produce() -> None:
    transport = EmbeddedTransport()
    transport.admin().create_topic("t", partitions=1)
    producer, offsets = transport.producer(), list[int]()

    def again(error: Exception | None, partition: TopicPartition, offset: int) -> None:
        offsets.append(offset)
        if offset < 3:
            producer.produce("t", b"v", on_delivery=again)

    producer.produce("t", b"v", on_delivery=again)

    assert producer.flush(5) == 0
    assert offsets == [0, 1, 2, 3]
    transport.close()


def test_a_closed_producer_and_a_closed_broker_refuse_records() -> None:
    broker = EmbeddedBroker()
    transport = EmbeddedTransport(broker)
    transport.admin().create_topic("t", partitions=1)
    closed, open_one = transport.producer(), transport.producer()
    closed.close()
    with pytest.raises(TransportError, match="producer is closed"):
        closed.produce("t", b"v")

    broker.close()

    with pytest.raises(BrokerUnavailable):
        open_one.produce("t", b"v")
    with pytest.raises(BrokerUnavailable):
        transport.admin().cluster_id()


def test_faults_pass_then_fail_as_often_as_told_and_count() -> None:
    faults = Faults()
    faults.fail_at("a", times=2, passes=1, error=BrokerUnavailable("away"))
    outcomes: list[bool] = []
    for _ in range(5):
        try:
            faults.probe("a")
            outcomes.append(True)
        except BrokerUnavailable:
            outcomes.append(False)

    assert outcomes == [True, False, False, True, True]
    assert (faults.reached("a"), faults.reached("b")) == (5, 0)


def test_a_crash_is_no_ordinary_exception_and_says_where() -> None:
    faults = Faults()
    faults.fail_at("here")

    with pytest.raises(Crash, match="crashed at here"):
        faults.probe("here")
    assert not issubclass(Crash, Exception)


def test_every_fault_point_is_reached_by_an_ordinary_life(tmp_path_factory: pytest.TempPathFactory) -> None:
    faults = Faults()
    transport = EmbeddedTransport(tmp_path_factory.mktemp("log") / "log.sqlite", probe=faults.probe)
    transport.admin().create_topic("t", partitions=1)
    producer = transport.producer()
    producer.produce("t", b"v", on_delivery=ignore)
    producer.flush(5)
    one, two = transport.consumer("g", client_id="2"), transport.consumer("g", client_id="1")
    one.subscribe(["t"])
    assert one.poll(0) is not None
    one.commit({})
    one.view()
    two.subscribe(["t"])
    transport.broker.rebalance("g", moves={TopicPartition("t", 0): two})
    one.poll(0)
    two.close()
    transport.close()

    assert [point for point in FAULT_POINTS if not faults.reached(point)] == []
