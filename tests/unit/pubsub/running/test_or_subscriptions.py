"""What a node with OR in its subscription takes, and when: the spec warns of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.topics import InputTopic, Topic
from tests.unit.pubsub.running.small_workflows import (
    INPUT,
    OUTPUT,
    listed,
    node,
    outputs,
    run,
    status,
    turns,
    workflow,
)

Events = Sequence[ConsumeFromTopicEvent]


def test_a_node_runs_with_the_events_of_one_side_when_those_of_the_other_come_later() -> None:
    late = Topic("late")
    gate = asyncio.Event()

    async def after_a_while(_: InvokeContext, events: Events) -> str:
        await gate.wait()
        return "late"

    async def open_gate(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        gate.set()
        yield [event.data for event in events]

    built = workflow(
        node("late-node", after_a_while, INPUT, late),
        node("either", open_gate, "input | late", OUTPUT),
        topics=[INPUT, late],
    )

    assert run(outputs(built, "x")) == [["x"], ["late"]]


def test_a_node_takes_both_sides_together_when_both_hold_events() -> None:
    other = InputTopic("other")
    built = workflow(node("either", listed, "input | other", OUTPUT), topics=[INPUT, other])

    assert run(outputs(built, "x")) == [["x", "x"]]


def test_a_node_takes_each_event_once_whichever_side_let_it_run() -> None:
    numbers, doubled = Topic("numbers"), Topic("doubled")

    async def count(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for number in range(5):
            yield number
            await turns(2)

    async def double(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for event in events:
            await turns(3)
            yield event.data * 100

    built = workflow(
        node("count", count, INPUT, numbers),
        node("double", double, numbers, doubled),
        node("either", listed, "numbers | doubled", OUTPUT),
        topics=[INPUT, numbers, doubled],
    )

    got = [data for together in run(outputs(built, "x")) for data in together]

    assert sorted(got) == [0, 0, 1, 2, 3, 4, 100, 200, 300, 400]


def test_a_node_that_one_side_lets_run_takes_what_an_unmet_and_holds_too() -> None:
    """With `a | b & c`, b's event goes with a's; c then waits for another b."""
    a, b, c = Topic("a"), Topic("b"), Topic("c")
    gate = asyncio.Event()

    async def late_c(_: InvokeContext, events: Events) -> str:
        await gate.wait()
        return "c"

    async def takes(_: InvokeContext, events: Events) -> list[object]:
        gate.set()
        return [event.data for event in events]

    async def gives(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield events[0].data

    built = workflow(
        node("gives", gives, INPUT, a, b),
        node("late-c", late_c, INPUT, c),
        node("takes", takes, "a | b & c", OUTPUT),
        topics=[INPUT, a, b, c],
    )

    async def check() -> None:
        assert await outputs(built, "x") == [["x", "x"]]
        assert await status(built) == RequestStatus.WAITING

    run(check())
