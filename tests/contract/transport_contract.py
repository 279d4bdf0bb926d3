"""The contract of every transport, whichever broker keeps the records.

Inherit TransportContract and give a `transport` fixture. Names of topics and groups are drawn, so that one broker
serves a whole test session.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

import pytest

from afl_stream.transport import (
    Assignor,
    CommittedOffset,
    Consumer,
    OffsetOutOfRange,
    Producer,
    Record,
    RecordTooLarge,
    Start,
    TopicExists,
    TopicPartition,
    Transport,
    TransportError,
    UnknownTopic,
    Watermarks,
)
from tests.eventually import eventually

#: murmur2 of these keys, from Kafka's own tests of its clients.
MURMUR2_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def unique(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:12]}"


def make_topic(transport: Transport, partitions: int = 1, name: str = "", **settings: str) -> str:
    """Create a topic; settings are written with underscores."""
    name = name or unique("topic")
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    transport.admin().create_topic(name, partitions=partitions, settings=dotted)
    eventually(lambda: name in transport.admin().topics())
    return name


class Deliveries:
    """A delivery callback that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Exception | None, TopicPartition, int]] = []

    def __call__(self, error: Exception | None, partition: TopicPartition, offset: int) -> None:
        self.heard.append((error, partition, offset))


#: One writer for each transport: a new producer of Kafka's waits half a second for its id.
_WRITERS: WeakKeyDictionary[Transport, Producer] = WeakKeyDictionary()


def write(
    transport: Transport, topic: str, *values: bytes, key: bytes | None = None, partition: int | None = 0
) -> None:
    producer = _WRITERS.get(transport)
    if producer is None:
        producer = _WRITERS[transport] = transport.producer()
    for value in values:
        producer.produce(topic, value, key=key, partition=partition)
    assert producer.flush(15.0) == 0


