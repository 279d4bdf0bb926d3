"""The reader of a worker: what it commits, what it holds back, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from afl.core.process.crashes import Crash
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.errors import NewerFormat, SchemaUnavailable
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.reader import Received, WorkflowReader
from afl_stream.pubsub.hosting.records import Incoming, StatusAsked
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import PubSubSettings, StreamConfig
from afl_stream.transport import Assignor, OffsetOutOfRange, Record, TopicPartition
from tests.worlds.hosted import until

TOPIC, GROUP = "afl.pubsub.w.in", "afl.pubsub.w"
PLACE = TopicPartition(TOPIC, 0)


class Owner:
    """A worker that notes what it is told."""

    def __init__(self) -> None:
        self.records: list[Received] = []
        self.told: list[object] = []
        self.error: BaseException | None = None
        self.crashed: frozenset[int] = frozenset()

    def received(self, records: Sequence[Received]) -> None:
        self.records += records

    def assigned(self, partitions: frozenset[int], crashed: frozenset[int]) -> None:
        self.told.append(("assigned", partitions))
        self.crashed = crashed

    async def revoke(self, partitions: frozenset[int]) -> None:
        self.told.append(("revoke", partitions))

    def lost(self, partitions: frozenset[int]) -> None:
        self.told.append(("lost", partitions))

    def reader_failed(self, error: BaseException) -> None:
        self.error = error

    @property
    def offsets(self) -> list[int]:
        return [received.record.offset for received in self.records]


def asked(record: Record) -> Incoming:
    """Decode any record, but for those that workers have stored."""
    return None if record.value == b"stored" else StatusAsked((record.key or b"").decode(), "")


class Log:
    """One topic of one partition, on a broker of its own."""

    def __init__(self) -> None:
        self.broker = EmbeddedBroker()
        self.transport = EmbeddedTransport(self.broker)
        self.transport.admin().create_topic(TOPIC, partitions=1)

    def append(self, *values: bytes) -> None:
        producer = self.transport.producer()
        for value in values:
            producer.produce(TOPIC, value, key=b"r1")
        producer.close()

    @property
    def committed(self) -> int:
        reader = self.transport.consumer(GROUP)
        committed = reader.committed([PLACE])
        reader.close()
        return committed[PLACE].offset if PLACE in committed else 0

    @asynccontextmanager
    async def read_by(
        self, owner: Owner, decode: Callable[[Record], Incoming] = asked, config: WorkerConfig | None = None
    ) -> AsyncIterator[WorkflowReader]:
        transport = EmbeddedTransport(self.broker)
        reader = WorkflowReader(
            lambda: transport.consumer(GROUP, assignor=Assignor.RANGE),
            [TOPIC],
            config or WorkerConfig(commit_interval_s=0.0),
            decode,
            owner,
            "the reader",
        )
        reader.start()
        yield reader
        await reader.close(is_dead=owner.error is not None)
        transport.close()


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_offset_moves_past_what_is_finished_and_past_nothing_else(log: Log) -> None:
    log.append(b"a", b"b", b"c")

    async def scenario() -> None:
        owner = Owner()
        async with log.read_by(owner) as reader:
            await until(lambda: owner.offsets == [0, 1, 2])
            reader.finished(owner.records[0])
            reader.finished(owner.records[2])
            await until(lambda: log.committed == 1)
            reader.finished(owner.records[1])
            await until(lambda: log.committed == 3)

    asyncio.run(scenario())


def test_what_is_unfinished_at_the_end_comes_again(log: Log) -> None:
    log.append(b"a", b"b")

    async def scenario() -> None:
        owner, other = Owner(), Owner()
        async with log.read_by(owner) as reader:
            await until(lambda: owner.offsets == [0, 1])
            reader.finished(owner.records[0])
        async with log.read_by(other):
            await until(lambda: other.offsets == [1])

    asyncio.run(scenario())


def test_a_record_of_a_stored_event_is_passed_over(log: Log) -> None:
    log.append(b"stored", b"a", b"stored")

    async def scenario() -> None:
        owner = Owner()
        async with log.read_by(owner) as reader:
            await until(lambda: owner.offsets == [1])
            reader.finished(owner.records[0])
            await until(lambda: log.committed == 3)

    asyncio.run(scenario())


def test_nothing_is_read_while_the_owner_has_enough(log: Log) -> None:
    log.append(*[b"a"] * 10)

    async def scenario() -> None:
        owner = Owner()
        config = WorkerConfig(commit_interval_s=0.0, max_handed=4)
        async with log.read_by(owner, config=config) as reader:
            for finished in range(10):
                await until(lambda: len(owner.records) > finished)  # noqa: B023 - awaited here
                assert len(owner.records) <= finished + 4
                reader.finished(owner.records[finished])

    asyncio.run(scenario())


def test_a_newer_format_pauses_its_partition_and_is_a_problem(log: Log) -> None:
    log.append(b"a", b"b")

    def newer(record: Record) -> Incoming:
        if record.value == b"b":
            raise NewerFormat("9.0", "1.0")
        return asked(record)

    async def scenario() -> None:
        owner = Owner()
        async with log.read_by(owner, newer) as reader:
            await until(lambda: reader.problems() and owner.offsets == [0])
            reader.finished(owner.records[0])
            await until(lambda: log.committed == 1)
            assert f"{TOPIC}[0] offset 1" in reader.problems()[0]

    asyncio.run(scenario())


def test_a_schema_that_is_away_is_waited_for(log: Log) -> None:
    log.append(b"a", b"b")
    away = 2

    def decode(record: Record) -> Incoming:
        nonlocal away
        if away:
            away -= 1
            raise SchemaUnavailable("schemas", "away")
        return asked(record)

    async def scenario() -> None:
        owner = Owner()
        async with log.read_by(owner, decode):
            await until(lambda: owner.offsets == [0, 1])

    asyncio.run(scenario())


@pytest.mark.parametrize("lost_records", list(LostRecords))
def test_records_that_are_gone_end_the_reading_or_are_passed_over(log: Log, lost_records: LostRecords) -> None:
    log.append(b"a", b"b", b"c")

    async def scenario() -> None:
        owner, other = Owner(), Owner()
        config = WorkerConfig(commit_interval_s=0.0, lost_records=lost_records)
        async with log.read_by(owner) as reader:
            await until(lambda: len(owner.records) == 3)
            reader.finished(owner.records[0])
        log.broker.truncate(PLACE, 2)
        async with log.read_by(other, config=config):
            if lost_records is LostRecords.STOP:
                await until(lambda: isinstance(other.error, OffsetOutOfRange))
            else:
                await until(lambda: other.offsets == [2])

    asyncio.run(scenario())


def test_the_owner_gives_up_partitions_before_they_go(log: Log) -> None:
    async def scenario() -> None:
        first, second = Owner(), Owner()
        log.append(b"q0")
        async with log.read_by(first):
            await until(lambda: first.records)
            async with log.read_by(second):
                await until(lambda: len(first.told) + len(second.told) == 3)
                assert first.told[1] == ("revoke", frozenset({0}))
                # Its record is for the next owner.
                await until(lambda: not first.records[0].partition.is_assigned)

    asyncio.run(scenario())


def test_partitions_that_the_owner_does_not_give_up_in_time_are_lost_to_it(log: Log) -> None:
    class Slow(Owner):
        async def revoke(self, partitions: frozenset[int]) -> None:
            await super().revoke(partitions)
            await asyncio.Event().wait()

    stream = StreamConfig(pubsub=PubSubSettings(drain_s=0))
    config = WorkerConfig(stream=stream, commit_interval_s=0.0, giving_up_s=0.05)

    async def scenario() -> None:
        first, second = Slow(), Slow()
        async with log.read_by(first, config=config):
            await until(lambda: first.told)
            async with log.read_by(second, config=config):
                await until(lambda: len(first.told) >= 3)
        assert first.told[:3] == [(news, frozenset({0})) for news in ("assigned", "revoke", "lost")]

    asyncio.run(scenario())


@pytest.mark.parametrize("crashes", [False, True])
def test_a_partition_whose_owner_died_is_told_from_one_that_was_left(log: Log, crashes: bool) -> None:
    log.append(b"a")

    async def scenario() -> None:
        first, second = Owner(), Owner()
        async with log.read_by(first) as reader:
            await until(lambda: first.offsets == [0])
            assert first.crashed == frozenset()
            if crashes:
                first.error = Crash("the process")
                await reader.close(is_dead=True)
        async with log.read_by(second):
            await until(lambda: second.offsets == [0])
            assert second.crashed == (frozenset({0}) if crashes else frozenset())

    asyncio.run(scenario())


def test_a_crash_on_the_thread_reaches_the_owner(log: Log) -> None:
    log.append(b"a")

    def crash(_record: Record) -> Incoming:
        raise Crash("decoding")

    async def scenario() -> None:
        owner = Owner()
        async with log.read_by(owner, crash):
            await until(lambda: isinstance(owner.error, Crash))

    asyncio.run(scenario())
