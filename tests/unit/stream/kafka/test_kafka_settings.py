"""The settings of each kind of client, and that librdkafka takes them."""

import logging

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from afl_stream.errors import ConfigError
from afl_stream.kafka.settings import (
    Settings,
    admin_settings,
    consumer_settings,
    offset_settings,
    producer_settings,
    without_secrets,
)
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import MASK, KafkaSettings, StreamConfig
from afl_stream.transport import Assignor

#: Nobody listens there; nothing here waits for an answer.
ADDRESS = "127.0.0.1:1"


def configured(kafka: KafkaSettings | None = None, max_event_bytes: int = 900_000) -> StreamConfig:
    return StreamConfig(max_event_bytes=max_event_bytes, kafka=kafka or KafkaSettings(bootstrap=ADDRESS))


def part(settings: Settings, *names: str) -> Settings:
    return {name: settings[name] for name in names if name in settings}


def test_a_producer_neither_loses_nor_doubles_and_partitions_like_javas() -> None:
    reported = producer_settings(configured())

    assert part(
        reported, "bootstrap.servers", "enable.idempotence", "acks", "partitioner", "allow.auto.create.topics"
    ) == {
        "bootstrap.servers": ADDRESS,
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
    }


def test_a_record_waits_for_brokers_as_long_as_the_process_does() -> None:
    reported = producer_settings(configured(KafkaSettings(bootstrap=ADDRESS, outage_timeout_s=7)))

    assert reported["delivery.timeout.ms"] == 7_000


@pytest.mark.parametrize("max_event_bytes", [1_000, 900_000, 50_000_000])
def test_sizes_leave_room_for_the_largest_event_and_no_batch_outgrows_it(max_event_bytes: int) -> None:
    config = configured(max_event_bytes=max_event_bytes)
    reported = {**producer_settings(config), **consumer_settings(config, "g")}

    assert int(reported["batch.size"]) <= max_event_bytes
    assert int(reported["message.max.bytes"]) > max_event_bytes
    assert int(reported["message.max.bytes"]) > 8_388_608
    assert int(reported["max.partition.fetch.bytes"]) > max_event_bytes
    assert int(reported["fetch.max.bytes"]) >= int(reported["max.partition.fetch.bytes"])
    assert int(reported["receive.message.max.bytes"]) >= int(reported["fetch.max.bytes"]) + 512


def test_a_consumer_commits_and_chooses_offsets_only_when_told() -> None:
    reported = consumer_settings(configured(), "g", client_id="desk-1")

    assert part(
        reported, "group.id", "client.id", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset"
    ) == {
        "group.id": "g",
        "client.id": "desk-1",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }


def test_a_commit_in_a_classic_group_is_waited_for_three_times_twenty_seconds_at_most() -> None:
    classic = configured()
    joined = configured(KafkaSettings(bootstrap=ADDRESS, group_protocol="consumer"))
    slow_line = configured(KafkaSettings(bootstrap=ADDRESS, consumer={"socket.timeout.ms": "90000"}))

    assert consumer_settings(classic, "g")["socket.timeout.ms"] == 20_000
    assert "socket.timeout.ms" not in consumer_settings(classic, None)
    assert "socket.timeout.ms" not in consumer_settings(joined, "g")
    assert consumer_settings(slow_line, "g")["socket.timeout.ms"] == "90000"


def test_offsets_are_asked_for_up_to_the_high_watermark_whatever_consumers_read() -> None:
    config = configured(KafkaSettings(bootstrap=ADDRESS, client={"security.protocol": "plaintext"}))
    asked = offset_settings(config)

    assert part(asked, "isolation.level", "security.protocol", "allow.auto.create.topics") == {
        "isolation.level": "read_uncommitted",
        "security.protocol": "plaintext",
        "allow.auto.create.topics": False,
    }
    assert str(asked["group.id"]).startswith(f"{config.prefix}reader-")


def test_a_new_topic_is_looked_for_every_five_seconds() -> None:
    assert consumer_settings(configured(), "g")["topic.metadata.refresh.interval.ms"] == 5_000


_ASSIGNMENT = ("group.protocol", "group.remote.assignor", "partition.assignment.strategy", "session.timeout.ms")


