"""Nodes, conditions, data and stores that fail: a clear error, nothing seen that is not stored, and another try."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from afl.core.handlers.retry import RetryPolicy
from afl.core.limits import MAX_VALUE_DEPTH
from afl.core.process.crashes import Crash
from afl_stream.pubsub.errors import NodeFailed, RequestConflict
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import NodeBuilder
from afl_stream.pubsub.model.topics import OutputTopic, Topic
from afl_stream.pubsub.running.errors import EventsNotStored
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

Events = Sequence[ConsumeFromTopicEvent]


class Broken(Exception):
    pass


class FailingOnce:
    """Publishes one output and raises; the second time it publishes both."""

    def __init__(self) -> None:
        self.taken: list[list[object]] = []

    async def invoke(self, context: InvokeContext, events: Events) -> AsyncIterator[object]:
        self.taken.append([event.data for event in events])
        yield "one"
        await turns(3)
        if len(self.taken) == 1:
            raise Broken("no luck")
        yield "two"


async def read(built: EventDrivenWorkflow, got: list[object]) -> None:
    """Add the output to a list as it comes."""
    async for event in built.invoke(request(), "x"):
        got.append(event.data)


async def broken(_: InvokeContext, events: Events) -> None:
    raise Broken("no luck")


def test_a_node_that_raises_fails_the_request_and_the_cause_is_told() -> None:
    built = workflow(node("broken", broken, INPUT, OUTPUT))

    async def check() -> None:
        with pytest.raises(NodeFailed) as failure:
            await outputs(built, "x")
        assert str(failure.value) == "workflow test, request r1: node broken failed: Broken: no luck"
        assert isinstance(failure.value.__cause__, Broken)
        assert (failure.value.node, failure.value.request_id) == ("broken", "r1")
        assert await status(built) == RequestStatus.FAILED
        assert committed((await stored(built)).events) == []

    run(check())


def test_the_other_nodes_are_cancelled_and_awaited_before_the_caller_is_told() -> None:
    ended: list[str] = []

    async def slow(_: InvokeContext, events: Events) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(5)
            ended.append("slow")

    built = workflow(node("slow", slow, INPUT, OUTPUT), node("broken", broken, INPUT, OUTPUT))

    with pytest.raises(NodeFailed):
        run(outputs(built, "x"))
    assert ended == ["slow"]


def test_the_same_request_again_takes_the_same_events_and_publishes_what_is_missing() -> None:
    command = FailingOnce()
    built = workflow(NodeBuilder().name("n").command(command).subscribe(INPUT).publish_to(OUTPUT).build())

    async def check() -> None:
        got: list[object] = []
        with pytest.raises(NodeFailed):
            await read(built, got)
        got += await outputs(built)
        assert got == ["one", "two"]
        assert command.taken == [["x"], ["x"]]
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_a_failed_request_is_tried_again_by_the_same_input_too() -> None:
    command = FailingOnce()
    built = workflow(NodeBuilder().name("n").command(command).subscribe(INPUT).publish_to(OUTPUT).build())

    async def check() -> None:
        with pytest.raises(NodeFailed):
            await outputs(built, "x")
        await outputs(built, "x")
        assert [event.name for event in (await stored(built)).events].count("input") == 2  # the event and its commit

    run(check())


def test_a_retry_policy_tries_again_before_the_request_fails() -> None:
    command = FailingOnce()
    again = RetryPolicy(max_attempts=2, backoff_s=0)
    built = workflow(NodeBuilder().name("n").command(command).subscribe(INPUT).publish_to(OUTPUT).retry(again).build())

    assert run(outputs(built, "x")) == ["one", "two"]
    assert command.taken == [["x"], ["x"]]


def test_a_retry_policy_that_is_used_up_fails_the_request() -> None:
    tries: list[object] = []

    async def always(_: InvokeContext, events: Events) -> None:
        tries.append(events)
        raise Broken("again")

    again = RetryPolicy(max_attempts=3, backoff_s=0)
    built = workflow(NodeBuilder().name("n").command(always).subscribe(INPUT).publish_to(OUTPUT).retry(again).build())

    with pytest.raises(NodeFailed, match="Broken: again"):
        run(outputs(built, "x"))
    assert len(tries) == 3


def test_a_retry_goes_on_where_a_process_was_interrupted() -> None:
    command = FailingOnce()
    store = MemoryEventStore()
    again = RetryPolicy(max_attempts=2, backoff_s=0)
    first = NodeBuilder().name("n").command(command).subscribe(INPUT).publish_to(OUTPUT)

    async def check() -> None:
        got: list[object] = []
        with pytest.raises(NodeFailed):
            await read(workflow(first.build(), store=store), got)
        command.taken.clear()
        got += await outputs(workflow(first.retry(again).build(), store=store))
        assert got == ["one", "two"]
        assert command.taken == [["x"], ["x"]]

    run(check())


def test_a_command_that_raises_a_cancellation_of_its_own_fails_the_request() -> None:
    async def cancels(_: InvokeContext, events: Events) -> None:
        raise asyncio.CancelledError

    with pytest.raises(NodeFailed, match="node cancels failed: its command was cancelled"):
        run(outputs(workflow(node("cancels", cancels, INPUT, OUTPUT)), "x"))


@pytest.mark.parametrize("error", [Crash("in the command"), KeyboardInterrupt("by hand"), SystemExit(3)])
def test_what_ends_a_process_reaches_the_caller_and_nothing_more_is_stored(error: BaseException) -> None:
    async def dies(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield "never stored"
        raise error

    built = workflow(node("dies", dies, INPUT, OUTPUT))

    async def check() -> None:
        with pytest.raises(type(error)) as raised:
            await outputs(built, "x")
        assert raised.value is error
        found = await stored(built)
        assert [event.name for event in found.events] == ["input"]
        assert found.status == RequestStatus.RUNNING

    run(check())


# --- data -----------------------------------------------------------------------------------------------------------


def nested(depth: int) -> object:
    value: object = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"items": [1, {2, 3}]}, r".items\[1\]: a JSON value was expected, found a value of Python type set"),
        (float("nan"), ": a JSON value was expected, found the Double nan"),
        ({"n": 2**70}, ".n: .* beyond 64 bits"),
        (b"bytes", ": a JSON value was expected, found a value of Python type bytes"),
        ({1: "key"}, "the integer 1"),
        (nested(MAX_VALUE_DEPTH + 1), f"nested deeper than {MAX_VALUE_DEPTH} levels"),
        (nested(100_000), f"nested deeper than {MAX_VALUE_DEPTH} levels"),
        (object(), ": a JSON value was expected, found a value of Python type object"),
    ],
)
def test_data_that_is_no_json_fails_the_node_and_names_the_place(data: Any, reason: str) -> None:
    async def gives(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield data

    built = workflow(node("gives", gives, INPUT, OUTPUT))

    async def check() -> None:
        with pytest.raises(NodeFailed, match=f"node gives failed: ValueRefused: output.*{reason}"):
            await outputs(built, "x")
        assert [event.name for event in (await stored(built)).events] == ["input"]

    run(check())


def test_an_input_that_is_no_json_is_refused_and_nothing_is_stored() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    with pytest.raises(ValueError, match=r"input.when: a JSON value was expected"):
        run(outputs(built, {"when": {1}}))
    assert run(built.event_store.requests("test")) == []


def test_data_that_a_command_changes_afterwards_stands_as_it_was() -> None:
    async def changes(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        growing: list[int] = []
        for number in range(3):
            growing.append(number)
            yield growing

    assert run(outputs(workflow(node("changes", changes, INPUT, OUTPUT)), "x")) == [[0], [0, 1], [0, 1, 2]]


def test_null_is_data() -> None:
    async def nothing(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        yield None

    assert run(outputs(workflow(node("nothing", nothing, INPUT, OUTPUT)), "x")) == [None]


def test_a_condition_that_raises_fails_the_node() -> None:
    picky = OutputTopic("picky", lambda data: data["missing"])

    with pytest.raises(NodeFailed, match="node pass failed: TypeError"):
        run(outputs(workflow(node("pass", passed_on, INPUT, picky)), "x"))


# --- commands that are built wrongly ----------------------------------------------------------------------------


class ReturnsList:
    def invoke(self, context: InvokeContext, events: Events) -> Any:
        return [1, 2]


class IsCoroutine:
    async def invoke(self, context: InvokeContext, events: Events) -> Any:
        return [1, 2]


class RaisesAtOnce:
    def invoke(self, context: InvokeContext, events: Events) -> Any:
        raise Broken("before it began")


class OwnIterator:
    """An asynchronous iterator that is no generator, and has no `aclose`."""

    def __init__(self) -> None:
        self._left = 2

    def invoke(self, context: InvokeContext, events: Events) -> Any:
        return self

    def __aiter__(self) -> "OwnIterator":
        return self

    async def __anext__(self) -> int:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return self._left


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (ReturnsList(), "its invoke returned a list, and has to be an asynchronous generator"),
        (IsCoroutine(), "its invoke is a coroutine; it has to yield"),
        (RaisesAtOnce(), "Broken: before it began"),
    ],
)
def test_a_command_without_an_asynchronous_iterator_fails_its_node(command: object, reason: str) -> None:
    built = workflow(NodeBuilder().name("n").command(command).subscribe(INPUT).publish_to(OUTPUT).build())

    with pytest.raises(NodeFailed, match=f"node n failed: .*{reason}"):
        run(outputs(built, "x"))


def test_a_command_may_return_any_asynchronous_iterator() -> None:
    built = workflow(NodeBuilder().name("n").command(OwnIterator()).subscribe(INPUT).publish_to(OUTPUT).build())

    assert run(outputs(built, "x")) == [1, 0]


# --- stores -----------------------------------------------------------------------------------------------------


class FailingStore(MemoryEventStore):
    """A store that fails from a given append on; each append takes turns of the loop."""

    append_now = None  # type: ignore[assignment]  # appends of this store wait

    def __init__(self, fails_at: int, error: BaseException) -> None:
        super().__init__()
        self._appends = 0
        self._fails_at = fails_at
        self._error = error

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        await turns(2)
        self._appends += 1
        if self._appends >= self._fails_at:
            raise self._error
        MemoryEventStore.append_now(self, key, context, first, events, status)


class FailingAtOnce(MemoryEventStore):
    """A store that fails from a given append on, and makes nobody wait."""

    def __init__(self, fails_at: int, error: BaseException) -> None:
        super().__init__()
        self._appends = 0
        self._fails_at = fails_at
        self._error = error

    def append_now(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        self._appends += 1
        if self._appends >= self._fails_at:
            raise self._error
        super().append_now(key, context, first, events, status)


@pytest.fixture(params=[FailingStore, FailingAtOnce])
def failing(request: pytest.FixtureRequest) -> type[FailingStore | FailingAtOnce]:
    kind: type[FailingStore | FailingAtOnce] = request.param
    return kind


def test_a_store_that_fails_ends_the_request_and_nothing_is_seen_that_is_not_stored(
    failing: type[FailingStore | FailingAtOnce],
) -> None:
    numbers = Topic("numbers")
    seen: list[object] = []

    async def sees(_: InvokeContext, events: Events) -> None:
        seen.extend(event.data for event in events)

    store = failing(2, OSError("disk full"))
    built = workflow(node("pass", passed_on, INPUT, numbers), node("sees", sees, numbers, OUTPUT), store=store)

    async def check() -> None:
        with pytest.raises(EventsNotStored, match="request r1: the event store failed: OSError: disk full") as failure:
            await outputs(built, "x")
        assert isinstance(failure.value.__cause__, OSError)
        assert seen == []
        assert [event.name for event in (await stored(built)).events] == ["input"]

    run(check())


def test_a_store_that_fails_at_the_input_stores_nothing_and_leaves_nothing_open(
    failing: type[FailingStore | FailingAtOnce],
) -> None:
    store = failing(1, OSError("disk full"))
    built = workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)

    async def check() -> None:
        for _ in range(2):
            with pytest.raises(EventsNotStored):
                await outputs(built, "x")

    run(check())


def test_an_error_of_the_store_that_is_ours_is_told_as_it_is(failing: type[FailingStore | FailingAtOnce]) -> None:
    conflict = RequestConflict("test", "r1", 1, 2)
    built = workflow(node("pass", passed_on, INPUT, OUTPUT), store=failing(2, conflict))

    with pytest.raises(RequestConflict) as failure:
        run(outputs(built, "x"))
    assert failure.value is conflict


def test_output_whose_commit_is_not_stored_is_not_yielded(failing: type[FailingStore | FailingAtOnce]) -> None:
    store = failing(3, OSError("disk full"))
    built = workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)

    async def check() -> None:
        got: list[object] = []
        with pytest.raises(EventsNotStored):
            await read(built, got)
        assert got == []
        assert committed((await stored(built)).events) == [("pass", "input", 0)]

    run(check())


def test_a_store_that_dies_reaches_the_caller_as_it_is(failing: type[FailingStore | FailingAtOnce]) -> None:
    with pytest.raises(Crash):
        run(outputs(workflow(node("pass", passed_on, INPUT, OUTPUT), store=failing(2, Crash("store"))), "x"))


def test_appends_that_wait_together_are_one_append_in_order() -> None:
    appends: list[list[str]] = []

    class CountingStore(FailingStore):
        async def append(
            self,
            key: RequestKey,
            context: InvokeContext,
            first: int,
            events: Sequence[StoredEvent],
            status: RequestStatus,
        ) -> None:
            appends.append([f"{event.name} {event.offset}" for event in events])
            await super().append(key, context, first, events, status)

    async def five(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        for number in range(5):
            yield number

    numbers = Topic("numbers")
    store = CountingStore(1_000, OSError())
    built = workflow(node("five", five, INPUT, numbers), node("sees", quiet, numbers, OUTPUT), store=store)

    run(outputs(built, "x"))

    assert appends == [
        ["input 0"],
        ["numbers 0", "numbers 1", "numbers 2", "numbers 3", "numbers 4", "input 0"],
        ["numbers 4"],
    ]


async def quiet(_: InvokeContext, events: Events) -> None:
    """Publish nothing."""
