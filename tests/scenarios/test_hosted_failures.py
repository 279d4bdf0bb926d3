"""Requests of hosted workflows that fail, wait for people, or lose their worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pytest

from afl.core.handlers.retry import RetryPolicy
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.hosting.failures import RequestFailed
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, PublishToTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.errors import ConditionFailed
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.wire.headers import header
from tests.worlds.hosted import PATIENCE_S, Command, Executions, HostedWorld, approval, request, until

Events = Sequence[ConsumeFromTopicEvent]


class Moody:
    """A node's command that raises for some requests as long as it is in the mood."""

    def __init__(self) -> None:
        self.bad: set[str] = set()
        self.executions = Executions()

    def __call__(self, context: InvokeContext, events: Events) -> object:
        self.executions.count("work", context.assistant_request_id)
        if context.assistant_request_id in self.bad:
            raise ValueError("out of paper")
        return f"done with {events[0].data}"


def one_node(command: Command, retry: RetryPolicy | None = None) -> EventDrivenWorkflow:
    node = Node.builder().name("work").command(command).subscribe(InputTopic("todo")).publish_to(OutputTopic("done"))
    if retry is not None:
        node = node.retry(retry)
    return EventDrivenWorkflow.builder().name("chores").node(node).build()


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture
def chores(moody: Moody) -> Iterator[HostedWorld]:
    world = HostedWorld(one_node(moody))
    yield world
    world.close()


@pytest.fixture
def desk() -> Iterator[HostedWorld]:
    world = HostedWorld(approval())
    yield world
    world.close()


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_node_fails_its_request_and_no_other(chores: HostedWorld, moody: Moody) -> None:
    moody.bad = {"r3"}

    async def scenario() -> None:
        async with chores.worker() as worker, chores.client() as client:
            outcomes = await asyncio.gather(
                *(chores.outputs(client, request(f"r{n}"), n) for n in range(10)), return_exceptions=True
            )
            await until(lambda: worker.counts.failed == 1 and chores.unread() == 0)

        failure = outcomes.pop(3)
        assert isinstance(failure, NodeFailed)
        assert (failure.node, failure.request_id, failure.reason) == ("work", "r3", "ValueError: out of paper")
        assert outcomes == [[f"done with {n}"] for n in range(10) if n != 3]
        assert (await chores.stored("r3")).status is RequestStatus.FAILED

    asyncio.run(scenario())


def test_a_failed_request_is_a_dead_letter_with_its_reason(chores: HostedWorld, moody: Moody) -> None:
    moody.bad = {"r1"}

    async def scenario() -> None:
        async with chores.worker(), chores.client() as client:
            with pytest.raises(NodeFailed):
                await chores.outputs(client, request("r1"), "dishes")

    asyncio.run(scenario())

    (letter,) = chores.records(chores.topics.dead_letters)
    assert letter.key == b"r1"
    assert header(letter.headers, "afl.dlq.reason") == "NodeFailed"
    assert "node work failed: ValueError: out of paper" in (header(letter.headers, "afl.dlq.error") or "")
    (event,) = chores.events(chores.topics.dead_letters)
    assert (event.topic, event.data) == ("todo", "dishes")


def test_a_failed_request_is_tried_again_by_invoke_without_input(chores: HostedWorld, moody: Moody) -> None:
    moody.bad = {"r1"}

    async def scenario() -> None:
        async with chores.worker(), chores.client() as client:
            with pytest.raises(NodeFailed):
                await chores.outputs(client, request("r1"), "dishes")
            with pytest.raises(NodeFailed):
                await chores.outputs(client, request("r1"))
            moody.bad.clear()
            assert await chores.outputs(client, request("r1")) == ["done with dishes"]

    asyncio.run(scenario())

    assert moody.executions.counts == {("work", "r1"): 3}


def test_a_dead_letter_that_is_sent_back_tries_its_request_again(chores: HostedWorld, moody: Moody) -> None:
    moody.bad = {"r1"}

    async def scenario() -> None:
        async with chores.worker() as worker, chores.client() as client:
            with pytest.raises(NodeFailed):
                await chores.outputs(client, request("r1"), "dishes")
            moody.bad.clear()
            (letter,) = chores.records(chores.topics.dead_letters)
            chores.produce(header(letter.headers, "afl.dlq.topic") or "", letter.value, key=letter.key)
            await until(lambda: worker.counts.finished == 1)

    asyncio.run(scenario())

    assert [event.data for event in chores.events("done")] == ["done with dishes"] * 2
    assert len({event.id for event in chores.events("done")}) == 1


def test_a_worker_tries_a_request_again_when_it_is_told_to(chores: HostedWorld, moody: Moody) -> None:
    moody.bad = {"r1"}

    async def scenario() -> None:
        async with chores.worker() as worker, chores.client() as client:
            with pytest.raises(NodeFailed):
                await chores.outputs(client, request("r1"), "dishes")
            moody.bad.clear()
            await until(lambda: worker.counts.failed == 1)
            assert worker.retry("r1")
            await until(lambda: worker.counts.finished == 1)

    asyncio.run(scenario())

    assert [event.data for event in chores.events("done")] == ["done with dishes"]


