"""The Kafka transport at the edges of librdkafka: nothing is skipped, and nothing fails in silence."""

import ctypes
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import confluent_kafka
import pytest

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import (
    Assignor,
    AuthenticationFailed,
    BrokerTooOld,
    BrokerUnavailable,
    CommittedOffset,
    NotAuthorized,
    OffsetOutOfRange,
    Record,
    RecordTooLarge,
    TopicPartition,
    TransportError,
    UnknownTopic,
    Watermarks,
)
from tests.contract.transport_contract import Deliveries, make_topic, unique, write
from tests.eventually import eventually
from tools.kafka import Broker, OldBroker

_QUICK = {"topic.metadata.refresh.interval.ms": "1000"}
_QUICK_CLASSIC = _QUICK | {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}

#: How a member of a group may come by its partitions.
MEMBERSHIPS = [
    pytest.param("classic", Assignor.RANGE, id="eager"),
    pytest.param("classic", Assignor.COOPERATIVE_STICKY, id="cooperative"),
    pytest.param("consumer", Assignor.RANGE, id="consumer-protocol"),
]
membership = pytest.mark.parametrize(("protocol", "assignor"), MEMBERSHIPS)


def settings_for(bootstrap: str, protocol: str = "classic", **kafka: object) -> StreamConfig:
    settings = KafkaSettings(
        bootstrap=bootstrap, group_protocol=protocol, consumer=_QUICK_CLASSIC if protocol == "classic" else _QUICK
    )
    return StreamConfig(kafka=replace(settings, **kafka))  # type: ignore[arg-type]


@pytest.fixture
def open_transport() -> Iterator[Callable[..., KafkaTransport]]:
    opened: list[KafkaTransport] = []

    def open_one(bootstrap: str, protocol: str = "classic", **kafka: object) -> KafkaTransport:
        opened.append(KafkaTransport(settings_for(bootstrap, protocol, **kafka)))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


OpenTransport = Callable[..., KafkaTransport]


class Member:
    """A member of a group that notes what it reads, what is raised, and how its partitions come and go."""

    def __init__(self, transport: KafkaTransport, topic: str, assignor: Assignor, group: str = "") -> None:
        self.consumer = transport.consumer(group or unique("group"), assignor=assignor)
        self.topic = topic
        self.offsets: dict[int, list[int]] = {}
        self.raised: list[Exception] = []
        self.events: list[tuple[str, list[int]]] = []
        self.refusals: list[Exception] = []
        self.starts: Mapping[TopicPartition, int] | None = None
        self.consumer.subscribe([topic], listener=self)

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        self.events.append(("assigned", sorted(partition.partition for partition in partitions)))
        if self.refusals:
            raise self.refusals.pop()
        return self.starts

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(partition.partition for partition in partitions)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", sorted(partition.partition for partition in partitions)))

    def read(self) -> list[Record]:
        try:
            records = self.consumer.consume(100, 0.05)
        except TransportError as error:
            self.raised.append(error)
            return []
        for record in records:
            self.offsets.setdefault(record.partition, []).append(record.offset)
        return records

    def read_until(self, condition: Callable[[], object]) -> None:
        eventually(lambda: (self.read(), condition())[1])

    def where(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)


def ten_records_in(transport: KafkaTransport, partitions: int) -> str:
    topic = make_topic(transport, partitions=partitions)
    for number in range(partitions):
        write(transport, topic, *[b"%d" % offset for offset in range(10)], partition=number)
    return topic


# --- positions --------------------------------------------------------------------------------------------------