@pytest.mark.parametrize(
    ("protocol", "assignor", "expected"),
    [
        (
            "classic",
            Assignor.RANGE,
            {"partition.assignment.strategy": "range", "session.timeout.ms": 10_000},
        ),
        (
            "classic",
            Assignor.COOPERATIVE_STICKY,
            {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 10_000},
        ),
        ("consumer", Assignor.RANGE, {"group.protocol": "consumer", "group.remote.assignor": "range"}),
        ("consumer", Assignor.COOPERATIVE_STICKY, {"group.protocol": "consumer", "group.remote.assignor": "uniform"}),
    ],
)
def test_each_protocol_is_told_how_to_spread_partitions(
    protocol: str, assignor: Assignor, expected: dict[str, str]
) -> None:
    config = configured(KafkaSettings(bootstrap=ADDRESS, group_protocol=protocol))

    assert part(consumer_settings(config, "g", assignor=assignor), *_ASSIGNMENT) == expected


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("classic", {"group.instance.id": "host-1", "session.timeout.ms": 45_000, "heartbeat.interval.ms": 1_000}),
        ("consumer", {"group.instance.id": "host-1"}),
    ],
)
def test_a_static_member_may_be_away_for_as_long_as_a_restart_takes(protocol: str, expected: dict[str, object]) -> None:
    config = configured(KafkaSettings(bootstrap=ADDRESS, group_protocol=protocol))
    shown = ("group.instance.id", "session.timeout.ms", "heartbeat.interval.ms")

    assert part(consumer_settings(config, "g", instance_id="host-1"), *shown) == expected
    assert "group.instance.id" not in consumer_settings(config, "g")


def test_readers_outside_any_group_share_no_group_name() -> None:
    one, other = (consumer_settings(configured(), None)["group.id"] for _ in range(2))

    assert one != other
    assert str(one).startswith("afl.")


def test_what_passes_through_replaces_a_default_under_either_name() -> None:
    config = configured(
        KafkaSettings(
            bootstrap=f"{ADDRESS}, 127.0.0.1:2",
            client={"security.protocol": "ssl", "linger.ms": "7", "reconnect.backoff.max.ms": "900"},
            producer={"queue.buffering.max.ms": "3"},
            consumer={"session.timeout.ms": "6000"},
        )
    )
    producer, consumer, admin = producer_settings(config), consumer_settings(config, "g"), admin_settings(config)

    assert producer["linger.ms"] == "3"
    assert "queue.buffering.max.ms" not in producer
    assert "session.timeout.ms" not in producer
    assert consumer["session.timeout.ms"] == "6000"
    for reported in (producer, consumer, admin):
        assert reported["security.protocol"] == "ssl"
        assert reported["reconnect.backoff.max.ms"] == "900"
        assert reported["bootstrap.servers"] == "127.0.0.1:1,127.0.0.1:2"


def test_a_text_of_librdkafka_loses_the_secrets_that_it_quotes() -> None:
    config = configured(KafkaSettings(bootstrap=ADDRESS, producer={"ssl.key.password": "hush", "linger.ms": "5"}))

    assert without_secrets('Invalid value "hush" after 5 ms', config) == f'Invalid value "{MASK}" after 5 ms'


class Warnings(logging.Handler):
    """What librdkafka says of the settings themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "CONFWARN" in record.getMessage():
            self.found.append(record.getMessage())


@pytest.mark.parametrize("max_event_bytes", [1_000, 900_000, 50_000_000])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_takes_every_set_without_a_warning(protocol: str, max_event_bytes: int) -> None:
    config = configured(KafkaSettings(bootstrap=ADDRESS, group_protocol=protocol), max_event_bytes)
    logger, warnings = logging.Logger("librdkafka"), Warnings()
    logger.addHandler(warnings)

    producer = Producer(producer_settings(config), logger=logger)
    producer.poll(0)
    AdminClient(admin_settings(config), logger=logger).poll(0)
    for group in (None, "g"):
        for assignor in Assignor:
            consumer = Consumer(consumer_settings(config, group, assignor=assignor), logger=logger)
            consumer.poll(0)
            consumer.close()

    assert warnings.found == []


def test_a_transport_without_an_address_says_which_setting_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap: found None, expected HOST:PORT .*AFL_KAFKA_BOOTSTRAP"):
        KafkaTransport(StreamConfig())