def test_a_node_with_a_retry_policy_is_tried_again_before_its_request_fails(moody: Moody) -> None:
    class TwiceBad(Moody):
        def __call__(self, context: InvokeContext, events: Events) -> object:
            if self.executions.counts.total() == 2:
                self.bad.clear()
            return super().__call__(context, events)

    command = TwiceBad()
    command.bad = {"r1"}
    world = HostedWorld(one_node(command, RetryPolicy(max_attempts=3, backoff_s=0.01)))

    async def scenario() -> None:
        async with world.worker(), world.client() as client:
            assert await world.outputs(client, request("r1"), "dishes") == ["done with dishes"]

    asyncio.run(scenario())

    assert command.executions.counts == {("work", "r1"): 3}
    world.close()


@pytest.mark.parametrize("written", ["avro", "json"])
def test_an_event_that_is_too_large_for_its_topic_fails_its_request(written: str) -> None:
    world = HostedWorld(one_node(lambda _context, _events: "x" * 5_000), format=written)
    world.config = replace(world.config, max_event_bytes=3_000)

    async def scenario() -> None:
        async with world.worker() as worker, world.client() as client:
            with pytest.raises(RequestFailed, match="r1: EventTooLarge: record TopicEvent takes"):
                await world.outputs(client, request("r1"), "dishes")
            await until(lambda: worker.counts.failed == 1)

        stored = await world.stored("r1")
        assert stored.status is RequestStatus.FAILED
        assert [event.name for event in stored.events] == ["todo"]

    asyncio.run(scenario())

    assert world.events("done") == []
    assert len(world.records(world.topics.dead_letters)) == 1
    world.close()


# --- people in the middle ---------------------------------------------------------------------------------------------


def test_a_request_waits_for_a_person(desk: HostedWorld) -> None:
    async def scenario() -> None:
        async with desk.worker(), desk.client() as client:
            asked = client.invoke(request("r1"), "news", timeout_s=PATIENCE_S)
            assert [event.data async for event in asked] == ["publish news?"]
            assert asked.status is RequestStatus.WAITING
            answered = client.invoke(request("r1"), "yes", topic="answers", timeout_s=PATIENCE_S)
            assert [event.data async for event in answered] == ["person said yes"]
            assert answered.status is RequestStatus.FINISHED

    asyncio.run(scenario())


def test_a_person_answers_later_and_from_elsewhere(desk: HostedWorld) -> None:
    async def scenario() -> None:
        async with desk.worker("first"), desk.client() as client:
            assert await desk.outputs(client, request("r1"), "news") == ["publish news?"]
        async with desk.worker("second") as worker, desk.client() as other:
            await other.answer("r1", "yes")
            await until(lambda: worker.counts.finished == 1)
            assert sorted(map(str, await desk.outputs(other, request("r1")))) == ["person said yes", "publish news?"]

    asyncio.run(scenario())


def test_answers_may_be_named_by_their_topics(desk: HostedWorld) -> None:
    async def scenario() -> None:
        async with desk.worker(), desk.client() as client:
            await desk.outputs(client, request("r1"), "news")
            assert await desk.outputs(client, request("r1"), {"answers": "no"}) == ["person said no"]

    asyncio.run(scenario())


def test_another_program_answers_in_json(desk: HostedWorld) -> None:
    async def scenario() -> None:
        async with desk.worker() as worker, desk.client() as client:
            await desk.outputs(client, request("r1"), "news")
            desk.produce(desk.topics.of["answers"], b'{"ok": true}', key=b"r1")
            await until(lambda: worker.counts.finished == 1)
            output = await desk.outputs(client, request("r1"))
            assert sorted(map(str, output)) == ["person said {'ok': True}", "publish news?"]

    asyncio.run(scenario())


def test_the_same_answer_sent_twice_counts_once(desk: HostedWorld) -> None:
    async def scenario() -> None:
        async with desk.worker() as worker, desk.client() as client:
            await desk.outputs(client, request("r1"), "news")
            for _ in range(2):
                await client.answer(request("r1", invoke_id="a1"), "yes")
            # The second answer may come while the request is at its end: that is then told twice.
            await until(lambda: worker.counts.finished >= 1)
            assert sorted(map(str, await desk.outputs(client, request("r1")))) == ["person said yes", "publish news?"]

    asyncio.run(scenario())


# --- records that nothing can be done with ----------------------------------------------------------------------------