class Reader:
    """A consumer with its listener, and all that it saw."""

    def __init__(self, consumer: Consumer, starts: Mapping[TopicPartition, int] | None = None) -> None:
        self.consumer = consumer
        self.records: list[Record] = []
        self.events: list[tuple[str, TopicPartition]] = []
        self.starts = starts
        self.when_revoked: Callable[[Sequence[TopicPartition]], None] = lambda partitions: None

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        self.events += [("assigned", partition) for partition in partitions]
        if self.starts is None:
            return None
        return {partition: self.starts[partition] for partition in partitions if partition in self.starts}

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events += [("revoked", partition) for partition in partitions]
        self.when_revoked(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events += [("lost", partition) for partition in partitions]

    def pump(self) -> None:
        self.records += self.consumer.consume(500, 0.02)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


def pump_until(condition: Callable[[], object], *readers: Reader) -> None:
    """Let all readers poll in turn until the condition holds."""

    def turn() -> object:
        for reader in readers:
            reader.pump()
        return condition()

    eventually(turn)


class TransportContract:
    """Inherit, and give a `transport` fixture."""

    def reader(
        self,
        transport: Transport,
        *topics: str,
        group: str,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
        pattern: str | None = None,
        starts: Mapping[TopicPartition, int] | None = None,
    ) -> Reader:
        reader = Reader(transport.consumer(group, client_id=client_id, assignor=assignor, start=start), starts)
        reader.consumer.subscribe(topics, pattern=pattern, listener=reader)
        return reader

    def produce_error(self, transport: Transport, topic: str, value: bytes) -> Exception | None:
        """Return the error of producing one record, whether it is raised at once or handed to the callback."""
        producer, deliveries = transport.producer(), Deliveries()
        try:
            producer.produce(topic, value, on_delivery=deliveries)
        except TransportError as error:
            return error
        producer.flush(15.0)
        return deliveries.heard[0][0]

    # Records

    def test_a_reader_of_its_own_knows_where_it_stands(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"a", b"b", b"c")
        partition, consumer = TopicPartition(topic, 0), transport.consumer(None)
        consumer.assign({partition: 1})
        read: list[Record] = []

        def reads() -> int:
            read.extend(consumer.consume(10, 0.02))
            return consumer.position(partition)

        eventually(lambda: reads() == 3)
        assert [record.value for record in read] == [b"b", b"c"]
        consumer.seek(partition, 0)
        eventually(lambda: reads() == 3)
        assert [record.value for record in read[2:]] == [b"a", b"b", b"c"]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (b"k", b"v"),
            (b"k", None),
            (b"", b""),
            (None, b"v"),
            (b"\xff\xfe\x00", b"\x00\xff" * 100),
            (b"k", b"v" * 70_000),
        ],
    )
    def test_a_record_comes_back_as_it_was_written(
        self, transport: Transport, key: bytes | None, value: bytes | None
    ) -> None:
        topic = make_topic(transport)
        producer = transport.producer()
        headers = (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("raw", b"\xff\x00"), ("null", None))
        producer.produce(topic, value, key=key, headers=headers)
        assert producer.flush(15.0) == 0

        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: reader.records, reader)
        record = reader.records[0]

        assert (record.key, record.value, record.headers) == (key, value, headers)
        assert (record.topic_partition, record.offset) == (TopicPartition(topic, 0), 0)
        assert abs(record.timestamp_ms - time.time() * 1000) < 60_000

    def test_a_partition_keeps_the_order_of_its_records(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=3)
        values = [b"%d" % number for number in range(500)]
        write(transport, topic, *values, partition=1)

        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) >= 500, reader)

        assert reader.values == values
        assert [record.offset for record in reader.records] == list(range(500))
        assert {record.partition for record in reader.records} == {1}

    def test_the_partition_of_a_key_is_that_of_java_clients(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=7)
        for key in MURMUR2_VECTORS:
            write(transport, topic, b"1", b"2", key=key, partition=None)

        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) >= 2 * len(MURMUR2_VECTORS), reader)

        assert {(record.key, record.partition) for record in reader.records} == {
            (key, (hashed & 0x7FFFFFFF) % 7) for key, hashed in MURMUR2_VECTORS.items()
        }

    def test_a_delivery_is_reported_with_the_place_of_a_record_that_is_there(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        producer, deliveries = transport.producer(), Deliveries()
        producer.produce(topic, b"first", partition=1, on_delivery=deliveries)
        producer.produce(topic, b"second", partition=1, on_delivery=deliveries)

        eventually(lambda: producer.poll(0.01) == 0 and len(deliveries.heard) == 2)

        partition = TopicPartition(topic, 1)
        assert deliveries.heard == [(None, partition, 0), (None, partition, 1)]
        assert transport.consumer(None).watermarks(partition) == Watermarks(low=0, high=2)

    def test_flush_leaves_nothing_queued_and_runs_the_callbacks(self, transport: Transport) -> None:
        topic = make_topic(transport)
        producer, deliveries = transport.producer(), Deliveries()
        for _ in range(100):
            producer.produce(topic, b"v", on_delivery=deliveries)

        assert producer.flush(15.0) == 0
        assert sorted(offset for _, _, offset in deliveries.heard) == list(range(100))

    def test_producing_to_a_topic_that_is_not_there_is_an_error(self, transport: Transport) -> None:
        assert isinstance(self.produce_error(transport, unique("missing"), b"v"), UnknownTopic)

    def test_a_record_over_the_topics_limit_is_refused(self, transport: Transport) -> None:
        topic = make_topic(transport, max_message_bytes="2000")

        assert isinstance(self.produce_error(transport, topic, b"v" * 5000), RecordTooLarge)
        assert self.produce_error(transport, topic, b"v" * 1000) is None

    # Groups

    def test_a_group_continues_where_it_committed(self, transport: Transport) -> None:
        topic, group = make_topic(transport), unique("group")
        partition = TopicPartition(topic, 0)
        write(transport, topic, b"0", b"1", b"2", b"3")
        first = self.reader(transport, topic, group=group)
        pump_until(lambda: len(first.records) >= 4, first)
        first.consumer.commit({partition: CommittedOffset(offset=2, metadata="done: 3")}, wait=True)
        first.consumer.close()

        second = self.reader(transport, topic, group=group)
        pump_until(lambda: len(second.records) >= 2, second)

        assert second.values == [b"2", b"3"]
        assert second.consumer.committed([partition]) == {partition: CommittedOffset(offset=2, metadata="done: 3")}

    def test_records_that_were_not_committed_come_again(self, transport: Transport) -> None:
        topic, group = make_topic(transport), unique("group")
        write(transport, topic, b"0", b"1")
        first = self.reader(transport, topic, group=group)
        pump_until(lambda: len(first.records) >= 2, first)
        first.consumer.close()

        second = self.reader(transport, topic, group=group)
        pump_until(lambda: len(second.records) >= 2, second)

        assert second.values == [b"0", b"1"]
        assert second.consumer.committed([TopicPartition(topic, 0)]) == {}

    def test_a_commit_that_does_not_wait_arrives(self, transport: Transport) -> None:
        topic, group = make_topic(transport), unique("group")
        partition = TopicPartition(topic, 0)
        write(transport, topic, b"0")
        reader = self.reader(transport, topic, group=group)
        pump_until(lambda: reader.records, reader)

        reader.consumer.commit({partition: CommittedOffset(offset=1)})

        pump_until(lambda: reader.consumer.committed([partition]) == {partition: CommittedOffset(offset=1)}, reader)

    @pytest.mark.parametrize("assignor", list(Assignor))
    def test_two_members_share_the_partitions_and_each_record_goes_to_one(
        self, transport: Transport, assignor: Assignor
    ) -> None:
        topic, group = make_topic(transport, partitions=4), unique("group")
        one = self.reader(transport, topic, group=group, client_id="one", assignor=assignor)
        two = self.reader(transport, topic, group=group, client_id="two", assignor=assignor)
        pump_until(lambda: len(one.consumer.assignment()) == len(two.consumer.assignment()) == 2, one, two)
        assert not one.consumer.assignment() & two.consumer.assignment()

        values = [b"%d" % number for number in range(40)]
        for number in range(4):
            write(transport, topic, *values[number::4], partition=number)
        pump_until(lambda: len(one.records) + len(two.records) >= 40, one, two)

        assert len(one.records) == len(two.records) == 20
        assert {*one.values, *two.values} == set(values)

    @pytest.mark.parametrize("assignor", list(Assignor))
    def test_a_member_that_leaves_gives_its_partitions_back(self, transport: Transport, assignor: Assignor) -> None:
        topic, group = make_topic(transport, partitions=4), unique("group")
        one = self.reader(transport, topic, group=group, client_id="one", assignor=assignor)
        two = self.reader(transport, topic, group=group, client_id="two", assignor=assignor)
        pump_until(lambda: len(one.consumer.assignment()) == len(two.consumer.assignment()) == 2, one, two)
        held = two.consumer.assignment()

        two.consumer.close()

        assert {partition for event, partition in two.events if event == "revoked"} >= held
        pump_until(lambda: len(one.consumer.assignment()) == 4, one)

    def test_range_gives_a_member_the_same_partition_of_each_topic(self, transport: Transport) -> None:
        topics = [make_topic(transport, partitions=4) for _ in range(3)]
        group = unique("group")
        members = [
            self.reader(transport, *topics, group=group, client_id=name, assignor=Assignor.RANGE)
            for name in ("one", "two", "three")
        ]
        pump_until(lambda: sorted(len(m.consumer.assignment()) for m in members) == [3, 3, 6], *members)

        for member in members:
            numbers = [{w.partition for w in member.consumer.assignment() if w.topic == topic} for topic in topics]
            assert numbers[0] == numbers[1] == numbers[2]

    def test_offsets_given_at_assignment_win_over_committed_ones(self, transport: Transport) -> None:
        topic, group = make_topic(transport, partitions=2), unique("group")
        given, committed = TopicPartition(topic, 0), TopicPartition(topic, 1)
        for number in (0, 1):
            write(transport, topic, b"0", b"1", b"2", partition=number)
        first = self.reader(transport, topic, group=group)
        pump_until(lambda: len(first.records) >= 6, first)
        first.consumer.commit({given: CommittedOffset(offset=2), committed: CommittedOffset(offset=2)}, wait=True)
        first.consumer.close()

        second = self.reader(transport, topic, group=group, starts={given: 1})
        pump_until(lambda: len(second.records) >= 3, second)

        assert sorted((r.partition, r.offset) for r in second.records) == [(0, 1), (0, 2), (1, 2)]

    @pytest.mark.parametrize("assignor", list(Assignor))
    def test_a_member_may_commit_what_it_is_losing_and_the_next_one_starts_there(
        self, transport: Transport, assignor: Assignor
    ) -> None:
        topic, group = make_topic(transport, partitions=2), unique("group")
        for number in (0, 1):
            write(transport, topic, b"old", b"old", partition=number)
        one = self.reader(transport, topic, group=group, client_id="one", assignor=assignor)
        pump_until(lambda: len(one.records) >= 4, one)
        one.when_revoked = lambda partitions: one.consumer.commit(
            {partition: CommittedOffset(offset=2) for partition in partitions}, wait=True
        )
        two = self.reader(transport, topic, group=group, client_id="two", assignor=assignor)
        two.events = one.events
        pump_until(lambda: len(two.consumer.assignment()) == len(one.consumer.assignment()) == 1, one, two)
        (moved,) = two.consumer.assignment()
        for number in (0, 1):
            write(transport, topic, b"new", partition=number)
        pump_until(lambda: two.records and len(one.records) >= 5, one, two)

        assert two.values == [b"new"]
        assert one.events.index(("revoked", moved)) < len(one.events) - 1 - one.events[::-1].index(("assigned", moved))

    def test_two_groups_both_see_everything(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1")
        readers = [self.reader(transport, topic, group=unique("group")) for _ in range(2)]

        pump_until(lambda: all(len(reader.records) >= 2 for reader in readers), *readers)

        assert [reader.values for reader in readers] == [[b"0", b"1"], [b"0", b"1"]]

    def test_a_group_that_starts_at_the_end_sees_only_what_is_new(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"old")
        reader = self.reader(transport, topic, group=unique("group"), start=Start.LATEST)
        pump_until(reader.consumer.assignment, reader)

        def new_is_seen() -> bool:
            write(transport, topic, b"new")
            return bool(reader.records)

        pump_until(new_is_seen, reader)
        assert set(reader.values) == {b"new"}

    def test_a_pattern_finds_a_topic_that_is_created_later(self, transport: Transport) -> None:
        prefix = unique("events")
        early = make_topic(transport, name=f"{prefix}.early")
        other = make_topic(transport, name=f"other.{prefix}.early")
        reader = self.reader(transport, group=unique("group"), pattern=f"^{prefix}\\..*")
        pump_until(reader.consumer.assignment, reader)

        late = make_topic(transport, name=f"{prefix}.late")
        for topic in (early, late, other):
            write(transport, topic, topic.encode())
        pump_until(lambda: len(reader.records) >= 2, reader)

        assert sorted(record.topic for record in reader.records) == [early, late]

    def test_subscribing_to_a_topic_that_is_not_there_is_an_error_of_poll(self, transport: Transport) -> None:
        missing = unique("missing")
        reader = self.reader(transport, missing, group=unique("group"))

        with pytest.raises(UnknownTopic) as caught:
            pump_until(lambda: False, reader)
        assert caught.value.topic == missing

    # Positions

    def test_a_paused_partition_is_silent_until_it_is_resumed(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.consumer.assignment()) == 2, reader)
        reader.consumer.pause([TopicPartition(topic, 0)])
        for number in (0, 1):
            write(transport, topic, b"a", b"b", partition=number)
        pump_until(lambda: len(reader.records) >= 2, reader)
        for _ in range(5):
            reader.pump()
        assert {record.partition for record in reader.records} == {1}
        assert len(reader.consumer.assignment()) == 2

        reader.consumer.resume([TopicPartition(topic, 0)])
        pump_until(lambda: len(reader.records) >= 4, reader)

        assert [record.value for record in reader.records if record.partition == 0] == [b"a", b"b"]

    def test_a_seek_moves_the_position(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1", b"2")
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) >= 3, reader)

        reader.consumer.seek(TopicPartition(topic, 0), 1)
        pump_until(lambda: len(reader.records) >= 5, reader)

        assert reader.values[3:] == [b"1", b"2"]

    def test_a_member_of_a_group_knows_where_it_stands(self, transport: Transport) -> None:
        topic = make_topic(transport)
        partition = TopicPartition(topic, 0)
        write(transport, topic, b"0", b"1", b"2")
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) >= 3, reader)
        assert reader.consumer.position(partition) == 3

        reader.consumer.seek(partition, 1)
        pump_until(lambda: len(reader.records) >= 5, reader)

        assert reader.consumer.position(partition) == 3

    def test_watermarks_are_the_bounds_of_the_log(self, transport: Transport) -> None:
        topic = make_topic(transport)
        consumer = transport.consumer(None)
        assert consumer.watermarks(TopicPartition(topic, 0)) == Watermarks(low=0, high=0)

        write(transport, topic, b"0", b"1")

        assert consumer.watermarks(TopicPartition(topic, 0)) == Watermarks(low=0, high=2)

    def test_a_time_has_the_offset_of_the_first_record_that_is_not_older(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        partition, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
        for number in range(3):
            write(transport, topic, b"%d" % number)
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) == 3, reader)
        times = [record.timestamp_ms for record in reader.records]
        consumer = transport.consumer(None)

        for time_ms in times:
            first = next(offset for offset, written_ms in enumerate(times) if written_ms >= time_ms)
            assert consumer.offsets_for_times({partition: time_ms}) == {partition: first}
        assert consumer.offsets_for_times({partition: 0, empty: 0}) == {partition: 0, empty: 0}
        assert consumer.offsets_for_times({partition: -1}) == {partition: 0}
        assert consumer.offsets_for_times({}) == {}
        assert consumer.offsets_for_times({partition: times[-1] + 3_600_000}) == {partition: 3}

    def test_a_view_tells_the_bounds_of_what_is_held_and_that_nothing_waits_once_all_is_read(
        self, transport: Transport
    ) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, b"a", b"b", partition=0)
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.records) == 2 and len(reader.consumer.assignment()) == 2, reader)

        def has_told() -> bool:
            view = reader.consumer.view()
            return view.is_reported and len(view.bounds) == 2 and not view.unfetched and not view.unanswered_s

        pump_until(has_told, reader)

        assert reader.consumer.view().bounds == {
            TopicPartition(topic, 0): Watermarks(low=0, high=2),
            TopicPartition(topic, 1): Watermarks(low=0, high=0),
        }

    def test_a_view_does_not_count_what_a_paused_partition_leaves_in_the_log(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: len(reader.consumer.assignment()) == 2, reader)
        reader.consumer.pause([TopicPartition(topic, 0)])
        write(transport, topic, b"a", b"b", partition=0)

        def knows() -> bool:
            bounds = reader.consumer.view().bounds
            return bounds.get(TopicPartition(topic, 0)) == Watermarks(low=0, high=2)

        pump_until(knows, reader)

        assert reader.consumer.view().unfetched == 0

    def test_partitions_can_be_read_without_a_group(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        for number in (0, 1):
            write(transport, topic, b"0", b"1", partition=number)
        reader = Reader(transport.consumer(None))
        partition = TopicPartition(topic, 1)

        reader.consumer.assign({partition: 1})
        pump_until(lambda: reader.records, reader)

        assert [(record.partition, record.offset) for record in reader.records] == [(1, 1)]
        assert reader.consumer.assignment() == {partition}
        with pytest.raises(TransportError):
            reader.consumer.commit({partition: CommittedOffset(offset=2)}, wait=True)

    def test_more_partitions_can_be_read_without_a_group_while_the_others_continue(self, transport: Transport) -> None:
        first, second = make_topic(transport, partitions=2), make_topic(transport)
        write(transport, first, b"0", b"1", partition=0)
        write(transport, first, b"2", partition=1)
        reader = Reader(transport.consumer(None))
        reader.consumer.assign({TopicPartition(first, 0): Start.EARLIEST})
        pump_until(lambda: len(reader.records) == 2, reader)

        write(transport, second, b"3")
        reader.consumer.assign_more({TopicPartition(first, 1): Start.EARLIEST, TopicPartition(second, 0): 0})
        pump_until(lambda: len(reader.records) == 4, reader)
        write(transport, first, b"4", partition=0)
        pump_until(lambda: len(reader.records) == 5, reader)

        assert sorted(value or b"" for value in reader.values) == [b"0", b"1", b"2", b"3", b"4"]
        assert len(reader.consumer.assignment()) == 3

    def test_a_partition_that_is_assigned_again_begins_where_it_is_told_to(self, transport: Transport) -> None:
        topic = make_topic(transport)
        partition = TopicPartition(topic, 0)
        write(transport, topic, b"0", b"1", b"2")
        reader = Reader(transport.consumer(None))
        reader.consumer.assign({partition: 0})
        pump_until(lambda: len(reader.records) == 3, reader)
        reader.consumer.pause([partition])

        reader.consumer.assign_more({partition: 1})
        pump_until(lambda: len(reader.records) == 5, reader)

        assert reader.values == [b"0", b"1", b"2", b"1", b"2"]

    def test_reading_without_a_group_can_begin_at_the_end(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1")
        reader = Reader(transport.consumer(None))
        reader.consumer.assign({TopicPartition(topic, 0): Start.LATEST})
        number = 1

        def seen() -> bool:
            # Kafka looks for the end at the first fetch, at some time after the call.
            nonlocal number
            number += 1
            write(transport, topic, str(number).encode())
            reader.pump()
            return bool(reader.records)

        eventually(seen)
        assert reader.records[0].offset >= 2

    def test_a_partition_that_is_unassigned_is_read_no_longer(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        reader = Reader(transport.consumer(None))
        gone, kept = TopicPartition(topic, 0), TopicPartition(topic, 1)
        reader.consumer.assign({gone: 0, kept: 0})

        reader.consumer.unassign([gone])
        write(transport, topic, b"gone", partition=0)
        write(transport, topic, b"kept", partition=1)
        pump_until(lambda: reader.records, reader)

        assert reader.values == [b"kept"]
        assert reader.consumer.assignment() == {kept}

    def test_a_member_of_a_group_assigns_nothing_itself(self, transport: Transport) -> None:
        topic = make_topic(transport)
        partition = TopicPartition(topic, 0)
        member = self.reader(transport, topic, group=unique("group")).consumer

        calls: list[Callable[[], None]] = [
            lambda: member.assign({partition: 0}),
            lambda: member.assign_more({partition: 0}),
            lambda: member.unassign([partition]),
        ]
        for call in calls:
            with pytest.raises(TransportError, match="is given its partitions"):
                call()

    def test_an_offset_out_of_range_is_an_error_until_a_seek(self, transport: Transport) -> None:
        topic = make_topic(transport)
        partition = TopicPartition(topic, 0)
        write(transport, topic, b"0", b"1", b"2")
        reader = Reader(transport.consumer(None))
        reader.consumer.assign({partition: 99})

        with pytest.raises(OffsetOutOfRange) as caught:
            pump_until(lambda: False, reader)
        assert (caught.value.partition, caught.value.offset) == (partition, 99)
        assert caught.value.bounds == Watermarks(low=0, high=3)

        reader.consumer.seek(partition, 2)
        pump_until(lambda: reader.records, reader)
        assert reader.values == [b"2"]

    def test_consume_takes_what_is_there_and_does_not_wait_for_more(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1", b"2")
        consumer = transport.consumer(None)
        consumer.assign({TopicPartition(topic, 0): 0})
        began_s = time.monotonic()

        records = consumer.consume(100, 60.0)

        assert 1 <= len(records) <= 3
        assert time.monotonic() - began_s < 30.0

    def test_consume_gives_no_more_than_it_was_asked_for(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, *[b"v"] * 10)
        consumer = transport.consumer(None)
        consumer.assign({TopicPartition(topic, 0): 0})
        seen: list[int] = []

        def take() -> bool:
            batch = consumer.consume(4, 0.02)
            assert len(batch) <= 4
            seen.extend(record.offset for record in batch)
            return len(seen) == 10

        eventually(take)
        assert seen == list(range(10))

    def test_a_poll_that_may_not_wait_returns_nothing_when_nothing_is_there(self, transport: Transport) -> None:
        topic = make_topic(transport)
        consumer = transport.consumer(None)
        consumer.assign({TopicPartition(topic, 0): 0})

        assert consumer.poll(0) is None
        assert consumer.consume(10, 0) == []

    # Topics and the cluster

    def test_a_topic_is_described_as_it_was_created(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=3, retention_ms="3600000", cleanup_policy="compact")

        described = transport.admin().topics()[topic]

        assert (described.name, described.partitions, described.replication) == (topic, 3, 1)
        assert described.settings["retention.ms"] == "3600000"
        assert described.settings["cleanup.policy"] == "compact"

    def test_a_transport_that_makes_copies_tells_how_many_brokers_can_hold_them(self, transport: Transport) -> None:
        brokers = transport.admin().broker_count()

        assert brokers is None or brokers >= 1

    def test_a_topic_is_created_once(self, transport: Transport) -> None:
        topic = make_topic(transport)

        with pytest.raises(TopicExists):
            transport.admin().create_topic(topic, partitions=1)

    def test_a_deleted_topic_is_gone_and_begins_anew_when_it_is_created_again(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"old")
        transport.admin().delete_topic(topic)
        eventually(lambda: topic not in transport.admin().topics())

        make_topic(transport, name=topic)
        write(transport, topic, b"new")
        reader = self.reader(transport, topic, group=unique("group"))
        pump_until(lambda: reader.records, reader)

        assert [(record.offset, record.value) for record in reader.records] == [(0, b"new")]

    def recreated(self, transport: Transport, group: str) -> tuple[str, Reader]:
        """Return a topic of which a member has read two records, and that was recreated since, with three."""
        topic = make_topic(transport)
        write(transport, topic, b"old", b"old")
        reader = self.reader(transport, topic, group=group)
        pump_until(lambda: len(reader.records) == 2, reader)
        transport.admin().delete_topic(topic)
        make_topic(transport, name=topic)
        write(transport, topic, b"one", b"two", b"three")
        return topic, reader

    @pytest.mark.parametrize("wait", [True, False])
    def test_what_is_committed_for_a_topic_that_was_recreated_does_not_count(
        self, transport: Transport, wait: bool
    ) -> None:
        group = unique("group")
        topic, reader = self.recreated(transport, group)
        with suppress(TransportError):
            reader.consumer.commit({TopicPartition(topic, 0): CommittedOffset(offset=2, metadata="m")}, wait=wait)
        reader.consumer.close()

        following = self.reader(transport, topic, group=group)
        pump_until(lambda: following.records, following)

        assert following.records[0].offset == 0
        assert following.consumer.committed([TopicPartition(topic, 0)]) == {}

    def test_a_member_that_leaves_has_lost_a_topic_that_was_recreated(self, transport: Transport) -> None:
        topic, reader = self.recreated(transport, unique("group"))

        reader.consumer.close()

        assert reader.events == [("assigned", TopicPartition(topic, 0)), ("lost", TopicPartition(topic, 0))]

    def test_a_member_reads_a_topic_that_was_recreated_from_its_beginning(self, transport: Transport) -> None:
        topic, reader = self.recreated(transport, unique("group"))

        def has_read_all() -> bool:
            # It may have been seen while it was gone.
            with suppress(UnknownTopic):
                reader.pump()
            # A fetch at the old position may have found records of the new topic before that was noticed.
            return reader.values[:2] == [b"old", b"old"] and reader.values[2:][-3:] == [b"one", b"two", b"three"]

        eventually(has_read_all)
        # A broker that assigns by topic id may take the partition of the new one away once more, in good order.
        assert reader.events[:2] == [("assigned", TopicPartition(topic, 0)), ("lost", TopicPartition(topic, 0))]

    def test_metadata_comes_back_as_it_was_committed(self, transport: Transport) -> None:
        topic, group = make_topic(transport), unique("group")
        write(transport, topic, b"one", b"two")
        reader = self.reader(transport, topic, group=group)
        pump_until(lambda: len(reader.records) == 2, reader)
        at = CommittedOffset(offset=1, metadata="topic=x " + "m" * 4_000)
        reader.consumer.commit({TopicPartition(topic, 0): at}, wait=True)
        reader.consumer.close()

        following = self.reader(transport, topic, group=group)
        pump_until(lambda: following.records, following)

        assert following.consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): at}

    def test_a_topic_that_is_created_again_has_another_id(self, transport: Transport) -> None:
        topic = make_topic(transport)
        first = transport.admin().topics()[topic].topic_id
        write(transport, topic, b"one")

        assert first
        assert transport.admin().topics()[topic].topic_id == first

        transport.admin().delete_topic(topic)
        eventually(lambda: topic not in transport.admin().topics())
        make_topic(transport, name=topic)

        assert transport.admin().topics()[topic].topic_id not in ("", first)

    def test_deleting_a_topic_that_is_not_there_is_an_error(self, transport: Transport) -> None:
        with pytest.raises(UnknownTopic):
            transport.admin().delete_topic(unique("missing"))

    def test_the_cluster_keeps_its_id(self, transport: Transport) -> None:
        first = transport.admin().cluster_id()

        assert first
        assert transport.admin().cluster_id() == first
