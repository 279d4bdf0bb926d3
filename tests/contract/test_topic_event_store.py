"""The event store on topics keeps the contract on the embedded transport, and copes with what happens to a log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from afl.core.clock import ManualClock
from afl.core.process.crashes import Crash
from afl_stream.embedded.broker import EmbeddedBroker
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore, append_of
from afl_stream.pubsub.event_stores.on_topic_database import TopicDatabase
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.events import StoredEvent
from afl_stream.transport import Headers, Record
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import TopicEvent
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.contract.event_store_contract import (
    CONTEXT,
    FINISHED,
    KEY,
    RUNNING,
    WAITING,
    DurableEventStoreContract,
    EventStoreContract,
    NewStore,
    PurgingEventStoreContract,
    append,
    events_of,
    publish,
    publishes,
)

PARTITIONS = 3
TOPIC = "afl.pubsub.Desk.state"
SCHEMAS = InMemorySchemaLog()
CODEC = single_object_codec(SCHEMAS)


def topic_of(workflow: str) -> str:
    return f"afl.pubsub.{workflow}.state"


def make_topics(broker: EmbeddedBroker) -> EmbeddedBroker:
    for workflow in ("Desk", "Other"):
        broker.create_topic(topic_of(workflow), PARTITIONS, 1, {"cleanup.policy": "compact"})
    return broker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    broker = make_topics(EmbeddedBroker())
    yield broker
    broker.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite3"


def store_on(broker: EmbeddedBroker, **settings: Any) -> TopicEventStore:
    return TopicEventStore(EmbeddedTransport(broker), CODEC, topic_of, **settings)


class TestTopicEventStoreInMemory(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, broker: EmbeddedBroker) -> NewStore:
        return lambda: store_on(broker)


class TestTopicEventStoreOnAFile(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, path: Path) -> Iterator[NewStore]:
        broker = make_topics(EmbeddedBroker(path))
        yield lambda: store_on(broker)
        broker.close()


class TestTopicEventStoreThatHoldsNothing(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, broker: EmbeddedBroker) -> NewStore:
        return lambda: store_on(broker, max_held_bytes=0)


def with_store_on(
    broker: EmbeddedBroker, body: Callable[[TopicEventStore], Awaitable[object]], **settings: Any
) -> None:
    """Run a body with a store on the broker, which is closed at the end."""

    async def run() -> None:
        store = store_on(broker, **settings)
        try:
            await asyncio.wait_for(body(store), 60)
        finally:
            await store.close()

    asyncio.run(run())


def records_on(broker: EmbeddedBroker, topic: str = TOPIC) -> list[Record]:
    found: list[Record] = []
    for log in broker.topic(topic).logs:
        found += log.read(log.low, 10_000)
    return found


def compacted(broker: EmbeddedBroker, path: Path) -> EmbeddedBroker:
    """Have a file's topics compacted, and open it again."""
    broker.enforce_retention()
    broker.close()
    return EmbeddedBroker(path)


# --- what is on the topic -------------------------------------------------------------------------------------------


def test_each_event_is_a_record_in_the_partition_of_its_requests_id(broker: EmbeddedBroker) -> None:
    async def body(store: TopicEventStore) -> None:
        for request_id in ("r-1", "r-2", "r-3", "r-4"):
            await append(store, 0, publishes(0, 2, request_id), key=RequestKey("Desk", request_id))

    with_store_on(broker, body)

    found = records_on(broker)
    assert len(found) == 8
    for record in found:
        event = CODEC.decode(record.value)
        assert isinstance(event, TopicEvent)
        assert record.key is not None
        assert record.key.decode().startswith(f"{event.request_id}/{event.number}/")
        assert record.partition == partition_for(event.request_id.encode(), PARTITIONS)


def test_only_the_first_record_of_an_append_that_changes_it_says_the_context(broker: EmbeddedBroker) -> None:
    async def body(store: TopicEventStore) -> None:
        for first in (0, 2, 4):
            await store.append(KEY, CONTEXT, first, publishes(first, 2), RUNNING)

    with_store_on(broker, body)

    events = [CODEC.decode(record.value) for record in records_on(broker)]
    assert [isinstance(event, TopicEvent) and event.context is not None for event in events] == [True] + [False] * 5