def test_a_record_for_which_a_condition_raises_is_a_dead_letter_and_the_worker_goes_on() -> None:
    todo = InputTopic("todo", condition=lambda data: data["minutes"] < 60)
    node = Node.builder().name("work").command(lambda _context, events: events[0].data["minutes"])
    world = HostedWorld(
        EventDrivenWorkflow.builder().name("chores").node(node.subscribe(todo).publish_to(OutputTopic("done"))).build()
    )

    async def scenario() -> None:
        world.produce(world.topics.of["todo"], b"5", key=b"r1")
        async with world.worker() as worker, world.client() as client:
            assert await world.outputs(client, request("r1"), {"minutes": 5}) == [5]
            with pytest.raises(ConditionFailed, match=r"condition of topic todo raised .* TypeError"):
                await world.outputs(client, request("r2"), 7)
            await until(lambda: world.unread() == 0)
            assert worker.counts.dead_lettered == 1

    asyncio.run(scenario())

    (letter,) = world.records(world.topics.dead_letters)
    assert (letter.key, letter.value) == (b"r1", b"5")
    assert header(letter.headers, "afl.dlq.reason") == "ConditionFailed"
    world.close()


@pytest.mark.parametrize("asks", [False, True], ids=["an event", "a question"])
def test_a_record_for_a_request_that_cannot_be_restored_fails_once_and_is_not_read_again(
    chores: HostedWorld, asks: bool
) -> None:
    later = PublishToTopicEvent("e5", "r1", "todo", 5, "dishes", "client", "WorkflowClient", (), 1)
    key = RequestKey("chores", "r1")

    async def scenario() -> None:
        await chores.store.append(key, request("r1"), 0, [later], RequestStatus.FAILED)
        async with chores.worker() as worker, chores.client() as client:
            with pytest.raises(RequestFailed, match="offset 5 on topic todo, where 0 is the next"):
                await chores.outputs(client, request("r1"), None if asks else "floor")
            await until(lambda: chores.unread() == 0)
            assert worker.counts.restored == 1
            assert await chores.outputs(client, request("r2"), "floor") == ["done with floor"]

    asyncio.run(scenario())


def test_a_request_whose_output_is_too_large_fails_again_for_each_that_asks_and_not_more_often() -> None:
    executions = Executions()

    def swell(context: InvokeContext, _events: Events) -> object:
        executions.count("work", context.assistant_request_id)
        return "x" * 2_000_000

    world = HostedWorld(one_node(swell))

    async def scenario() -> None:
        async with world.worker(), world.client() as client:
            for given in ("dishes", None, "dishes"):
                with pytest.raises(RequestFailed, match="bytes"):
                    await world.outputs(client, request("r1"), given)
            await until(lambda: world.unread() == 0)

    asyncio.run(scenario())

    assert executions.counts == {("work", "r1"): 3}
    world.close()


def test_a_client_hears_of_its_request_however_many_events_others_send_to_it() -> None:
    is_open = asyncio.Event()

    async def wait(_context: InvokeContext, events: Events) -> object:
        await is_open.wait()
        return events[0].data

    async def count(_context: InvokeContext, events: Events) -> object:
        return len(events)

    middle = Topic("middle")
    world = HostedWorld(
        EventDrivenWorkflow.builder()
        .name("counts")
        .node(Node.builder().name("wait").command(wait).subscribe(InputTopic("start")).publish_to(middle))
        .node(Node.builder().name("count").command(count).subscribe(middle).publish_to(OutputTopic("counts")))
        .build()
    )

    async def scenario() -> None:
        async with world.worker() as worker, world.client() as client:
            reading = asyncio.ensure_future(world.outputs(client, request("r1"), 1))
            await until(lambda: worker.counts.events == 1)
            for number in range(300):
                world.produce(world.topics.of["middle"], str(number).encode(), key=b"r1")
            await until(lambda: worker.counts.events == 301)
            is_open.set()
            assert sum(cast(list[int], await reading)) == 301

    asyncio.run(scenario())
    world.close()


# --- a store that is away ---------------------------------------------------------------------------------------------


class AwayStore(MemoryEventStore):
    """A store that can be away. It appends as other processes' stores do: with a wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    def append_now(
        self,
        key: RequestKey,
        context: InvokeContext,
        first: int,
        events: Sequence[StoredEvent],
        status: RequestStatus,
    ) -> None:
        if self.is_away:
            raise EventStoreUnavailable("of the test", "away")
        super().append_now(key, context, first, events, status)


def test_a_store_that_is_away_is_waited_for_and_makes_the_worker_unhealthy(moody: Moody) -> None:
    store = AwayStore()
    world = HostedWorld(one_node(moody), store=store)

    async def scenario() -> None:
        async with world.worker() as worker, world.client() as client:
            store.is_away = True
            outputs = asyncio.gather(*(world.outputs(client, request(f"r{n}"), n) for n in range(5)))
            await until(lambda: worker.counts.store_failures >= 5)
            assert "wait to be tried again: " in worker.health().reasons[0]
            assert "event store of the test: away" in worker.health().reasons[0]
            assert world.unread() == 5
            store.is_away = False
            assert await outputs == [[f"done with {n}"] for n in range(5)]
            await until(lambda: world.unread() == 0)
            assert worker.health().ready

    asyncio.run(scenario())

    assert set(moody.executions.counts.values()) == {1}
    world.close()
