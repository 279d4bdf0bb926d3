"""Stored positions held against a broker's topics and logs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from afl.engine.model.store import Batch, Position, PositionMove
from afl.stores.memory.store import MemoryStore
from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.transport import BrokerUnavailable, TopicDescription, TopicPartition, UnknownTopic, WrongCluster

TOPIC, PARTITION = "control", TopicPartition("control", 0)


class Broker:
    """A broker with one topic of one partition, whose admin may keep its ids to itself."""

    def __init__(self, tells_ids: bool = True) -> None:
        self.broker = EmbeddedBroker()
        self.admin = EmbeddedAdmin(self.broker) if tells_ids else AdminWithoutIds(self.broker)
        self.admin.create_topic(TOPIC, partitions=1)
        self.transport = EmbeddedTransport(self.broker)
        self.store = MemoryStore()

    def positions(self) -> StoredOffsets:
        return StoredOffsets(self.store, self.admin, "cluster", continues_past_lost=False)

    def take(self) -> int:
        """Where a new owner begins."""
        return self.positions().take([PARTITION], self.transport.consumer(None))[PARTITION]

    def write(self, count: int) -> None:
        producer = self.transport.producer()
        for _ in range(count):
            producer.produce(TOPIC, b"x", partition=0)
        producer.flush(1.0)

    def stored(self, topic_id: str, next_offset: int) -> None:
        place = Position("cluster", TOPIC, 0, topic_id)
        self.store.commit_batch(Batch(positions=[PositionMove(position=place, expected=None, next_offset=next_offset)]))


class AdminWithoutIds(EmbeddedAdmin):
    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return {
            name: TopicDescription(name=name, partitions=found.partitions, settings=found.settings)
            for name, found in super().topics(names).items()
        }


class AdminOfACluster(EmbeddedAdmin):
    def broker_count(self) -> int | None:
        return 1


@pytest.mark.parametrize(
    ("topic_id", "is_embedded", "said", "remedy"),
    [
        ("1", False, "the embedded log there, and this is cluster here", "a cluster needs a store of its own"),
        ("jP5Gz8vFQ0mX2o3Kq1hLxw", True, "cluster there, and this is the embedded log here", "AFL_KAFKA_BOOTSTRAP"),
        ("1", True, "the embedded log there, and this is the embedded log here", "Put the log of this store back"),
        ("", False, "cluster there, and this is cluster here", "Connect to that cluster"),
    ],
)
def test_a_store_of_another_log_is_refused_with_what_each_is_and_records_are_given_up_last(
    topic_id: str, is_embedded: bool, said: str, remedy: str
) -> None:
    broker, store = EmbeddedBroker(), MemoryStore()
    place = Position("there", TOPIC, 0, topic_id)
    store.commit_batch(Batch(positions=[PositionMove(position=place, expected=None, next_offset=1)]))
    admin = EmbeddedAdmin(broker) if is_embedded else AdminOfACluster(broker)

    with pytest.raises(WrongCluster) as caught:
        StoredOffsets(store, admin, "here", continues_past_lost=False).check_cluster()

    text = str(caught.value)
    assert f"the store {store.location()} belongs to {said}" in text
    assert text.index(remedy) < text.index("lost_records")


def test_a_partition_that_nobody_has_read_begins_at_its_first_record_and_that_is_noted() -> None:
    broker = Broker()
    broker.write(3)
    broker.broker.truncate(PARTITION, 1)

    assert broker.take() == 1
    assert broker.store.positions() == {Position("cluster", TOPIC, 0, "1"): 1}


def test_a_position_that_is_known_is_not_written_again() -> None:
    broker = Broker()
    broker.write(3)
    broker.stored("1", 2)

    assert broker.take() == 2
    assert broker.store.positions() == {Position("cluster", TOPIC, 0, "1"): 2}


@pytest.mark.parametrize("stored_id", ["", "1"])
def test_a_broker_that_tells_no_ids_is_taken_by_the_topics_name(stored_id: str) -> None:
    broker = Broker(tells_ids=False)
    broker.write(3)
    broker.stored(stored_id, 2)

    assert broker.take() == 2
    assert broker.store.positions() == {Position("cluster", TOPIC, 0, stored_id): 2}


def test_moves_continue_under_the_position_that_was_found() -> None:
    broker = Broker()
    broker.write(3)
    broker.stored("", 2)
    positions = broker.positions()
    positions.take([PARTITION], broker.transport.consumer(None))

    broker.store.commit_batch(Batch(positions=positions.moves({PARTITION: 3})))
    positions.moved({PARTITION: 3})

    assert positions.next_offset(PARTITION) == 3
    assert broker.store.positions() == {Position("cluster", TOPIC, 0, "1"): 3}


def test_a_topic_that_is_gone_is_named() -> None:
    broker = Broker()
    broker.admin.delete_topic(TOPIC)

    with pytest.raises(UnknownTopic, match=TOPIC):
        broker.take()


class AdminThatStillLists(EmbeddedAdmin):
    """An admin whose answer is older than what the log knows, as while a broker starts or stops."""

    def __init__(self, broker: EmbeddedBroker, listed: dict[str, TopicDescription]) -> None:
        super().__init__(broker)
        self._listed = listed

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return self._listed


def test_a_topic_that_is_listed_and_not_found_may_come_back() -> None:
    world = Broker()
    world.write(1)
    listed = world.admin.topics([TOPIC])
    world.admin.delete_topic(TOPIC)
    world.admin = AdminThatStillLists(world.broker, listed)

    with pytest.raises(BrokerUnavailable, match=f"topic {TOPIC} is listed, and its bounds are not known"):
        world.take()
