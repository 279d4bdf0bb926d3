"""Slow consumers slow the graph, not the memory; and a graph never locks up over its buffers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.topics import Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import (
    INPUT,
    OUTPUT,
    listed,
    node,
    outputs,
    passed_on,
    request,
    run,
    turns,
    workflow,
)

Events = Sequence[ConsumeFromTopicEvent]


class SlowStore(MemoryEventStore):
    """The memory store with appends that wait."""

    append_now = None  # type: ignore[assignment]  # appends of this store wait

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        await turns(1)
        MemoryEventStore.append_now(self, key, context, first, events, status)


@pytest.fixture(params=[MemoryEventStore, SlowStore])
def store(request: pytest.FixtureRequest) -> EventStore:
    made: EventStore = request.param()
    return made


class Numbers:
    """Yields as many numbers as the input says, and counts them."""

    def __init__(self) -> None:
        self.made = 0

    async def invoke(self, context: InvokeContext, events: Events) -> AsyncIterator[int]:
        for number in range(events[0].data):
            self.made += 1
            yield number


def alive(built: EventDrivenWorkflow) -> int:
    """Return how many events the topics of the run hold."""
    assert built._last_run is not None
    return sum(len(log.events) for log in built._last_run.logs.values())


def test_a_reader_that_stops_reading_stops_the_graph(store: EventStore) -> None:
    numbers = Numbers()
    built = workflow(node("numbers", numbers.invoke, INPUT, OUTPUT), store=store, max_buffered=100)

    async def check() -> None:
        async with aclosing(built.invoke(request(), 100_000)) as events:
            for _ in range(3):
                await anext(events)
            await turns(100)
            assert alive(built) <= 101
            assert numbers.made <= 105

    run(check())


def test_a_reader_that_stops_reading_stops_the_graph_behind_several_nodes(store: EventStore) -> None:
    numbers, between = Numbers(), Topic("between")
    built = workflow(
        node("numbers", numbers.invoke, INPUT, between),
        node("pass", passed_on, between, OUTPUT),
        store=store,
        max_buffered=100,
    )

    async def check() -> None:
        async with aclosing(built.invoke(request(), 100_000)) as events:
            await anext(events)
            await turns(300)
            assert alive(built) <= 202
            assert numbers.made <= 310

    run(check())


def test_a_slow_node_slows_the_one_before_it(store: EventStore) -> None:
    numbers, between, gate = Numbers(), Topic("between"), asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> None:
        await gate.wait()

    built = workflow(
        node("numbers", numbers.invoke, INPUT, between),
        node("gated", gated, between, OUTPUT, max_events=1),
        store=store,
        max_buffered=10,
    )

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, 1_000))
        await turns(200)
        assert numbers.made == 11
        gate.set()
        await reading
        assert numbers.made == 1_000

    run(check())


def test_a_run_that_is_driven_without_a_reader_is_not_held_up_by_its_output(store: EventStore) -> None:
    numbers = Numbers()
    built = workflow(node("numbers", numbers.invoke, INPUT, OUTPUT), store=store, max_buffered=10)

    async def check() -> None:
        opened = await built.init_workflow(request(), 1_000)
        assert await opened.drive() == RequestStatus.FINISHED
        await opened.close()

    run(check())
    assert numbers.made == 1_000


@pytest.mark.parametrize("max_buffered", [1, 2, 7])
def test_a_join_of_unequal_sides_does_not_lock_up(store: EventStore, max_buffered: int) -> None:
    many, few = Topic("many"), Topic("few")

    async def one(_: InvokeContext, events: Events) -> str:
        await turns(30)
        return "one"

    numbers = Numbers()
    built = workflow(
        node("numbers", numbers.invoke, INPUT, many),
        node("one", one, INPUT, few),
        node("join", listed, "many & few", OUTPUT),
        topics=[many, few],
        store=store,
        max_buffered=max_buffered,
    )

    (joined,) = run(outputs(built, 50))

    # The join is met as soon as both hold events; the rest waits for another event of the other side.
    assert joined[-1] == "one"
    assert joined[:-1] == list(range(len(joined) - 1))
    assert numbers.made == 50


@pytest.mark.parametrize("max_buffered", [1, 3])
def test_a_join_that_waits_for_the_last_of_many_does_not_lock_up(store: EventStore, max_buffered: int) -> None:
    """The other side comes only after everything of this side was published: more than a buffer holds."""
    between, last = Topic("between"), Topic("last", lambda data: data == 49)
    built = workflow(
        node("numbers", Numbers().invoke, INPUT, between, last),
        node("join", listed, "between & last", OUTPUT),
        topics=[between, last],
        store=store,
        max_buffered=max_buffered,
    )

    assert run(outputs(built, 50)) == [[*range(50), 49]]


@pytest.mark.parametrize("max_buffered", [1, 2, 1_000])
def test_a_cycle_that_makes_more_than_its_buffers_hold_does_not_lock_up(store: EventStore, max_buffered: int) -> None:
    work, rest = Topic("work", lambda data: data > 0), Topic("rest")

    async def halve(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for event in events:
            for part in (event.data // 2, event.data - event.data // 2):
                if event.data > 1:
                    yield part

    async def leaves(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for event in events:
            if event.data == 1:
                yield 1

    built = workflow(
        node("begin", passed_on, INPUT, work),
        node("halve", halve, work, work, rest),
        node("leaves", leaves, rest, OUTPUT),
        store=store,
        max_buffered=max_buffered,
    )

    assert run(outputs(built, 40)) == [1] * 40


@pytest.mark.parametrize("max_buffered", [1, 2])
def test_fan_out_and_fan_in_with_small_buffers_lose_nothing(store: EventStore, max_buffered: int) -> None:
    spread, gathered = Topic("spread"), Topic("gathered")
    built = workflow(
        node("numbers", Numbers().invoke, INPUT, spread),
        *(node(f"worker-{place}", passed_on, spread, gathered, max_events=1) for place in range(5)),
        node("gather", passed_on, gathered, OUTPUT),
        store=store,
        max_buffered=max_buffered,
    )

    assert sorted(run(outputs(built, 20))) == sorted([*range(20)] * 5)


def test_publishers_get_room_in_the_order_in_which_they_came() -> None:
    shared = Topic("shared")

    def named(name: str) -> object:
        async def publishes(_: InvokeContext, events: Events) -> AsyncIterator[str]:
            for number in range(5):
                yield f"{name}{number}"

        return publishes

    built = workflow(
        node("a", named("a"), INPUT, shared),  # type: ignore[arg-type]  # a function of a command
        node("b", named("b"), INPUT, shared),  # type: ignore[arg-type]  # a function of a command
        node("pass", passed_on, shared, OUTPUT, max_events=1),
        max_buffered=2,
    )

    got = run(outputs(built, "x"))

    assert sorted(got) == [*(f"a{n}" for n in range(5)), *(f"b{n}" for n in range(5))]
    # Neither is ahead of the other by more than the buffer and the event at hand.
    ahead = [got[: place + 1] for place in range(len(got))]
    assert all(abs(sum(g[0] == "a" for g in part) - sum(g[0] == "b" for g in part)) <= 3 for part in ahead)


def test_a_publisher_that_is_cancelled_while_it_waits_leaves_its_room_to_others() -> None:
    """The node's room comes back when the request is invoked again."""
    numbers, between = Numbers(), Topic("between")
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        await gate.wait()
        for event in events:
            yield event.data

    built = workflow(
        node("numbers", numbers.invoke, INPUT, between),
        node("gated", gated, between, OUTPUT),
        max_buffered=2,
    )

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, 6))
        await turns(50)
        reading.cancel()
        await asyncio.wait([reading])
        gate.set()
        assert await outputs(built) == [0, 1, 2, 3, 4, 5]

    run(check())