def test_some_partitions_are_listed_without_a_look_at_the_others(broker: EmbeddedBroker) -> None:
    keys = [RequestKey("Desk", f"r-{number}") for number in range(20)]

    async def fill(store: TopicEventStore) -> None:
        await asyncio.gather(*(append(store, 0, publishes(0, 1, key.request_id), key=key) for key in keys))

    with_store_on(broker, fill)
    # It holds up whoever reads it.
    write(broker, b"r/0/w", b"\xc3\x01", partition=2, headers=NEWER)

    async def body(store: TopicEventStore) -> None:
        found = await store.requests_in("Desk", [0, 1])
        assert set(found) == {key for key in keys if partition_for(key.request_id.encode(), PARTITIONS) in (0, 1)}
        assert await store.requests_in("Desk", [0], [FINISHED]) == []
        assert await store.requests_in("Desk", []) == []

    with_store_on(broker, body)


def test_what_does_not_fit_in_the_bound_is_read_again_from_the_log(broker: EmbeddedBroker) -> None:
    keys = [RequestKey("Desk", f"r-{number}") for number in range(30)]

    async def fill(store: TopicEventStore) -> None:
        for first in range(0, 6, 2):
            for key in keys:
                await append(store, first, publishes(first, 2, key.request_id), key=key)

    with_store_on(broker, fill)

    async def body(store: TopicEventStore) -> None:
        assert set(await store.requests("Desk")) == set(keys)
        for key in keys:
            assert await events_of(store, key) == publishes(0, 6, key.request_id)
            await append(store, 6, publishes(6, 1, key.request_id), WAITING, key)
            assert await events_of(store, key) == publishes(0, 7, key.request_id)

    with_store_on(broker, body, max_held_bytes=2_000)


# --- compaction and forgetting --------------------------------------------------------------------------------------


def test_compaction_leaves_all_events_and_nothing_of_forgotten_requests(path: Path) -> None:
    broker = make_topics(EmbeddedBroker(path))

    async def body(store: TopicEventStore) -> None:
        other = RequestKey("Desk", "r-2")
        await append(store, 0, publishes(0, 3))
        await append(store, 3, [], WAITING)
        await append(store, 0, publishes(0, 3, "r-2"), key=other)
        await store.forget(other)

    with_store_on(broker, body)
    broker = compacted(broker, path)

    tombstones = {(record.key or b"").split(b"/")[0]: record.value is None for record in records_on(broker)}
    assert tombstones == {b"r-1": False, b"r-2": True}

    async def look(store: TopicEventStore) -> None:
        assert await events_of(store) == publishes(0, 3)
        assert await store.requests("Desk") == [KEY]

    with_store_on(broker, look)
    broker.close()


def test_a_request_that_another_process_goes_on_with_meanwhile_is_not_forgotten(broker: EmbeddedBroker) -> None:
    """The old owner of a partition looks for old requests once more, and the new one has got an event for one."""

    async def body(new: TopicEventStore) -> None:
        old = store_on(broker)
        await append(new, 0, publishes(0, 2), FINISHED)
        await append(new, 0, publishes(0, 2, "r-2"), FINISHED, RequestKey("Desk", "r-2"))
        assert await events_of(old) == publishes(0, 2)
        assert len(await old.requests("Desk")) == 2
        await append(new, 2, publishes(2, 1), RUNNING)

        gone = [await old.forget_old_in("Desk", [number], 2**62, (FINISHED,)) for number in range(PARTITIONS)]
        assert sum(gone) == 1

        for store in (old, new):
            assert await store.requests("Desk") == [KEY]
            assert await events_of(store) == publishes(0, 3)
        await append(new, 3, publishes(3, 1), FINISHED)
        assert await old.forget_finished(2**62) == 1
        assert await new.requests("Desk") == []
        await old.close()

    with_store_on(broker, body)
    keys = {record.key: record.value for record in records_on(broker)}
    assert [key for key, value in keys.items() if value is not None] == []


