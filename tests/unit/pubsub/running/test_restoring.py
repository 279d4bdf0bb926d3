"""What is stored of a request becomes a run again, also where the workflow has changed or the events do not fit."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, PublishToTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.errors import StoredEventsUnusable
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
KEY = RequestKey("test", "r1")


def published(name: str, offset: int, data: object, by: str = "test", consumed: tuple[str, ...] = ()) -> StoredEvent:
    """Return a stored event."""
    return PublishToTopicEvent(f"{by} {name} {offset}", "r1", name, offset, data, by, "Node", consumed, 1)


def committed(name: str, offset: int, by: str) -> StoredEvent:
    """Return a stored commit."""
    return ConsumeFromTopicEvent(f"{name} {offset}", "r1", name, offset, None, by, "Node", 1)


def store_of(*events: StoredEvent, status: RequestStatus = RequestStatus.RUNNING) -> MemoryEventStore:
    """Return a store with these events of the request."""
    store = MemoryEventStore()
    store.append_now(KEY, request(), 0, events, status)
    return store


def test_a_node_goes_on_with_what_it_has_not_committed() -> None:
    store = store_of(
        published("input", 0, "a"),
        committed("input", 0, "pass"),
        published("input", 1, "b"),
        published("input", 2, "c"),
    )

    assert run(outputs(workflow(node("list", listed, INPUT, OUTPUT), store=store))) == [["a", "b", "c"]]
    assert run(outputs(workflow(node("pass", listed, INPUT, OUTPUT), store=store))) == [["b", "c"]]


def test_an_interrupted_invocation_takes_exactly_the_events_that_its_output_names() -> None:
    store = store_of(
        published("input", 0, "a"),
        published("input", 1, "b"),
        published("output", 0, "a", "pass", ("input:0-1",)),
        published("input", 2, "c"),
    )
    taken: list[list[object]] = []

    async def notes(_: InvokeContext, events: Events) -> AsyncIterator[Any]:
        taken.append([event.data for event in events])
        for event in events:
            yield event.data

    run(outputs(workflow(node("pass", notes, INPUT, OUTPUT), store=store)))

    assert taken == [["a", "b"], ["c"]]


def test_an_interrupted_invocation_of_several_topics_takes_exactly_those_of_each() -> None:
    left, right = InputTopic("left"), InputTopic("right")
    store = store_of(
        published("left", 0, "l0"),
        published("right", 0, "r0"),
        published("left", 1, "l1"),
        published("output", 0, "first", "join", ("left:0-1", "right:0-0")),
        published("left", 2, "l2"),
        published("right", 1, "r1"),
    )
    joined = workflow(node("join", listed, "left & right", OUTPUT), topics=[left, right], store=store)

    # What it publishes has the number, and so the id, of another event than the one that stands there.
    assert run(outputs(joined)) == ["first", ["l0", "l1", "r0"], ["l2", "r1"]]


def test_an_invocation_whose_commit_is_stored_is_not_interrupted() -> None:
    store = store_of(
        published("input", 0, "a"),
        published("output", 0, "a", "pass", ("input:0-0",)),
        committed("input", 0, "pass"),
        published("input", 1, "b"),
    )

    assert run(outputs(workflow(node("pass", passed_on, INPUT, OUTPUT), store=store))) == ["a", "b"]


def test_a_later_invocation_in_the_append_of_an_earlier_ones_commit_is_interrupted() -> None:
    """Appends that wait together are one: outputs of both come before the commit of the first."""
    store = store_of(
        published("input", 0, "a"),
        published("input", 1, "b"),
        published("output", 0, "a", "alone", ("input:0-0",)),
        published("output", 1, "b", "alone", ("input:1-1",)),
        published("input", 2, "c"),
        committed("input", 0, "alone"),
    )
    taken: list[list[object]] = []

    async def notes(_: InvokeContext, events: Events) -> None:
        taken.append([event.data for event in events])

    run(outputs(workflow(node("alone", notes, INPUT, OUTPUT), store=store)))

    assert taken == [["b"], ["c"]]


def test_output_is_given_in_the_order_in_which_it_was_stored_over_all_topics() -> None:
    first, second = OutputTopic("first"), OutputTopic("second")
    store = store_of(
        published("input", 0, 0),
        committed("input", 0, "n"),
        published("second", 0, 0, "n", ("input:0-0",)),
        published("first", 0, 1, "n", ("input:0-0",)),
        published("first", 1, 2, "n", ("input:0-0",)),
        published("second", 1, 3, "n", ("input:0-0",)),
        committed("second", 0, "test"),
    )

    assert run(outputs(workflow(node("n", passed_on, INPUT, first, second), store=store))) == [1, 2, 3]


def test_what_a_node_published_that_is_gone_still_stands() -> None:
    numbers = Topic("numbers")
    store = store_of(
        published("input", 0, "x"),
        committed("input", 0, "former"),
        published("numbers", 0, 7, "former", ("input:0-0",)),
        committed("input", 0, "now"),
    )
    built = workflow(node("now", passed_on, INPUT, numbers), node("pass", passed_on, numbers, OUTPUT), store=store)

    assert run(outputs(built)) == [7]


def test_events_of_a_topic_that_is_gone_are_passed_over_and_kept() -> None:
    store = store_of(published("input", 0, "x"), published("gone", 0, 1, "pass", ("input:0-0",)))

    async def check() -> None:
        assert await outputs(workflow(node("other", passed_on, INPUT, OUTPUT), store=store)) == ["x"]
        stored = await store.request(KEY)
        assert stored is not None
        assert [event.name for event in stored.events[:2]] == ["input", "gone"]

    run(check())


def test_what_a_changed_workflow_passes_over_is_told_of_while_the_request_is_unfinished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = (
        published("input", 0, "a"),
        published("drafts", 0, "b", "writer", ("input:0-0",)),
        committed("input", 0, "writer"),
    )

    for status in (RequestStatus.FINISHED, RequestStatus.RUNNING):
        run(outputs(workflow(node("list", listed, INPUT, OUTPUT), store=store_of(*events, status=status))))

    assert [record.getMessage() for record in caplog.records] == [
        "workflow test, request r1: it was begun by a workflow with topic drafts, node writer, which this one does not "
        "have: their events are passed over"
    ]


def test_a_gap_in_the_offsets_of_a_topic_is_an_error() -> None:
    store = store_of(published("input", 0, "x"), published("input", 2, "z"))

    with pytest.raises(
        StoredEventsUnusable, match="its stored events have offset 2 on topic input, where 1 is the next"
    ):
        run(outputs(workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)))


def test_half_a_commit_of_an_invocation_is_an_error() -> None:
    left, right = InputTopic("left"), InputTopic("right")
    store = store_of(
        published("left", 0, "l0"),
        published("right", 0, "r0"),
        published("output", 0, "first", "join", ("left:0-0", "right:0-0")),
        committed("left", 0, "join"),
    )
    joined = workflow(node("join", listed, "left & right", OUTPUT), topics=[left, right], store=store)

    with pytest.raises(StoredEventsUnusable, match="node join has committed some of left:0-0"):
        run(outputs(joined))


def test_an_interrupted_invocation_goes_on_without_a_topic_that_its_node_is_subscribed_to_no_more() -> None:
    left, right = InputTopic("left"), InputTopic("right")
    store = store_of(
        published("left", 0, "l0"),
        published("right", 0, "r0"),
        published("output", 0, "first", "join", ("left:0-0", "right:0-0")),
        published("left", 1, "l1"),
    )
    now = workflow(node("join", listed, left, OUTPUT), node("other", listed, right, OUTPUT), store=store)

    got = run(outputs(now))

    assert got[0] == "first"
    assert sorted(got[1:]) == [["l0"], ["l1"], ["r0"]]


@pytest.mark.parametrize("stops", range(1, 12))
def test_a_reader_that_leaves_after_each_event_gets_every_event_once(stops: int) -> None:
    """A chain of nodes over one store, each reader a new process."""
    store = MemoryEventStore()
    numbers, squares = Topic("numbers"), Topic("squares")

    async def count(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for number in range(10):
            await turns(1)
            yield number

    async def square(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for event in events:
            yield event.data**2

    def nodes() -> tuple[Node, ...]:
        return (
            node("count", count, INPUT, numbers),
            node("square", square, numbers, squares),
            node("pass", passed_on, squares, OUTPUT),
        )

    async def check() -> None:
        got: list[object] = []
        while len(got) < 10:
            async with aclosing(workflow(*nodes(), store=store).invoke(request(), None if got else "x")) as events:
                for _ in range(stops):
                    event = await anext(events, None)
                    if event is not None:
                        got.append(event.data)
        assert got == [number**2 for number in range(10)]
        assert await outputs(workflow(*nodes(), store=store)) == []

    run(check())


def test_a_request_that_is_restored_does_not_change_its_store_until_something_happens() -> None:
    store = store_of(published("input", 0, "x"), committed("input", 0, "pass"), status=RequestStatus.FINISHED)

    async def check() -> None:
        before = await store.request(KEY)
        assert await outputs(workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)) == []
        assert await store.request(KEY) == before

    run(check())


def test_an_invoke_waits_for_the_run_of_the_same_request_that_is_being_closed() -> None:
    store = MemoryEventStore()
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> Any:
        try:
            await gate.wait()
        finally:
            await turns(5)
        return events[0].data

    async def check() -> None:
        built = workflow(node("gated", gated, INPUT, OUTPUT), store=store)
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        await turns(2)
        assert not reading.done()
        gate.set()
        assert await outputs(built) == ["x"]
        assert reading.cancelled()

    run(check())
