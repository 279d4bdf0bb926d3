"""Readers that go away: nodes are cancelled and awaited, and the request can be invoked again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress

import pytest

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import Node, NodeBuilder
from afl_stream.pubsub.model.topics import Topic
from afl_stream.pubsub.running.errors import RunClosed
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import (
    INPUT,
    OUTPUT,
    committed,
    node,
    outputs,
    passed_on,
    request,
    run,
    status,
    stored,
    turns,
    workflow,
)
from tests.unit.pubsub.running.workflow_runs import Pauses, WaitingStore

Events = Sequence[ConsumeFromTopicEvent]


class Endless:
    """A command that yields one output and then waits. It notes how it ends."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    async def invoke(self, context: InvokeContext, events: Events) -> AsyncIterator[object]:
        try:
            yield "first"
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        finally:
            await turns(3)
            self.ends.append("cleaned up")


def endless(command: object) -> EventDrivenWorkflow:
    """Return a workflow of one node with this command."""
    built: Node = NodeBuilder().name("endless").command(command).subscribe(INPUT).publish_to(OUTPUT).build()
    return workflow(built)


def test_closing_the_iterator_cancels_the_nodes_and_waits_for_them() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            assert (await anext(events)).data == "first"
        assert command.ends == ["cancelled", "cleaned up"]
        assert await status(built) == RequestStatus.RUNNING

    run(check())


def test_breaking_out_of_the_iterator_closes_it_soon() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        async for _ in built.invoke(request(), "x"):
            break
        await turns()
        assert command.ends == ["cancelled", "cleaned up"]

    run(check())