@membership
def test_a_member_outside_the_log_reads_on_where_it_seeks_and_its_other_partitions_where_they_were(
    kafka_bootstrap: str, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(kafka_bootstrap, protocol)
    topic = ten_records_in(transport, 3)
    member = Member(transport, topic, assignor)
    member.read_until(lambda: sum(map(len, member.offsets.values())) == 30)
    member.consumer.pause([member.where(2)])
    member.offsets.clear()

    member.consumer.seek(member.where(0), 99)
    with pytest.raises(OffsetOutOfRange) as caught:
        eventually(lambda: member.consumer.consume(100, 0.05) is None)
    with pytest.raises(OffsetOutOfRange):
        member.consumer.consume(100, 0.05)
    member.consumer.seek(member.where(1), 4)
    member.consumer.seek(member.where(0), 7)
    write(transport, topic, b"10", partition=2)
    member.read_until(lambda: len(member.offsets.get(0, ())) >= 3 and len(member.offsets.get(1, ())) >= 6)
    assert 2 not in member.offsets
    member.consumer.resume([member.where(2)])
    member.read_until(lambda: 2 in member.offsets)

    assert (caught.value.partition, caught.value.offset) == (member.where(0), 99)
    assert caught.value.bounds == Watermarks(low=0, high=10)
    assert member.offsets == {0: [7, 8, 9], 1: [4, 5, 6, 7, 8, 9], 2: [10]}


@membership
def test_a_seek_holds_whether_the_partition_is_paused_before_or_after_it(
    kafka_bootstrap: str, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(kafka_bootstrap, protocol)
    member = Member(transport, ten_records_in(transport, 2), assignor)
    member.read_until(lambda: sum(map(len, member.offsets.values())) == 20)
    member.offsets.clear()

    before, after = member.where(0), member.where(1)
    member.consumer.pause([before])
    member.consumer.seek(before, 3)
    member.consumer.seek(after, 6)
    member.consumer.pause([after])
    member.read()
    member.consumer.resume([before, after])
    member.read_until(lambda: len(member.offsets.get(0, ())) >= 7 and len(member.offsets.get(1, ())) >= 4)

    assert member.offsets == {0: [3, 4, 5, 6, 7, 8, 9], 1: [6, 7, 8, 9]}


def test_an_offset_out_of_range_of_a_log_whose_bounds_nobody_tells_is_not_told_with_guessed_ones(
    kafka_bootstrap: str, open_transport: OpenTransport
) -> None:
    """A reader that continues at the log's beginning must not be sent to its end."""
    transport = open_transport(kafka_bootstrap)
    member = Member(transport, ten_records_in(transport, 1), Assignor.RANGE)
    member.read_until(lambda: len(member.offsets.get(0, ())) == 10)
    admin = transport.admin()
    answers: list[Watermarks | Exception] = [Watermarks(low=0, high=10), BrokerUnavailable("no answer")]

    def bounds_of(partition: TopicPartition) -> Watermarks:
        answer = answers.pop() if answers else admin.watermarks(partition)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reader = transport.consumer(None)
    reader._bounds_of = bounds_of
    reader.assign({member.where(0): 99})

    raised: list[Exception] = []

    def read() -> bool:
        try:
            reader.consume(1, 0.05)
        except TransportError as error:
            raised.append(error)
        return len(raised) == 2

    eventually(read)
    unknown, known = raised
    assert isinstance(unknown, BrokerUnavailable)
    assert isinstance(known, OffsetOutOfRange)
    assert known.bounds == Watermarks(low=0, high=10)


# --- rebalances -------------------------------------------------------------------------------------------------


@membership
def test_partitions_that_a_listener_could_not_take_stay_silent_and_are_offered_again(
    kafka_bootstrap: str, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(kafka_bootstrap, protocol)
    member = Member(transport, ten_records_in(transport, 2), assignor)
    member.refusals = [BrokerUnavailable("not now") for _ in range(3)]
    member.starts = {member.where(0): 4, member.where(1): 7}

    member.read_until(lambda: len(member.raised) == 3)
    silent = dict(member.offsets)
    member.read_until(lambda: sum(map(len, member.offsets.values())) >= 9)
    write(transport, member.topic, b"10", partition=1)
    member.read_until(lambda: member.offsets[1][-1] == 10)

    assert silent == {}
    assert member.offsets == {0: [4, 5, 6, 7, 8, 9], 1: [7, 8, 9, 10]}
    assert [str(error) for error in member.raised] == ["not now"] * 3
    assert member.events == [("assigned", [0, 1])] * 4


@membership
def test_a_topic_that_is_recreated_while_it_is_read_is_read_from_its_beginning(
    kafka_bootstrap: str, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(kafka_bootstrap, protocol)
    member = Member(transport, ten_records_in(transport, 1), assignor)
    partition = member.where(0)
    member.read_until(lambda: len(member.offsets.get(0, ())) == 10)
    member.consumer.commit({partition: CommittedOffset(offset=10)}, wait=True)
    # Known to the consumer by now, however busy the machine is.
    member.read_until(lambda: member.topic in member.consumer._topic_ids._known)

    transport.admin().delete_topic(member.topic)
    make_topic(transport, name=member.topic)
    other = open_transport(kafka_bootstrap)
    write(other, member.topic, *[b"new"] * 20)
    member.read_until(lambda: member.offsets[0][-20:] == list(range(20)))
    of_the_old_one = member.consumer.committed([partition])
    member.consumer.commit({partition: CommittedOffset(offset=20)}, wait=True)

    assert of_the_old_one == {}
    assert member.consumer.committed([partition]) == {partition: CommittedOffset(offset=20)}
    # It may have been seen while it was gone, or while the new one was shorter than the old.
    assert [error for error in member.raised if not isinstance(error, UnknownTopic | OffsetOutOfRange)] == []


@membership
def test_a_topic_that_is_deleted_while_it_is_read_is_told_of(
    kafka_bootstrap: str, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(kafka_bootstrap, protocol)
    member = Member(transport, ten_records_in(transport, 1), assignor)
    member.read_until(lambda: len(member.offsets.get(0, ())) == 10)

    transport.admin().delete_topic(member.topic)
    member.read_until(lambda: member.raised)

    assert isinstance(member.raised[0], UnknownTopic)
    assert member.topic in str(member.raised[0])


# --- clients that fail for good ---------------------------------------------------------------------------------


def test_a_member_that_another_one_has_replaced_for_good_says_so_again_and_again(
    kafka_bootstrap: str, open_transport: OpenTransport
) -> None:
    transport = open_transport(kafka_bootstrap, instance_id="the one")
    again = open_transport(kafka_bootstrap, instance_id="the one")
    topic, group = ten_records_in(transport, 1), unique("group")
    first = Member(transport, topic, Assignor.RANGE, group)
    first.read_until(lambda: len(first.offsets.get(0, ())) == 10)

    second = Member(again, topic, Assignor.RANGE, group)
    eventually(lambda: (first.read(), second.read(), len(first.raised) >= 3)[2])

    assert all(type(error) is TransportError and "group.instance.id" in str(error) for error in first.raised)
    assert second.raised == []


def fail_for_good(client: confluent_kafka.Producer) -> None:
    """Let an idempotent producer fail as if its broker had lost the order: librdkafka's own way to try it."""
    (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*")
    out_of_order = 45
    handle = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    ctypes.CDLL(str(library)).rd_kafka_test_fatal_error(ctypes.c_void_p(handle), out_of_order, b"tried")


@pytest.mark.parametrize("notices", ["poll", "produce"])
def test_a_producer_that_failed_for_good_reports_what_it_held_and_writes_again(
    kafka_bootstrap: str, open_transport: OpenTransport, notices: str
) -> None:
    transport = open_transport(kafka_bootstrap)
    topic = make_topic(transport)
    producer, held, later = transport.producer(), Deliveries(), Deliveries()
    producer.produce(topic, b"first")
    assert producer.flush(15.0) == 0
    for _ in range(5):
        producer.produce(topic, b"held", on_delivery=held)
    fail_for_good(producer._client)

    if notices == "poll":
        producer.poll(0.1)
    producer.produce(topic, b"later", on_delivery=later)
    assert producer.flush(15.0) == 0

    # Unacknowledged records are reported to the caller, which sends them again.
    assert len(held.heard) == 5
    assert {type(error) for error, _, _ in held.heard if error is not None} <= {BrokerUnavailable}
    assert [(error, partition) for error, partition, _ in later.heard] == [(None, TopicPartition(topic, 0))]


# --- what topics take -------------------------------------------------------------------------------------------


def test_a_topic_that_takes_less_than_it_did_is_told_with_the_records_own_size(
    kafka_bootstrap: str, open_transport: OpenTransport
) -> None:
    transport = open_transport(kafka_bootstrap)
    topic = make_topic(transport, max_message_bytes="2000")
    producer, deliveries = transport.producer(), Deliveries()
    producer._limits[topic] = 1_000_000  # As it was when this producer looked.

    producer.produce(topic, b"v" * 5000, on_delivery=deliveries)
    producer.flush(15.0)
    with pytest.raises(RecordTooLarge) as caught:
        producer.produce(topic, b"v" * 5000)

    ((reported, _, _),) = deliveries.heard
    assert isinstance(reported, RecordTooLarge)
    assert reported.size == 5000
    assert caught.value.limit == 2000


# --- outages, strangers -----------------------------------------------------------------------------------------


def test_a_transport_forgets_the_clients_that_were_closed(kafka_bootstrap: str, open_transport: OpenTransport) -> None:
    transport = open_transport(kafka_bootstrap)
    for _ in range(3):
        transport.consumer(None).close()
        transport.producer().close()

    assert len(transport._clients) == 0


@pytest.mark.long
@membership
def test_leaving_and_committing_while_the_broker_is_away_end_in_time(
    own_broker: Broker, open_transport: OpenTransport, protocol: str, assignor: Assignor
) -> None:
    transport = open_transport(own_broker.bootstrap, protocol)
    member = Member(transport, ten_records_in(transport, 1), assignor)
    member.read_until(lambda: len(member.offsets.get(0, ())) == 10)
    own_broker.kill()
    member.read_until(lambda: any(isinstance(error, BrokerUnavailable) for error in member.raised))

    began_s = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        member.consumer.commit({member.where(0): CommittedOffset(offset=10)}, wait=True)
    member.consumer.close()
    transport.close()

    assert time.monotonic() - began_s < 20
    assert own_broker.bootstrap in str(member.raised[-1])


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory, broker_installed: None) -> Iterator[Broker]:
    with Broker.start(tmp_path_factory.mktemp("edges") / "broker", scram_users={"clerk": "right-one"}) as broker:
        yield broker


def login(password: str, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "clerk",
        "sasl.password": password,
        **more,
    }


@pytest.mark.long
def test_a_port_that_asks_for_a_login_gives_a_hint_to_whoever_comes_without(
    guarded_broker: Broker, open_transport: OpenTransport
) -> None:
    with pytest.raises(BrokerUnavailable, match=r"security\.protocol") as caught:
        open_transport(guarded_broker.sasl_bootstrap, connect_timeout_s=4)

    assert guarded_broker.sasl_bootstrap in str(caught.value)


@pytest.mark.long
def test_a_login_at_a_port_that_asks_for_none_is_refused_with_a_hint(
    guarded_broker: Broker, open_transport: OpenTransport
) -> None:
    with pytest.raises(AuthenticationFailed, match=r"security\.protocol"):
        open_transport(guarded_broker.bootstrap, client=login("right-one"), connect_timeout_s=30)


@pytest.mark.long
def test_bounds_of_a_topic_that_the_user_may_not_see_are_refused(
    guarded_broker: Broker, open_transport: OpenTransport
) -> None:
    owner = open_transport(guarded_broker.bootstrap)
    topic = make_topic(owner, partitions=1)
    stranger = open_transport(guarded_broker.sasl_bootstrap, client=login("right-one"))

    with pytest.raises(NotAuthorized, match=topic):
        stranger.admin().watermarks(TopicPartition(topic, 0))


@pytest.mark.long
def test_a_writer_without_any_permission_is_told_so_and_not_that_the_broker_is_away(
    guarded_broker: Broker, open_transport: OpenTransport
) -> None:
    topic = make_topic(open_transport(guarded_broker.bootstrap))
    producer = open_transport(guarded_broker.sasl_bootstrap, client=login("right-one")).producer()
    producer._limits[topic] = 1000
    producer.produce(topic, b"v")

    with pytest.raises(NotAuthorized):
        eventually(lambda: producer.poll(0.05) < 0)


@pytest.mark.long
def test_an_old_broker_is_refused_before_anything_is_done_with_it(
    tmp_path: Path, broker_installed: None, open_transport: OpenTransport
) -> None:
    with OldBroker.start(tmp_path / "old") as broker, pytest.raises(BrokerTooOld, match=broker.bootstrap):
        open_transport(broker.bootstrap)


@pytest.mark.long
def test_what_ends_a_transaction_is_no_record_that_waits(kafka_bootstrap: str, kafka_prefix: str) -> None:
    topic = f"{kafka_prefix}ended"
    transport = KafkaTransport(StreamConfig(prefix=kafka_prefix, kafka=KafkaSettings(bootstrap=kafka_bootstrap)))
    transport.admin().create_topic(topic, partitions=1)
    writer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_bootstrap, "transactional.id": kafka_prefix, "log_level": 0}
    )
    writer.init_transactions(30)
    for is_committed in (True, False):
        writer.begin_transaction()
        writer.produce(topic, b"v")
        writer.flush(30)
        writer.commit_transaction(30) if is_committed else writer.abort_transaction(30)
    partition = TopicPartition(topic, 0)
    reader = transport.consumer(None)
    reader.assign({partition: 0})
    eventually(lambda: bool(reader.consume(10, 0.2)), 60)

    def has_told() -> bool:
        assert reader.consume(10, 0.2) == []
        view = reader.view()
        # Two records and what ended each of their transactions.
        return view.bounds.get(partition) == Watermarks(low=0, high=4) and view.unfetched == 0

    eventually(has_told, 60)
    transport.close()


@pytest.mark.parametrize("is_member", [False, True], ids=["a reader", "a member"])
def test_a_closed_consumer_is_freed_without_the_garbage_collector(
    kafka_bootstrap: str, open_transport: Callable[..., KafkaTransport], is_member: bool
) -> None:
    transport = open_transport(kafka_bootstrap)
    topic = make_topic(transport, partitions=1)

    def use_one() -> None:
        consumer = transport.consumer(unique("readers") if is_member else None)
        if is_member:
            consumer.subscribe([topic])
        else:
            consumer.assign({TopicPartition(topic, 0): 0})
        consumer.poll(0.1)
        consumer.close()

    def clients() -> int:
        return sum(issubclass(type(thing), confluent_kafka.Consumer) for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = clients()
        for _ in range(3):
            use_one()
        assert clients() == before
    finally:
        gc.enable()


def test_a_closed_producer_is_freed_without_the_garbage_collector(
    kafka_bootstrap: str, open_transport: Callable[..., KafkaTransport]
) -> None:
    transport = open_transport(kafka_bootstrap)
    topic = make_topic(transport, partitions=1)

    def use_one() -> None:
        producer, delivered = transport.producer(), Deliveries()
        producer.produce(topic, b"1", on_delivery=delivered)
        producer.close()

    def clients() -> int:
        return sum(issubclass(type(thing), confluent_kafka.Producer) for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = clients()
        for _ in range(3):
            use_one()
        assert clients() == before
    finally:
        gc.enable()


def test_a_closed_transport_leaves_no_thread_of_a_client_to_what_still_refers_to_it(kafka_bootstrap: str) -> None:
    def client_threads() -> int:
        # A thread may end while its name is read.
        names = [task.name for task in Path("/proc/self/task").iterdir() if _name_of(task).startswith("rdk:")]
        return len(names)

    gc.collect()
    before = client_threads()
    transport = KafkaTransport(settings_for(kafka_bootstrap))
    topic = make_topic(transport, partitions=1)
    producer, consumer, admin = transport.producer(), transport.consumer(None), transport.admin()
    write(transport, topic, b"1")
    consumer.assign({TopicPartition(topic, 0): 0})
    assert client_threads() > before

    transport.close()

    eventually(lambda: client_threads() <= before, 20)
    with pytest.raises(TransportError, match="this producer is closed"):
        producer.produce(topic, b"2")
    with pytest.raises(TransportError, match="this admin client is closed"):
        admin.topic_names()
    assert (producer.poll(0), producer.flush(1)) == (0, 0)


def _name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""
