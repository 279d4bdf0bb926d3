"""Runs without a caller of invoke, as a worker on a cluster has them: events from outside come while they go on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic
from afl_stream.pubsub.running.errors import RunClosed, UnknownTopic
from afl_stream.pubsub.running.run import WorkflowRun
from tests.unit.pubsub.running.small_workflows import INPUT, OUTPUT, listed, node, passed_on, request, run, turns

Events = Sequence[ConsumeFromTopicEvent]


async def opened(*nodes: Node, store: EventStore | None = None, max_buffered: int = 1_000) -> WorkflowRun:
    """Open the run of a request of a workflow of these nodes."""
    definition = WorkflowDefinition.of(name="test", nodes=nodes, max_buffered_events=max_buffered)
    return await WorkflowRun.open(definition, request(), MemoryEventStore() if store is None else store)


async def output_of(store: MemoryEventStore) -> list[Any]:
    """Return the data on the output topic, by the store."""
    stored = await store.request(RequestKey("test", "r1"))
    assert stored is not None
    return [
        event.data for event in stored.events if event.name == "output" and not isinstance(event, ConsumeFromTopicEvent)
    ]


def test_driving_runs_until_nothing_can_go_on_and_says_how_the_request_stands() -> None:
    store = MemoryEventStore()

    async def check() -> None:
        opening = await opened(node("pass", passed_on, INPUT, OUTPUT), store=store)
        await opening.publish_external("input", "x", event_id="e1", publisher="client")
        assert await opening.drive() == RequestStatus.FINISHED
        assert await output_of(store) == ["x"]
        # More may come later.
        await opening.publish_external("input", "y", event_id="e2", publisher="client")
        assert opening.status == RequestStatus.RUNNING
        assert await opening.drive() == RequestStatus.FINISHED
        assert await output_of(store) == ["x", "y"]
        await opening.close()

    run(check())


def test_nothing_runs_before_a_run_is_driven() -> None:
    begun: list[object] = []

    async def notes(_: InvokeContext, events: Events) -> None:
        begun.append(events)

    async def check() -> None:
        opening = await opened(node("notes", notes, INPUT, OUTPUT))
        await opening.publish_external("input", "x")
        await turns()
        assert begun == []
        await opening.close()

    run(check())


def test_driving_a_request_of_which_nothing_is_stored_ends_at_once_and_stores_nothing() -> None:
    store = MemoryEventStore()

    async def check() -> None:
        opening = await opened(node("pass", passed_on, INPUT, OUTPUT), store=store)
        assert await opening.drive() == RequestStatus.FINISHED
        await opening.close()
        assert await store.requests("test") == []

    run(check())


def test_an_event_that_comes_while_a_node_works_is_taken_when_it_is_done() -> None:
    store = MemoryEventStore()
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> list[Any]:
        await gate.wait()
        return [event.data for event in events]

    async def check() -> None:
        opening = await opened(node("gated", gated, INPUT, OUTPUT), store=store)
        await opening.publish_external("input", "x")
        driving = asyncio.create_task(opening.drive())
        await turns()
        await opening.publish_external("input", "y")
        await opening.publish_external("input", "z")
        gate.set()
        assert await driving == RequestStatus.FINISHED
        assert await output_of(store) == [["x"], ["y", "z"]]
        await opening.close()

    run(check())


def test_an_event_from_outside_waits_for_room_while_a_node_can_make_it() -> None:
    gate = asyncio.Event()
    taken: list[object] = []

    async def gated(_: InvokeContext, events: Events) -> None:
        taken.extend(event.data for event in events)
        await gate.wait()

    async def check() -> None:
        opening = await opened(node("gated", gated, INPUT, OUTPUT), max_buffered=2)
        await opening.publish_external("input", 0)
        driving = asyncio.create_task(opening.drive())
        await turns()
        publishing = [asyncio.create_task(opening.publish_external("input", number)) for number in range(5)]
        await turns()
        assert [task.done() for task in publishing] == [True, False, False, False, False]
        gate.set()
        assert await asyncio.gather(*publishing) == [True] * 5
        assert await driving == RequestStatus.FINISHED
        assert taken == [0, 0, 1, 2, 3, 4]
        await opening.close()

    run(check())


def test_an_event_that_comes_while_the_end_is_stored_is_handled_before_the_end() -> None:
    gate, ending = asyncio.Event(), asyncio.Event()

    class GatedStore(MemoryEventStore):
        """The memory store; the first end of a request takes time to be stored."""

        append_now = None  # type: ignore[assignment]  # appends of this store wait

        async def append(
            self,
            key: RequestKey,
            context: InvokeContext,
            first: int,
            events: Sequence[StoredEvent],
            status: RequestStatus,
        ) -> None:
            if status is RequestStatus.FINISHED:
                ending.set()
                await gate.wait()
            MemoryEventStore.append_now(self, key, context, first, events, status)

    async def check() -> None:
        store = GatedStore()
        opening = await opened(node("pass", passed_on, INPUT, OUTPUT), store=store)
        await opening.publish_external("input", "x")

        async def read() -> list[object]:
            return [event.data async for event in opening.stream()]

        reading = asyncio.create_task(read())
        await ending.wait()
        publishing = asyncio.create_task(opening.publish_external("input", "y"))
        await turns()
        assert not reading.done()
        gate.set()
        assert await publishing
        assert await reading == ["x", "y"]
        assert opening.status == RequestStatus.FINISHED
        await opening.close()

    run(check())


def test_events_from_outside_that_only_wait_for_others_are_never_held_back() -> None:
    """A join waits for the other topic: holding this one back would keep the other from being read."""
    left, right = InputTopic("left"), InputTopic("right")

    async def check() -> None:
        store = MemoryEventStore()
        definition = WorkflowDefinition.of(
            name="test",
            nodes=[node("join", listed, "left & right", OUTPUT)],
            topics=[left, right],
            max_buffered_events=1,
        )
        opening = await WorkflowRun.open(definition, request(), store)
        driving = asyncio.create_task(opening.drive())
        for number in range(5):
            await opening.publish_external("left", number)
        await opening.publish_external("right", "go")
        assert await driving in (RequestStatus.FINISHED, RequestStatus.WAITING)
        assert await opening.drive() == RequestStatus.FINISHED
        assert await output_of(store) == [[0, 1, 2, 3, 4, "go"]]
        await opening.close()

    run(check())


def test_an_event_that_is_cancelled_while_it_waits_for_room_leaves_the_room_to_the_next() -> None:
    gate = asyncio.Event()
    taken: list[object] = []

    async def gated(_: InvokeContext, events: Events) -> None:
        taken.extend(event.data for event in events)
        await gate.wait()

    async def check() -> None:
        opening = await opened(node("gated", gated, INPUT, OUTPUT, max_events=1), max_buffered=1)
        await opening.publish_external("input", "first")
        driving = asyncio.create_task(opening.drive())
        await turns()
        given_up = asyncio.create_task(opening.publish_external("input", "given up", event_id="e1"))
        await turns()
        given_up.cancel()
        await asyncio.wait([given_up])
        waiting = asyncio.create_task(opening.publish_external("input", "second"))
        gate.set()
        await waiting
        # What was given up is not known: it may come again.
        assert await opening.publish_external("input", "again", event_id="e1")
        await driving
        await opening.drive()
        assert taken == ["first", "second", "again"]
        await opening.close()

    run(check())


def test_an_event_for_a_topic_that_is_not_there_is_an_error() -> None:
    async def check() -> None:
        opening = await opened(node("pass", passed_on, INPUT, OUTPUT))
        with pytest.raises(UnknownTopic, match="the workflow has no topic 'inputs'; it has input, output"):
            await opening.publish_external("inputs", "x")
        await opening.close()

    run(check())


def test_an_event_for_a_run_that_is_closed_is_an_error() -> None:
    async def check() -> None:
        opening = await opened(node("pass", passed_on, INPUT, OUTPUT))
        await opening.close()
        with pytest.raises(RunClosed, match="request r1: this run of it was closed"):
            await opening.publish_external("input", "x")

    run(check())


def test_a_run_that_fails_while_it_is_driven_is_closed_and_its_publishers_are_told() -> None:
    store = MemoryEventStore()
    gate = asyncio.Event()

    async def fails(_: InvokeContext, events: Events) -> None:
        await gate.wait()
        raise ValueError("broken")

    async def check() -> None:
        opening = await opened(node("fails", fails, INPUT, OUTPUT), store=store, max_buffered=1)
        await opening.publish_external("input", "x", event_id="e1")
        driving = asyncio.create_task(opening.drive())
        await turns()
        waiting = asyncio.create_task(opening.publish_external("input", "y", event_id="e2"))
        await turns()
        gate.set()
        with pytest.raises(NodeFailed, match="ValueError: broken"):
            await driving
        with pytest.raises(NodeFailed):
            await waiting
        assert opening.is_closed
        stored = await store.request(RequestKey("test", "r1"))
        assert stored is not None
        assert stored.status == RequestStatus.FAILED
        assert [event.event_id for event in stored.events] == ["e1"]

    run(check())


def test_closing_a_run_that_is_driven_ends_it_and_leaves_it_unfinished() -> None:
    store = MemoryEventStore()

    async def endless(_: InvokeContext, events: Events) -> None:
        await asyncio.Event().wait()

    async def check() -> None:
        opening = await opened(node("endless", endless, INPUT, OUTPUT), store=store)
        await opening.publish_external("input", "x")
        driving = asyncio.create_task(opening.drive())
        await turns()
        await opening.close()
        with pytest.raises(RunClosed):
            await driving
        stored = await store.request(RequestKey("test", "r1"))
        assert stored is not None
        assert stored.status == RequestStatus.RUNNING

    run(check())