def test_a_request_whose_iterator_was_dropped_can_be_invoked_at_once() -> None:
    numbers = Topic("numbers")

    async def count(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for number in range(3):
            yield number

    built = workflow(node("count", count, INPUT, numbers), node("pass", passed_on, numbers, OUTPUT))

    async def check() -> None:
        got: list[object] = []
        async for event in built.invoke(request(), "x"):
            got.append(event.data)
            break
        got += await outputs(built)
        assert got == [0, 1, 2]

    run(check())


def test_cancelling_the_caller_cancels_the_nodes_and_waits_for_them() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert command.ends == ["cancelled", "cleaned up"]
        assert await status(built) == RequestStatus.RUNNING

    run(check())


def test_a_timeout_around_the_reading_ends_it() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await outputs(built, "x")
        assert command.ends == ["cancelled", "cleaned up"]

    run(check())


def test_a_node_that_was_cancelled_runs_again_when_the_request_is_invoked_again() -> None:
    gate = asyncio.Event()
    begun: list[object] = []

    async def gated(_: InvokeContext, events: Events) -> object:
        begun.append([event.data for event in events])
        await gate.wait()
        return events[0].data

    built = workflow(node("gated", gated, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        await asyncio.wait([reading])
        gate.set()
        assert await outputs(built) == ["x"]
        assert begun == [["x"], ["x"]]
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_what_was_published_before_the_cancellation_is_not_published_again() -> None:
    gate = asyncio.Event()

    async def two(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield 1
        await gate.wait()
        yield 2

    built = workflow(node("two", two, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            assert (await anext(events)).data == 1
        gate.set()
        assert await outputs(built) == [2]

    run(check())


def test_a_command_that_catches_its_cancellation_publishes_and_commits_nothing_more() -> None:
    async def stubborn(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield "before"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "after"

    built = workflow(node("stubborn", stubborn, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            await anext(events)
        found = (await stored(built)).events
        assert [event.data for event in found if event.name == "output"] == ["before", None]
        assert committed(found) == [("test", "output", 0)]

    run(check())


@pytest.mark.parametrize("result", ["cut short", None])
def test_a_command_that_returns_on_its_cancellation_is_not_finished(result: str | None) -> None:
    async def gives_up(_: InvokeContext, events: Events) -> str | None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return result

    built = workflow(node("gives-up", gives_up, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        await asyncio.wait([reading])
        assert [event.name for event in (await stored(built)).events] == ["input"]

    run(check())


def test_closing_waits_for_a_command_that_goes_on_and_a_second_cancel_reaches_it_again() -> None:
    caught = 0

    async def stubborn(_: InvokeContext, events: Events) -> None:
        nonlocal caught
        while caught < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                caught += 1

    built = workflow(node("stubborn", stubborn, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        for expected in (1, 2, 3):
            assert not reading.done()
            reading.cancel()
            await turns()
            assert caught == expected
        with pytest.raises(asyncio.CancelledError):
            await reading

    run(check())


def test_a_store_that_hangs_is_given_up_by_a_second_cancel() -> None:
    hanging = asyncio.Event()

    class HangingStore(MemoryEventStore):
        append_now = None  # type: ignore[assignment]  # appends of this store wait

        async def append(
            self,
            key: RequestKey,
            context: InvokeContext,
            first: int,
            events: Sequence[StoredEvent],
            status: RequestStatus,
        ) -> None:
            if first > 0:
                await hanging.wait()
            MemoryEventStore.append_now(self, key, context, first, events, status)

    built = workflow(node("pass", passed_on, INPUT, OUTPUT), store=HangingStore())

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        await turns()
        assert not reading.done()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        hanging.set()
        assert await outputs(built) == ["x"]

    run(check())


def test_a_task_factory_that_begins_tasks_at_once_changes_nothing() -> None:
    """As asyncio.eager_task_factory does, which Python 3.11 does not have."""

    async def check() -> None:
        if (eager := getattr(asyncio, "eager_task_factory", None)) is not None:
            asyncio.get_running_loop().set_task_factory(eager)
        numbers = [Topic(f"t{place}") for place in range(200)]
        chain = [
            node(f"n{place}", passed_on, INPUT if not place else numbers[place - 1], numbers[place])
            for place in range(200)
        ]
        for store in (MemoryEventStore(), WaitingStore(Pauses(1, 0))):
            built = workflow(*chain, node("end", passed_on, numbers[-1], OUTPUT), store=store)
            assert await outputs(built, "x") == ["x"]

    run(check())


def test_cleaning_up_is_not_cut_short_by_the_close_that_follows_a_failure() -> None:
    steps: list[str] = []

    async def cleans_up(_: InvokeContext, events: Events) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(5)
            steps.append("cleaned up")

    async def fails(_: InvokeContext, events: Events) -> None:
        await turns(2)
        raise ValueError("broken")

    built = workflow(node("cleans-up", cleans_up, INPUT, OUTPUT), node("fails", fails, INPUT, OUTPUT))

    with pytest.raises(NodeFailed, match="node fails failed: ValueError: broken"):
        run(outputs(built, "x"))
    assert steps == ["cleaned up"]


def test_what_a_command_raises_as_it_is_cancelled_is_logged_and_the_request_stays_unfinished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def raises(_: InvokeContext, events: Events) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("in the finally")

    built = workflow(node("raises", raises, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await status(built) == RequestStatus.RUNNING

    with caplog.at_level(logging.WARNING):
        run(check())
    assert "node raises raised as it was cancelled: ValueError: in the finally" in caplog.text


def test_a_generator_that_ignores_its_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def ignores(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                yield "after the cancellation"
            except GeneratorExit:
                yield "after the end"

    built = workflow(node("ignores", ignores, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            await anext(events)

    with caplog.at_level(logging.WARNING):
        run(check())
    assert "the command of node ignores raised as it was closed: RuntimeError" in caplog.text


def test_a_request_of_which_only_the_end_was_not_read_is_finished_when_its_iterator_is_closed() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            await anext(events)
            await turns()
            assert await status(built) == RequestStatus.RUNNING
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_output_that_was_not_read_is_given_by_the_next_invoke() -> None:
    async def three(_: InvokeContext, events: Events) -> AsyncIterator[int]:
        for number in range(3):
            yield number

    built = workflow(node("three", three, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            assert (await anext(events)).data == 0
            await turns()
        assert await status(built) == RequestStatus.RUNNING
        assert await outputs(built) == [1, 2]
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_an_iterator_that_is_never_begun_does_nothing() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        never = built.invoke(request(), "x")
        assert await built.event_store.requests("test") == []
        await never.aclose()
        assert await outputs(built, "x") == ["x"]

    run(check())


def test_the_end_of_the_event_loop_ends_a_request_that_is_read() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        assert not reading.done()

    asyncio.run(check())

    assert command.ends == ["cancelled", "cleaned up"]
    assert asyncio.run(status(built)) == RequestStatus.RUNNING


def test_a_run_that_is_closed_twice_is_closed_once() -> None:
    command = Endless()
    built = endless(command)

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        driving = asyncio.create_task(opened.drive())
        await turns()
        await asyncio.gather(opened.close(), opened.close())
        with pytest.raises(RunClosed, match="request r1: this run of it was closed"):
            await driving
        assert command.ends == ["cancelled", "cleaned up"]

    run(check())


def test_a_command_whose_own_time_out_runs_out_as_the_request_ends_is_cancelled_all_the_same() -> None:
    limits: list[asyncio.Timeout] = []

    async def polls(_context: InvokeContext, _events: Events) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    limits.append(limit)
                    await asyncio.Event().wait()

    async def scenario() -> None:
        flow = workflow(node("poll", polls, INPUT, OUTPUT), node("pass", passed_on, INPUT, OUTPUT))
        reader = flow.invoke(request(), 1)
        await anext(reader)
        limits[0].reschedule(0)
        # The time-out cancels its task in the turn in which the reader goes away.
        await asyncio.sleep(0)
        await reader.aclose()

    run(scenario())

    assert len(limits) == 2
