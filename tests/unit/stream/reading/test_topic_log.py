"""The schemas topic: what was announced is read whole, by everyone, and never half."""

from functools import partial

import pytest

from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.errors import SchemaUnavailable
from afl_stream.reading.topic_log import TopicLog
from afl_stream.transport import BrokerUnavailable, NotAuthorized, TopicPartition

TOPIC = "afl.schemas"


def broker_with_topic(partitions: int = 1) -> EmbeddedBroker:
    broker = EmbeddedBroker()
    EmbeddedTransport(broker).admin().create_topic(TOPIC, partitions=partitions)
    return broker


def test_what_one_process_announces_another_reads_from_the_beginning_and_then_the_news() -> None:
    broker = broker_with_topic()
    writer, reader = (TopicLog(EmbeddedTransport(broker), TOPIC) for _ in range(2))
    writer.append(b"1", b"one")
    writer.append(b"2", b"two")

    assert reader.read_to_end() == [(b"1", b"one"), (b"2", b"two")]
    assert reader.read_to_end() == []

    writer.append(b"3", b"three")
    assert reader.read_to_end() == [(b"3", b"three")]


def test_all_partitions_are_read() -> None:
    topic = TopicLog(EmbeddedTransport(broker_with_topic(partitions=3)), TOPIC)
    for n in range(9):
        topic.append(b"%d" % n, b"schema")

    assert sorted(key or b"" for key, _ in topic.read_to_end()) == [b"%d" % n for n in range(9)]


def test_a_read_that_fails_gives_all_of_it_the_next_time() -> None:
    broker, faults = broker_with_topic(), Faults()
    TopicLog(EmbeddedTransport(broker), TOPIC).append(b"1", b"one")
    reader = TopicLog(EmbeddedTransport(broker, probe=faults.probe), TOPIC)
    faults.fail_at("poll.before_deliver", error=BrokerUnavailable("no leader"))

    with pytest.raises(SchemaUnavailable, match="no leader"):
        reader.read_to_end()
    assert reader.read_to_end() == [(b"1", b"one")]


def test_what_left_the_log_is_not_waited_for() -> None:
    broker = broker_with_topic()
    topic = TopicLog(EmbeddedTransport(broker), TOPIC)
    topic.append(b"1", b"one")
    topic.append(b"2", b"two")
    broker.truncate(TopicPartition(TOPIC, 0), 1)

    assert topic.read_to_end() == [(b"2", b"two")]


def test_a_missing_topic_is_named_with_the_command_that_creates_it() -> None:
    topic = TopicLog(EmbeddedTransport(EmbeddedBroker()), TOPIC)

    with pytest.raises(SchemaUnavailable, match=r"topic afl\.schemas does not exist; run: afl-stream topics apply"):
        topic.read_to_end()
    with pytest.raises(SchemaUnavailable, match=r"afl\.schemas"):
        topic.append(b"1", b"one")


def test_an_announcement_that_is_not_acknowledged_says_so() -> None:
    faults = Faults()
    transport = EmbeddedTransport(broker_with_topic(), probe=faults.probe)
    faults.fail_at("produce.before_append", error=BrokerUnavailable("no leader"))

    with pytest.raises(SchemaUnavailable, match="no leader"):
        TopicLog(transport, TOPIC).append(b"1", b"one")


@pytest.mark.parametrize("place", ["append", "read"])
def test_a_refusal_that_no_waiting_mends_is_not_called_unavailable(place: str) -> None:
    broker, faults = broker_with_topic(), Faults()
    TopicLog(EmbeddedTransport(broker), TOPIC).append(b"1", b"one")
    topic = TopicLog(EmbeddedTransport(broker, probe=faults.probe), TOPIC)
    refusal = NotAuthorized(f"topic {TOPIC}", "TOPIC_AUTHORIZATION_FAILED")
    faults.fail_at("produce.before_append" if place == "append" else "poll.before_deliver", error=refusal)

    act = partial(topic.append, b"2", b"two") if place == "append" else topic.read_to_end

    with pytest.raises(NotAuthorized, match=TOPIC):
        act()


def made_again(broker: EmbeddedBroker) -> None:
    admin = EmbeddedTransport(broker).admin()
    admin.delete_topic(TOPIC)
    admin.create_topic(TOPIC, partitions=1)


def test_a_topic_made_again_is_read_from_its_beginning_and_told(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_topic()
    topic, other = (TopicLog(EmbeddedTransport(broker), TOPIC) for _ in range(2))
    topic.append(b"1", b"one")
    topic.append(b"2", b"two")
    topic.read_to_end()
    made_again(broker)
    other.append(b"3", b"three")

    assert topic.read_to_end() == [(b"3", b"three")]
    assert topic.losses == 1
    assert f"{TOPIC} lacks records that it had" in caplog.text


def test_a_topic_made_again_is_known_by_its_id_where_its_log_is_as_long() -> None:
    broker = broker_with_topic()
    topic, other = (TopicLog(EmbeddedTransport(broker), TOPIC, look_interval_s=0) for _ in range(2))
    topic.append(b"1", b"one")
    topic.read_to_end()
    made_again(broker)
    other.append(b"3", b"three")

    assert topic.read_to_end() == [(b"3", b"three")]
    assert topic.losses == 1


def test_records_that_retention_takes_after_they_were_read_are_a_loss() -> None:
    broker = broker_with_topic()
    topic = TopicLog(EmbeddedTransport(broker), TOPIC)
    topic.append(b"1", b"one")
    topic.append(b"2", b"two")
    topic.read_to_end()
    broker.truncate(TopicPartition(TOPIC, 0), 1)

    assert topic.read_to_end() == [(b"2", b"two")]
    assert topic.losses == 1
    assert topic.read_to_end() == []
    assert topic.losses == 1


def test_a_whole_topic_lacks_nothing() -> None:
    topic = TopicLog(EmbeddedTransport(broker_with_topic()), TOPIC)
    topic.append(b"1", b"one")
    topic.read_to_end()

    assert topic.lack(None) is None
    assert topic.losses == 0


def test_why_a_topic_may_lack_something_is_said() -> None:
    broker = broker_with_topic()
    topic = TopicLog(EmbeddedTransport(broker), TOPIC)
    topic.read_to_end()
    assert topic.lack(None) == "afl.schemas is empty"

    topic.append(b"1", b"one")
    topic.append(b"2", b"two")
    topic.read_to_end()
    assert "no record that is as old" in (topic.lack(1_000) or "")

    broker.truncate(TopicPartition(TOPIC, 0), 1)
    fresh = TopicLog(EmbeddedTransport(broker), TOPIC)
    fresh.read_to_end()
    assert fresh.lack(None) == "records of afl.schemas[0] before offset 1 were deleted"


def test_offsets_that_hold_no_record_are_passed_over_also_at_the_end() -> None:
    broker = broker_with_topic()
    topic = TopicLog(EmbeddedTransport(broker), TOPIC, timeout_s=10)
    for value in (b"one", b"two"):
        topic.append(b"k", value)
        for _ in range(2):
            broker.append_marker(TopicPartition(TOPIC, 0))

    assert topic.read_to_end() == [(b"k", b"one"), (b"k", b"two")]
    assert topic.read_to_end() == []