def test_partitions_that_are_another_owners_are_dropped_from_memory(broker: EmbeddedBroker) -> None:
    clock = ManualClock()

    async def body(store: TopicEventStore) -> None:
        keys = [RequestKey("Desk", f"r-{number}") for number in range(30)]
        for key in keys:
            await append(store, 0, publishes(0, 1, key.request_id), FINISHED, key)
        reader = store._topics._reader
        for _ in range(2):
            assert await store.forget_old_in("Desk", [1], 0, (FINISHED,)) == 0
            assert len(reader.known()) == 3
            clock.advance(200_000)
        assert await store.forget_old_in("Desk", [1], 0, (FINISHED,)) == 0
        assert [partition.partition for partition in reader.known()] == [1]
        assert set(await store.requests("Desk")) == set(keys)

    with_store_on(broker, body, clock_s=clock.monotonic_s)


# --- crashes --------------------------------------------------------------------------------------------------------


class Dying:
    """A process with a store, that ends at a step; what it has produced may be on its way, or be lost."""

    def __init__(self, broker: EmbeddedBroker, step: str = "", at: int = 0, *, is_sent: bool = False) -> None:
        self._step, self._left, self._is_sent = step, at, is_sent
        self._transport = EmbeddedTransport(broker)
        self._broker = broker
        self.database = TopicDatabase(self._transport, CODEC, topic_of, probe=self._pass)

    def _pass(self, step: str) -> None:
        if step == self._step:
            if self._left == 0:
                if self._is_sent:
                    self._broker.queue.write(5)
                raise Crash(step)
            self._left -= 1

    def append(self, first: int, events: Sequence[StoredEvent], status: RequestStatus = RUNNING) -> None:
        (error,) = self.database.append([append_of(KEY, CONTEXT, first, events, status)])
        if error is not None:
            raise error

    def die(self) -> None:
        self._transport.abandon()


@pytest.mark.parametrize("is_sent", [False, True], ids=["lost", "sent"])
@pytest.mark.parametrize("at", range(5))
def test_an_append_that_a_crash_has_cut_short_is_not_there(path: Path, at: int, is_sent: bool) -> None:
    broker = make_topics(EmbeddedBroker(path))
    before = Dying(broker)
    before.append(0, publishes(0, 2), WAITING)
    dying = Dying(broker, "state_topic.produced", at, is_sent=is_sent)
    with pytest.raises(Crash):
        dying.append(2, publishes(2, 5), FINISHED)
    dying.die()

    async def body(store: TopicEventStore) -> None:
        found = await store.request(KEY)
        assert found is not None
        is_whole = is_sent and at == 4
        assert list(found.events) == publishes(0, 7 if is_whole else 2)
        assert found.status == (FINISHED if is_whole else WAITING)
        first = len(found.events)
        await append(store, first, publishes(first, 5), RUNNING)
        assert await events_of(store) == publishes(0, first + 5)

    with_store_on(broker, body)
    before.die()
    broker = compacted(broker, path)

    async def look(store: TopicEventStore) -> None:
        assert await events_of(store) == publishes(0, 12 if is_sent and at == 4 else 7)

    with_store_on(broker, look)
    broker.close()


def test_an_append_whose_acknowledgement_is_lost_counts(broker: EmbeddedBroker) -> None:
    dying = Dying(broker, "state_topic.acknowledged")
    with pytest.raises(Crash):
        dying.append(0, publishes(0, 3))
    dying.die()

    async def body(store: TopicEventStore) -> None:
        assert await events_of(store) == publishes(0, 3)
        with pytest.raises(RequestConflict):
            await append(store, 0, publishes(0, 3))

    with_store_on(broker, body)


