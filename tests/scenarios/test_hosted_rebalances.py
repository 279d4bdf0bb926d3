"""Workers of a hosted workflow that come, go, and are told to stop, while nodes are at work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from threading import Event

import pytest

from afl_stream.partitioner import partition_for
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.worlds.hosted import PATIENCE_S, Executions, HostedWorld, pipeline, request, until

Events = Sequence[ConsumeFromTopicEvent]


class Press:
    """A workflow whose second node works until it is let go."""

    def __init__(self) -> None:
        self.executions = Executions()
        self.cancelled: list[str] = []
        self.gate: asyncio.Event | None = None

    def open(self) -> None:
        assert self.gate is not None
        self.gate.set()

    def workflow(self) -> EventDrivenWorkflow:
        async def set_text(context: InvokeContext, events: Events) -> object:
            self.executions.count("set", context.assistant_request_id)
            return events[0].data

        async def print_text(context: InvokeContext, events: Events) -> object:
            self.executions.count("print", context.assistant_request_id)
            if self.gate is None:
                self.gate = asyncio.Event()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(context.assistant_request_id)
                raise
            return f"printed {events[0].data}"

        texts, plates, sheets = InputTopic("texts"), Topic("plates"), OutputTopic("sheets")
        return (
            EventDrivenWorkflow.builder()
            .name("press")
            .node(Node.builder().name("set").command(set_text).subscribe(texts).publish_to(plates))
            .node(Node.builder().name("print").command(print_text).subscribe(plates).publish_to(sheets))
            .build()
        )


@pytest.fixture
def press() -> Press:
    return Press()


@pytest.fixture
def house(press: Press) -> Iterator[HostedWorld]:
    world = HostedWorld(press.workflow(), grace_s=0)
    yield world
    world.close()


def request_on(partition: int) -> str:
    return next(f"r{n}" for n in range(100) if partition_for(f"r{n}".encode(), 4) == partition)


#: A request that stays with the first of two workers, and one that goes to the second.
STAYS, GOES = request_on(0), request_on(3)


def test_a_node_at_work_goes_on_when_its_partition_comes_back(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.worker("a") as first, house.client() as client:
            output = asyncio.create_task(house.outputs(client, request(STAYS), "news"))
            await until(lambda: press.executions.counts["print", STAYS])
            async with house.worker("b"):
                await until(lambda: first.counts.suspended == 1)
                press.open()
                assert await output == ["printed news"]

    asyncio.run(scenario())

    assert press.executions.counts == {("set", STAYS): 1, ("print", STAYS): 1}
    assert press.cancelled == []


def test_a_request_goes_on_with_the_worker_that_gets_its_partition(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.worker("a"), house.client() as client:
            output = asyncio.create_task(house.outputs(client, request(GOES), "news"))
            await until(lambda: press.executions.counts["print", GOES])
            async with house.worker("b") as second:
                await until(lambda: press.executions.counts["print", GOES] == 2)
                press.open()
                assert await output == ["printed news"]
                await until(lambda: second.counts.finished == 1)

    asyncio.run(scenario())

    # The first node had finished, and the second had not.
    assert press.executions.counts == {("set", GOES): 1, ("print", GOES): 2}


def test_a_request_has_time_to_end_before_its_partition_goes(press: Press) -> None:
    house = HostedWorld(press.workflow(), drain_s=20)

    async def scenario() -> None:
        async with house.worker("a") as first, house.client() as client:
            output = asyncio.create_task(house.outputs(client, request(GOES), "news"))
            await until(lambda: press.executions.counts["print", GOES])
            async with house.worker("b") as second:
                press.open()
                assert await output == ["printed news"]
                await until(lambda: first.counts.finished == 1)
                assert second.counts.finished == 0

    asyncio.run(scenario())

    assert press.executions.counts == {("set", GOES): 1, ("print", GOES): 1}
    house.close()


def test_a_worker_that_stops_leaves_what_it_cannot_finish_to_the_next(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.client() as client:
            async with house.worker("a"):
                await client.start(request("r1"), "news")
                await until(lambda: press.executions.counts["print", "r1"])
            assert press.cancelled == ["r1"]
            assert (await house.stored("r1")).status is RequestStatus.RUNNING
            async with house.worker("b"):
                press.open()
                assert await house.outputs(client, request("r1")) == ["printed news"]

    asyncio.run(scenario())

    assert press.executions.counts == {("set", "r1"): 1, ("print", "r1"): 2}


def test_a_worker_that_stops_finishes_what_ends_in_time(press: Press) -> None:
    house = HostedWorld(press.workflow(), grace_s=20)

    async def scenario() -> None:
        async with house.client() as client, house.worker("a"):
            await client.start(request("r1"), "news")
            await until(lambda: press.executions.counts["print", "r1"])
            asyncio.get_running_loop().call_later(0.1, press.open)
        assert (await house.stored("r1")).status is RequestStatus.FINISHED

    asyncio.run(scenario())

    assert press.cancelled == []
    house.close()


def test_records_that_a_stopping_worker_was_just_reading_are_left_to_the_next(house: HostedWorld, press: Press) -> None:
    is_decoded, may_hand_over = Event(), Event()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def probe(point: str) -> None:
            if point == "pubsub.decoded":
                is_decoded.set()
                assert may_hand_over.wait(PATIENCE_S)
            elif point == "pubsub.before_commit" and may_hand_over.is_set():
                # The event loop has the record, and time to do something about it.
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop).result(PATIENCE_S)

        async with house.client() as client:
            await client.start(request("r1"), "news")
            async with house.worker("a", probe=probe):
                await until(is_decoded.is_set)
                # By then the worker waits for the thread that reads, and for nothing else.
                loop.call_later(0.1, may_hand_over.set)
            assert not press.executions.counts
            async with house.worker("b"):
                await until(lambda: press.gate is not None)
                press.open()
                assert await house.outputs(client, request("r1")) == ["printed news"]

    asyncio.run(scenario())

    assert press.executions.counts == {("set", "r1"): 1, ("print", "r1"): 1}


def test_a_lost_partition_is_dropped_without_a_commit(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.worker("a") as first, house.client() as client:
            await client.start(request("r1"), "news")
            await until(lambda: press.executions.counts["print", "r1"])
            first.lost(frozenset(range(4)))
            await until(lambda: press.cancelled == ["r1"])
            assert first.health().open_requests == 0
        assert (await house.stored("r1")).status is RequestStatus.RUNNING

    asyncio.run(scenario())


def test_a_request_that_another_worker_appends_to_is_restored_and_right(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.worker("a") as worker, house.client() as client:
            output = asyncio.create_task(house.outputs(client, request("r1"), "news"))
            await until(lambda: press.executions.counts["print", "r1"])
            # What a worker does that believes to be the owner.
            stored = await house.stored("r1")
            stray = stored.events[0]._replace(event_id="stray", offset=1, data="more")
            await house.store.append(stored.key, stored.context, len(stored.events), [stray], RequestStatus.RUNNING)
            press.open()
            assert sorted(map(str, await output)) == ["printed more", "printed news"]
            assert worker.counts.conflicts == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_requests_are_answered_while_workers_come_and_go(seed: int) -> None:
    executions = Executions()
    world = HostedWorld(pipeline(executions), drain_s=1)

    async def scenario() -> None:
        async with world.client() as client, world.worker("0"):
            outputs = asyncio.gather(*(world.outputs(client, request(f"{seed}-{n}"), n) for n in range(200)))
            for name in range(1, 6):
                async with world.worker(str(name)) as guest:
                    await until(lambda: outputs.done() or guest.counts.finished > name)  # noqa: B023 - awaited here
            assert await outputs == [[f"it is {(n + 1) * 2}"] for n in range(200)]

    asyncio.run(scenario())

    assert len({event.id for event in world.events("words")}) == 200
    assert len(executions.counts) == 600
    world.close()


def test_a_node_whose_partition_does_not_come_back_is_cancelled(house: HostedWorld, press: Press) -> None:
    async def scenario() -> None:
        async with house.worker("a", suspended_s=0.0), house.client() as client:
            output = asyncio.create_task(house.outputs(client, request(GOES), "news"))
            await until(lambda: press.executions.counts["print", GOES])
            async with house.worker("b"):
                await until(lambda: press.cancelled == [GOES])
                press.open()
                assert await output == ["printed news"]

    asyncio.run(scenario())
