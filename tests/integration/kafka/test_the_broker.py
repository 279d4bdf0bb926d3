"""The broker that the other tests lean on: it is the one that was started, and nothing of it stays behind."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from afl_stream.broker.process import process_exists
from tests.eventually import eventually
from tests.worlds.shared_broker import BrokerOfTheRun
from tools.kafka import Broker, StrangerOnThePort
from tools.kafka.__main__ import main


def test_the_broker_of_the_run_takes_and_gives_back_a_record(kafka_bootstrap: str, kafka_prefix: str) -> None:
    produce(kafka_bootstrap, f"{kafka_prefix}words", b"hello")

    assert records(kafka_bootstrap, f"{kafka_prefix}words", 1) == [b"hello"]


@pytest.mark.long
def test_a_killed_broker_that_is_started_again_keeps_its_records_and_its_cluster_id(own_broker: Broker) -> None:
    produce(own_broker.bootstrap, "words", b"hello")
    own_broker.kill()

    own_broker.start_again()

    assert records(own_broker.bootstrap, "words", 1) == [b"hello"]
    client = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    assert client.describe_cluster().result(30).cluster_id == own_broker.cluster_id


@pytest.mark.long
def test_two_started_at_once_get_ports_of_their_own_and_leave_no_process(
    tmp_path: Path, broker_installed: None
) -> None:
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(Broker.start, [tmp_path / "one", tmp_path / "other"])
    addresses, pids = {one.bootstrap, other.bootstrap}, (one.pid, other.pid)

    other.pause()
    other.stop()
    one.stop()

    assert len(addresses) == 2
    assert not any(process_exists(pid) for pid in pids)


def test_a_strangers_broker_on_the_port_is_refused_by_both_cluster_ids(tmp_path: Path, own_broker: Broker) -> None:
    with pytest.raises(StrangerOnThePort) as refused:
        Broker.start(tmp_path / "late", port=own_broker.settings.port)

    assert refused.value.found == own_broker.cluster_id
    assert refused.value.expected in str(refused.value)
    assert own_broker.cluster_id in str(refused.value)
    assert own_broker.is_running


def test_the_last_worker_out_stops_the_broker_of_the_run(tmp_path: Path, broker_installed: None) -> None:
    with BrokerOfTheRun(tmp_path) as first:
        with BrokerOfTheRun(tmp_path) as second:
            assert first == second
        broker = Broker.attach(tmp_path / "broker-1")
        assert broker.is_running

    eventually(lambda: not process_exists(broker.pid))


@pytest.mark.long
def test_users_that_log_in_may_do_what_they_are_allowed_to_and_no_more(tmp_path: Path, broker_installed: None) -> None:
    with Broker.start(tmp_path / "secured", scram_users={"agent": "secret"}) as broker:
        agent = AdminClient(
            {
                "bootstrap.servers": broker.sasl_bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "agent",
                "sasl.password": "secret",
                "log_level": 0,
            }
        )

        assert agent.list_topics(timeout=30).cluster_id == broker.cluster_id
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            agent.create_topics([NewTopic("words", 1, 1)])["words"].result(30)
        produce(broker.bootstrap, "words", b"hello")


def test_up_twice_is_one_broker_that_answers_until_down(tmp_path: Path, broker_installed: None) -> None:
    place = ["--dir", str(tmp_path)]
    first, second = CliRunner().invoke(main, ["up", *place]), CliRunner().invoke(main, ["up", *place])
    try:
        assert first.exit_code == second.exit_code == 0, first.output + second.output
        broker = Broker.attach(tmp_path / "broker-1")
        assert f"export AFL_KAFKA_BOOTSTRAP={broker.bootstrap}" in first.output
        assert f"{broker.bootstrap}: process {broker.pid}, cluster {broker.cluster_id}" in second.output
        assert CliRunner().invoke(main, ["status", *place]).exit_code == 0
    finally:
        down = CliRunner().invoke(main, ["down", *place])

    assert down.exit_code == 0
    assert CliRunner().invoke(main, ["status", *place]).exit_code == 1


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def records(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()