@pytest.mark.parametrize("step", ["state_topic.produced", "state_topic.ended", "state_topic.cleared"])
@pytest.mark.parametrize("at", range(2))
def test_a_request_is_forgotten_wherever_a_crash_comes(path: Path, step: str, at: int) -> None:
    broker = make_topics(EmbeddedBroker(path))
    Dying(broker).append(0, publishes(0, 3), FINISHED)
    dying = Dying(broker, step, at, is_sent=True)
    try:
        dying.database.forget(KEY)
    except Crash:
        dying.die()

    async def body(store: TopicEventStore) -> None:
        assert await store.request(KEY) is None
        assert await store.requests("Desk") == []
        await append(store, 0, publishes(7, 1))
        # What the crash has left goes with the next call.
        await store.forget(RequestKey("Desk", "nobody"))
        await store.forget_finished(0)
        assert await events_of(store) == publishes(7, 1)

    with_store_on(broker, body)
    broker = compacted(broker, path)

    kept = [record for record in records_on(broker) if record.value is not None]
    assert [event.number for record in kept if isinstance(event := CODEC.decode(record.value), TopicEvent)] == [0]
    with_store_on(broker, lambda store: append(store, 1, publishes(8, 1)))
    broker.close()


def test_a_late_writer_does_no_harm_and_hears_of_it(broker: EmbeddedBroker) -> None:
    """The old owner of a partition goes on for a while, as one does that was stopped and wakes up."""
    late = Dying(broker)
    late.append(0, publishes(0, 2))
    new = Dying(broker)
    new.append(2, publishes(2, 1))

    with pytest.raises(RequestConflict) as caught:
        late.append(2, [publish(2, data="late")], FINISHED)
    assert (caught.value.expected, caught.value.found) == (2, 3)
    with pytest.raises(RequestConflict):
        late.append(2, [], FINISHED)
    new.append(3, publishes(3, 2))

    async def body(store: TopicEventStore) -> None:
        assert await events_of(store) == publishes(0, 5)
        assert await store.requests("Desk", [RUNNING]) == [KEY]

    with_store_on(broker, body)


# --- what a log may hold or lose ------------------------------------------------------------------------------------


NEWER: Headers = (("afl_runtime_version", b"99.0"),)


