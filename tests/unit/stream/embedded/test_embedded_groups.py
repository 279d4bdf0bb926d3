"""Actions on a group that only the embedded broker has: rebalance, move, expire, crash."""

from collections.abc import Iterator, Mapping, Sequence
from threading import Thread

import pytest

from afl_stream.embedded.transport import (
    Crash,
    EmbeddedBroker,
    EmbeddedConsumer,
    EmbeddedTransport,
    Faults,
    NotAssigned,
)
from afl_stream.transport import (
    Assignor,
    BrokerUnavailable,
    CommittedOffset,
    Fenced,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    TransportError,
    UnknownTopic,
    Watermarks,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Diary:
    """A listener that writes down what happens to whom."""

    def __init__(self, name: str, lines: list[tuple[str, str, list[int]]]) -> None:
        self.name, self.lines = name, lines

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        self.lines.append((self.name, "assigned", [p.partition for p in partitions]))
        return None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.lines.append((self.name, "revoked", [p.partition for p in partitions]))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.lines.append((self.name, "lost", [p.partition for p in partitions]))


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker()
    EmbeddedTransport(broker).admin().create_topic("t", partitions=2)
    yield broker
    broker.close()


def write(broker: EmbeddedBroker, *values: bytes, partition: int = 0, topic: str = "t") -> None:
    producer = EmbeddedTransport(broker).producer()
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(5) == 0


def join(
    broker: EmbeddedBroker,
    name: str,
    lines: list[tuple[str, str, list[int]]],
    assignor: Assignor = Assignor.COOPERATIVE_STICKY,
    faults: Faults | None = None,
) -> EmbeddedConsumer:
    transport = EmbeddedTransport(broker, probe=None if faults is None else faults.probe)
    consumer = transport.consumer("g", client_id=name, assignor=assignor)
    consumer.subscribe(["t"], listener=Diary(name, lines))
    return consumer


def test_cooperative_members_give_up_only_what_moves(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one = join(broker, "one", lines)
    one.poll(0)
    two = join(broker, "two", lines)
    two.poll(0)
    assert two.assignment() == frozenset()

    one.poll(0)
    two.poll(0)

    assert lines == [("one", "assigned", [0, 1]), ("one", "revoked", [1]), ("two", "assigned", [1])]


def test_eager_members_give_up_everything_first(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one = join(broker, "one", lines, Assignor.RANGE)
    one.poll(0)
    two = join(broker, "two", lines, Assignor.RANGE)
    two.poll(0)
    one.poll(0)
    two.poll(0)

    assert lines == [
        ("one", "assigned", [0, 1]),
        ("one", "revoked", [0, 1]),
        ("one", "assigned", [0]),
        ("two", "assigned", [1]),
    ]


def test_a_rebalance_on_command_revokes_and_gives_back_what_an_eager_member_has(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one = join(broker, "one", lines, Assignor.RANGE)
    one.poll(0)

    broker.rebalance("g")
    one.poll(0)

    assert [event for _, event, _ in lines] == ["assigned", "revoked", "assigned"]


def test_work_continues_at_the_committed_offset_when_a_partition_comes_back(broker: EmbeddedBroker) -> None:
    write(broker, b"0", b"1", b"2")
    one = join(broker, "one", [], Assignor.RANGE)
    assert len(one.consume(10, 0)) == 3
    one.commit({T0: CommittedOffset(offset=1)}, wait=True)

    broker.rebalance("g")

    assert [record.value for record in one.consume(10, 0)] == [b"1", b"2"]
    one.commit({T0: CommittedOffset(offset=3)}, wait=True)
    assert one.committed([T0]) == {T0: CommittedOffset(offset=3)}


def test_a_partition_moves_on_command(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one, two = join(broker, "one", lines), join(broker, "two", lines)
    one.poll(0)
    two.poll(0)

    broker.rebalance("g", moves={T0: two})
    one.poll(0)
    two.poll(0)

    assert not one.assignment()
    assert two.assignment() == {T0, T1}
    assert lines[-2:] == [("one", "revoked", [0]), ("two", "assigned", [0])]


def test_a_rebalance_forgets_the_pause_of_a_partition_that_went(broker: EmbeddedBroker) -> None:
    write(broker, b"0")
    one = join(broker, "one", [], Assignor.RANGE)
    broker.rebalance("g")
    one.poll(0)
    one.seek(T0, 0)
    one.pause([T0])
    assert one.poll(0) is None

    broker.rebalance("g")

    record = one.poll(0)
    assert record is not None
    assert record.value == b"0"


def test_a_fenced_member_cannot_commit_and_hears_of_its_loss(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    frozen = join(broker, "a", lines)
    frozen.poll(0)
    other = join(broker, "b", lines)

    broker.expire(frozen)
    other.poll(0)

    assert other.assignment() == {T0, T1}
    with pytest.raises(Fenced) as caught:
        frozen.commit({T0: CommittedOffset(offset=5)}, wait=True)
    assert caught.value.partitions == (T0,)
    frozen.commit({T0: CommittedOffset(offset=5)})
    assert other.committed([T0]) == {}
    frozen.poll(0)
    assert ("a", "lost", [0, 1]) in lines
    assert ("a", "revoked", [0, 1]) not in lines


def test_a_fenced_member_that_polls_again_is_a_member_again(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one = join(broker, "one", lines)
    one.poll(0)
    broker.expire(one)

    one.poll(0)

    assert one.assignment() == {T0, T1}
    one.commit({T0: CommittedOffset(offset=0)}, wait=True)
    assert [event for _, event, _ in lines] == ["assigned", "lost", "assigned"]


def test_a_fenced_member_that_closes_has_lost_its_partitions(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    one = join(broker, "one", lines)
    one.poll(0)
    broker.expire(one)

    one.close()

    assert lines[-1] == ("one", "lost", [0, 1])


def test_a_party_that_dies_leaves_its_partitions_to_others_without_a_word(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    transport = EmbeddedTransport(broker)
    dying = transport.consumer("g", client_id="a")
    dying.subscribe(["t"], listener=Diary("a", lines))
    dying.poll(0)
    other = join(broker, "b", lines)

    transport.abandon()
    other.poll(0)

    assert other.assignment() == {T0, T1}
    assert [line for line in lines if line[0] == "a"] == [("a", "assigned", [0, 1])]
    with pytest.raises(TransportError):
        dying.poll(0)


def test_nobody_gets_a_partition_before_its_holders_callback_is_through(broker: EmbeddedBroker) -> None:
    faults = Faults()
    one = join(broker, "one", [], faults=faults)
    one.poll(0)
    two = join(broker, "two", [])
    faults.fail_at("rebalance.after_revoke")

    with pytest.raises(Crash):
        one.poll(0)
    two.poll(0)
    assert two.assignment() == frozenset()

    broker.expire(one)
    two.poll(0)
    assert two.assignment() == {T0, T1}


def test_a_failed_assignment_is_tried_again(broker: EmbeddedBroker) -> None:
    faults, lines = Faults(), list[tuple[str, str, list[int]]]()
    one = join(broker, "one", lines, faults=faults)
    faults.fail_at("rebalance.before_assign", error=BrokerUnavailable("away"))

    with pytest.raises(BrokerUnavailable):
        one.poll(0)
    one.poll(0)

    assert lines == [("one", "assigned", [0, 1])]


def test_records_that_could_not_be_delivered_are_delivered_next(broker: EmbeddedBroker) -> None:
    faults = Faults()
    write(broker, b"0", b"1")
    one = join(broker, "one", [], faults=faults)
    faults.fail_at("poll.before_deliver", error=BrokerUnavailable("away"))

    with pytest.raises(BrokerUnavailable):
        one.consume(10, 0)

    assert [record.value for record in one.consume(10, 0)] == [b"0", b"1"]


def test_a_crash_before_a_commit_leaves_the_offset_and_one_after_it_does_not(broker: EmbeddedBroker) -> None:
    faults = Faults()
    one = join(broker, "one", [], faults=faults)
    one.poll(0)
    for point in ("commit.before", "commit.after"):
        faults.fail_at(point)
        with pytest.raises(Crash):
            one.commit({T0: CommittedOffset(offset=1, metadata=point)}, wait=True)
        seen = one.committed([T0])
        assert seen == ({} if point == "commit.before" else {T0: CommittedOffset(offset=1, metadata=point)})


def test_a_position_before_the_log_is_an_error_that_names_the_bounds(broker: EmbeddedBroker) -> None:
    write(broker, b"0", b"1", b"2", b"3")
    one = join(broker, "one", [])
    one.poll(0)
    broker.truncate(T0, before_offset=3)

    with pytest.raises(OffsetOutOfRange) as caught:
        one.poll(0)
    assert (caught.value.offset, caught.value.bounds) == (1, Watermarks(low=3, high=4))

    one.seek(T0, 3)
    record = one.poll(0)
    assert record is not None
    assert record.value == b"3"


def test_a_lost_position_does_not_starve_other_partitions(broker: EmbeddedBroker) -> None:
    write(broker, b"0", b"1")
    one = join(broker, "one", [])
    one.poll(0)
    broker.truncate(T0, before_offset=2)
    write(broker, b"other", partition=1)
    seen: list[Record] = []
    errors = 0
    for _ in range(4):
        try:
            seen += one.consume(10, 0)
        except OffsetOutOfRange:
            errors += 1

    assert [record.value for record in seen] == [b"other"]
    assert errors >= 2


def test_a_topic_created_again_under_a_reader_without_a_group_is_an_error_until_it_seeks(
    broker: EmbeddedBroker,
) -> None:
    write(broker, b"old", b"old")
    transport = EmbeddedTransport(broker)
    reader = transport.consumer(None)
    reader.assign({T0: 0})
    assert len(reader.consume(10, 0)) == 2
    transport.admin().delete_topic("t")
    transport.admin().create_topic("t", partitions=2)
    write(broker, b"new", b"new", b"new")

    with pytest.raises(OffsetOutOfRange):
        reader.poll(0)
    reader.seek(T0, 0)

    assert [record.value for record in reader.consume(10, 0)] == [b"new", b"new", b"new"]


def test_a_subscribed_topic_that_goes_is_told_once_and_found_when_it_comes_back(broker: EmbeddedBroker) -> None:
    lines: list[tuple[str, str, list[int]]] = []
    admin = EmbeddedTransport(broker).admin()
    one = join(broker, "one", lines)
    one.poll(0)
    admin.delete_topic("t")

    with pytest.raises(UnknownTopic):
        one.poll(0)
    assert one.poll(0) is None
    admin.create_topic("t", partitions=1)
    one.poll(0)

    assert lines == [("one", "assigned", [0, 1]), ("one", "lost", [0, 1]), ("one", "assigned", [0])]


def test_a_waiting_poll_wakes_when_a_record_comes(broker: EmbeddedBroker) -> None:
    one = join(broker, "one", [])
    one.poll(0)
    seen: list[Record | None] = []
    thread = Thread(target=lambda: seen.append(one.poll(60)))
    thread.start()

    write(broker, b"wake up")
    thread.join(timeout=10)

    assert not thread.is_alive()
    assert [record.value for record in seen if record is not None] == [b"wake up"]


def test_a_waiting_poll_ends_when_the_broker_closes(broker: EmbeddedBroker) -> None:
    one = join(broker, "one", [])
    one.poll(0)
    errors: list[BrokerUnavailable] = []

    def wait() -> None:
        try:
            one.poll(60)
        except BrokerUnavailable as error:
            errors.append(error)

    thread = Thread(target=wait)
    thread.start()
    broker.close()
    thread.join(timeout=10)

    assert not thread.is_alive()
    assert len(errors) == 1
    one.close()


def test_partitions_that_are_not_assigned_cannot_be_moved_or_paused(broker: EmbeddedBroker) -> None:
    one = join(broker, "one", [])

    with pytest.raises(NotAssigned):
        one.seek(T0, 0)
    with pytest.raises(NotAssigned):
        one.pause([T0])


def test_members_in_threads_read_each_record_once_while_members_come_and_go(broker: EmbeddedBroker) -> None:
    """Each commits what it read before it gives a partition up, so nothing may be read twice."""
    total, seen = 600, list[Record]()

    class Committing(Diary):
        def __init__(self, consumer: EmbeddedConsumer, positions: dict[TopicPartition, int]) -> None:
            super().__init__("", [])
            self.consumer, self.positions = consumer, positions

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            offsets = {p: CommittedOffset(offset=self.positions[p]) for p in partitions if p in self.positions}
            self.consumer.commit(offsets, wait=True)

    def run(records: int) -> None:
        consumer = EmbeddedTransport(broker).consumer("g")
        positions: dict[TopicPartition, int] = {}
        consumer.subscribe(["t"], listener=Committing(consumer, positions))
        read = 0
        while read < records and len(seen) < total:
            for record in consumer.consume(7, 0.05):
                seen.append(record)
                positions[record.topic_partition] = record.offset + 1
                read += 1
        consumer.close()

    threads = [Thread(target=run, args=(limit,)) for limit in (50, 100, 150, total, total)]
    for thread in threads:
        thread.start()
    for number in range(total):
        write(broker, b"%d" % number, partition=number % 2)
    for thread in threads:
        thread.join(timeout=30)

    assert sorted(int(record.value or b"") for record in seen) == list(range(total))
