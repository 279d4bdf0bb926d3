"""A worker of a hosted workflow dies between two steps: the next one finishes, and repeats only what was not stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from afl.core.probes import Probe
from afl_stream.embedded.transport import Faults
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from tests.scenarios.test_hosted_failures import Moody, one_node
from tests.tiers import some_now
from tests.worlds.hosted import NODES, Executions, HostedWorld, approval, pipeline, request, until

REQUESTS = 3
#: Every step of a worker, and how often it is taken before the one that the worker dies after.
POINTS = [
    ("pubsub.read", 0),
    ("pubsub.decoded", 0),
    ("pubsub.stored", 0),
    ("pubsub.produced", 0),
    ("pubsub.acknowledged", 0),
    ("pubsub.told", 0),
    ("pubsub.ended", 0),
    ("pubsub.before_commit", 0),
    ("pubsub.committed", 0),
    *((point, passes) for point in ("pubsub.stored", "pubsub.produced") for passes in range(1, 12)),
    *((point, passes) for point in ("pubsub.acknowledged", "pubsub.told", "pubsub.ended") for passes in range(1, 3)),
]


def dying_at(point: str, passes: int) -> Probe:
    faults = Faults()
    faults.fail_at(point, passes=passes)
    return faults.probe


@pytest.fixture
def executions() -> Executions:
    return Executions()


@pytest.fixture(params=["memory", "topics"])
def sums(executions: Executions, request: pytest.FixtureRequest) -> Iterator[HostedWorld]:
    world = HostedWorld(pipeline(executions), on_topics=request.param == "topics")
    yield world
    world.close()


@pytest.mark.parametrize("at", some_now(POINTS, 14), ids=lambda at: f"{at[0]}-{at[1]}")
def test_a_crash_loses_nothing_and_repeats_only_what_was_not_stored(
    sums: HostedWorld, executions: Executions, at: tuple[str, int]
) -> None:
    async def scenario() -> None:
        async with sums.client() as client:
            for n in range(REQUESTS):
                await client.start(request(f"r{n}"), n)
            await sums.crash(dying_at(*at))
            async with sums.worker():
                for n in range(REQUESTS):
                    assert await sums.outputs(client, request(f"r{n}")) == [f"it is {(n + 1) * 2}"]
                await until(lambda: sums.unread() == 0)
        for n in range(REQUESTS):
            stored = await sums.stored(f"r{n}")
            assert stored.status is RequestStatus.FINISHED
            consumed = Counter(
                event.consumer_name
                for event in stored.events
                if isinstance(event, ConsumeFromTopicEvent) and event.name
            )
            assert consumed == {**dict.fromkeys(NODES, 1), "sums": 1}

    asyncio.run(scenario())

    for topic in sums.workflow.definition.topics:
        assert len({event.id for event in sums.events(topic)}) == REQUESTS
    assert executions.counts.keys() == {(node, f"r{n}") for node in NODES for n in range(REQUESTS)}
    # One node of each request may have been at work when the worker died.
    for n in range(REQUESTS):
        assert sum(executions.counts[node, f"r{n}"] for node in NODES) <= len(NODES) + 1


@pytest.mark.parametrize("passes", range(5))
def test_output_that_was_stored_comes_to_its_topic_without_anybody_who_asks(sums: HostedWorld, passes: int) -> None:
    output = sums.workflow.definition.output_topics[0].name

    async def scenario() -> None:
        async with sums.client() as client:
            await client.start(request("r0"), 0)
            await sums.crash(dying_at("pubsub.stored", passes))
            async with sums.worker():
                await until(lambda: len(sums.events(output)) > 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["pubsub.acknowledged", "pubsub.told", "pubsub.ended"])
def test_a_crash_at_the_failure_of_a_request_leaves_it_failed_or_tries_it_again(point: str) -> None:
    moody = Moody()
    moody.bad = {"r1"}
    world = HostedWorld(one_node(moody))

    async def scenario() -> None:
        async with world.client() as client:
            await client.start(request("r1"), "dishes")
            await world.crash(dying_at(point, 0))
            async with world.worker() as worker:
                if point != "pubsub.ended":
                    await until(lambda: worker.counts.failed == 1)
                assert (await world.stored("r1")).status is RequestStatus.FAILED
                moody.bad.clear()
                assert await world.outputs(client, request("r1")) == ["done with dishes"]

    asyncio.run(scenario())

    assert len(world.records(world.topics.dead_letters)) >= 1
    world.close()


@pytest.mark.parametrize("point", ["pubsub.acknowledged", "pubsub.told", "pubsub.ended"])
def test_a_crash_while_a_person_is_asked_asks_once(point: str) -> None:
    world = HostedWorld(approval())

    async def scenario() -> None:
        async with world.client() as client:
            await client.start(request("r1"), "news")
            await world.crash(dying_at(point, 0))
            async with world.worker():
                assert await world.outputs(client, request("r1")) == ["publish news?"]
                assert await world.outputs(client, request("r1"), {"answers": "yes"}) == ["person said yes"]

    asyncio.run(scenario())

    assert len({event.id for event in world.events("questions")}) == 1
    world.close()


def test_an_answer_that_comes_while_no_worker_runs_is_not_lost() -> None:
    world = HostedWorld(approval())

    async def scenario() -> None:
        async with world.client() as client:
            async with world.worker():
                await world.outputs(client, request("r1"), "news")
            await client.answer("r1", "yes")
            await world.crash(dying_at("pubsub.stored", 0))
            async with world.worker():
                output = await world.outputs(client, request("r1"))
                assert sorted(map(str, output)) == ["person said yes", "publish news?"]

    asyncio.run(scenario())
    world.close()