def write(
    broker: EmbeddedBroker, key: bytes | None, value: bytes | None, *, partition: int = -1, headers: Headers = ()
) -> None:
    """Write a record, into the partition of request r-1 unless another is named."""
    producer = EmbeddedTransport(broker).producer()
    at = partition_for(b"r-1", PARTITIONS) if partition < 0 else partition
    producer.produce(TOPIC, value, key=key, partition=at, headers=headers)
    assert producer.flush(5) == 0
    producer.close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"", None),
        (b"r-1", b"{}"),
        (b"r-1/2/w", b"\xc3\x01 no schema"),
        (b"r-1/2/w", CODEC.encode(TopicEvent(kind="shout"))),
        (b"r-1/2/w", CODEC.encode(TopicEvent(kind="publish", number=2))),
        (b"r-1/2/w", CODEC.encode(TopicEvent(kind="publish", number=2, last=1, after="w"))),
        (b"r-1/x/w", CODEC.encode(TopicEvent())),
        (b"\xff/1/w", CODEC.encode(TopicEvent())),
    ],
)
def test_records_of_strangers_change_nothing(
    broker: EmbeddedBroker, key: bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    Dying(broker).append(0, publishes(0, 2))
    write(broker, key, value)

    async def body(store: TopicEventStore) -> None:
        assert await events_of(store) == publishes(0, 2)
        await append(store, 2, publishes(2, 1), FINISHED)
        write(broker, key, value)
        assert await events_of(store) == publishes(0, 3)

    with caplog.at_level(logging.WARNING):
        with_store_on(broker, body)


def test_many_records_of_strangers_are_one_warning(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    Dying(broker).append(0, publishes(0, 1))
    producer = EmbeddedTransport(broker).producer()
    for _ in range(500):
        producer.produce(TOPIC, b"{}", key=b"?", partition=partition_for(b"r-1", PARTITIONS))
    assert producer.flush(5) == 0
    producer.close()

    with caplog.at_level(logging.WARNING):
        with_store_on(broker, events_of)

    (told,) = [record.getMessage() for record in caplog.records]
    assert "500 records hold no events of requests, the first of them at offset 1: " in told


def test_records_of_a_newer_release_are_not_passed_over(broker: EmbeddedBroker) -> None:
    Dying(broker).append(0, publishes(0, 2))
    write(broker, b"r-1/2/w", b"\xc3\x01", headers=NEWER)

    async def body(store: TopicEventStore) -> None:
        for _ in range(2):
            with pytest.raises(EventStoreUnusable, match=r"99\.0"):
                await store.request(KEY)
        # A partition without them is read.
        assert await store.requests_in("Desk", [(partition_for(b"r-1", PARTITIONS) + 1) % PARTITIONS]) == []

    with_store_on(broker, body)


def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(store: TopicEventStore) -> None:
        await append(store, 0, publishes(0, 2))
        broker.delete_topic(TOPIC)
        broker.create_topic(TOPIC, PARTITIONS, 1, {"cleanup.policy": "compact"})

        assert await store.request(KEY) is None
        await append(store, 0, publishes(5, 1))
        assert await events_of(store) == publishes(5, 1)

    with caplog.at_level(logging.ERROR):
        with_store_on(broker, body)
    assert "lacks records that it had" in caplog.text


def test_a_topic_that_is_missing_is_named_with_what_creates_it(broker: EmbeddedBroker) -> None:
    key = RequestKey("Unknown", "r-1")

    async def body(store: TopicEventStore) -> None:
        with pytest.raises(EventStoreUnavailable, match=r"afl\.pubsub\.Unknown\.state does not exist"):
            await store.request(key)
        with pytest.raises(EventStoreUnavailable, match=r"afl\.pubsub\.Unknown\.state does not exist"):
            await append(store, 0, publishes(0, 1), key=key)
        broker.create_topic(topic_of("Unknown"), 1, 1, {})
        await append(store, 0, publishes(0, 1), key=key)
        assert await events_of(store, key) == publishes(0, 1)

    with_store_on(broker, body)


def test_an_event_that_is_too_large_is_refused_before_anything_is_written(broker: EmbeddedBroker) -> None:
    async def body(store: TopicEventStore) -> None:
        await append(store, 0, publishes(0, 1))
        with pytest.raises(EventsTooLarge, match=r"event e-2 of topic questions takes 1,0\d\d,\d{3} bytes"):
            await append(store, 1, [publish(1), publish(2, data="x" * 1_000_000), publish(3)])
        await append(store, 1, publishes(1, 2))
        assert await events_of(store) == publishes(0, 3)

    with_store_on(broker, body)
    assert len(records_on(broker)) == 3


def test_an_event_that_is_too_large_for_the_topic_alone_leaves_the_request_as_it_was() -> None:
    broker = EmbeddedBroker()
    broker.create_topic(TOPIC, 1, 1, {"max.message.bytes": "2000"})

    async def body(store: TopicEventStore) -> None:
        await append(store, 0, publishes(0, 1))
        with pytest.raises(EventsTooLarge, match=r"event of request r-1 takes .* 2,000 is the most"):
            await append(store, 1, [publish(1), publish(2, data="x" * 5_000), publish(3)])
        assert await events_of(store) == publishes(0, 1)
        await append(store, 1, publishes(1, 2))
        assert await events_of(store) == publishes(0, 3)

    with_store_on(broker, body)
    broker.close()


def test_an_append_that_failed_says_nothing_about_what_others_have_written() -> None:
    broker = EmbeddedBroker()
    broker.create_topic(TOPIC, 1, 1, {"max.message.bytes": "2000"})
    clock = ManualClock()
    database = TopicDatabase(EmbeddedTransport(broker), CODEC, topic_of, clock_s=clock.monotonic_s)
    assert database.request(KEY) is None
    clock.advance(10_000)
    other = Dying(broker)
    other.append(0, publishes(0, 1))
    asked_s = clock.monotonic_s()
    clock.advance(10_000)
    (error,) = database.append([
        append_of(RequestKey("Desk", "r-2"), CONTEXT, 0, [publish(0, "r-2", data="x" * 5_000)], RUNNING)
    ])  # fmt: skip
    assert isinstance(error, EventsTooLarge)

    found = database.request(KEY, asked_s)

    assert found is not None
    assert list(found.events) == publishes(0, 1)
    database.close()
    other.die()
    broker.close()
