"""A request whose node kills every worker that runs it: it fails in the end, and the others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from afl.core.probes import no_probe
from afl.core.process.crashes import Crash
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.failures import RequestFailed
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.wire.headers import header
from tests.worlds.hosted import PATIENCE_S, Executions, HostedWorld, request, until


class Mill:
    """A workflow of one node, which dies of `poison` with its process, and takes its time with `slow`."""

    def __init__(self) -> None:
        self.executions = Executions()
        self.is_deadly = True

    async def grind(self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        self.executions.count("grind", context.assistant_request_id)
        data = events[0].data
        if data == "slow":
            # As long as any worker with the poison lives.
            await asyncio.sleep(0.2)
        elif data == "poison" and self.is_deadly:
            await asyncio.sleep(0.02)
            raise Crash("the node")
        return f"{data} flour"

    def workflow(self) -> EventDrivenWorkflow:
        node = Node.builder().name("grind").command(self.grind)
        return (
            EventDrivenWorkflow.builder()
            .name("mill")
            .node(node.subscribe(InputTopic("grain")).publish_to(OutputTopic("flour")))
            .build()
        )


@pytest.fixture
def mill() -> Mill:
    return Mill()


@pytest.fixture(params=["memory", "topics"])
def mills(mill: Mill, request: pytest.FixtureRequest) -> Iterator[HostedWorld]:
    found = HostedWorld(mill.workflow(), max_crashes=2, on_topics=request.param == "topics")
    yield found
    found.close()


def test_a_request_that_kills_its_workers_fails_and_no_other_does(
    mill: Mill, mills: HostedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with mills.client() as client:
            for request_id, data in (("slow", "slow"), ("bad", "poison"), ("slow-too", "slow")):
                await client.start(request(request_id), data)
            # Once as it came, and as often as the settings allow after that.
            for _ in range(1 + 2):
                await mills.crash(no_probe)
            async with mills.worker() as worker:
                await until(lambda: worker.counts.failed == 1)
                for request_id in ("slow", "slow-too"):
                    assert await mills.outputs(client, request(request_id)) == ["slow flour"]
        assert (await mills.stored("bad")).status is RequestStatus.FAILED
        await mills.store.close()

    asyncio.run(scenario())

    assert mill.executions.counts["grind", "bad"] == 3
    (letter,) = mills.records(mills.topics.dead_letters)
    assert letter.key == b"bad"
    assert "its worker died 2 times while it ran" in (header(letter.headers, "afl.dlq.error") or "")
    # A worker's notes of its requests are no events of a node that is gone.
    assert "this one does not have" not in caplog.text


def test_a_request_that_failed_so_is_tried_again_when_it_is_invoked(mill: Mill, mills: HostedWorld) -> None:
    async def scenario() -> None:
        async with mills.client() as client:
            await client.start(request("bad"), "poison")
            for _ in range(1 + 2):
                await mills.crash(no_probe)
            async with mills.worker() as worker:
                await until(lambda: worker.counts.failed == 1)
            mill.is_deadly = False
            async with mills.worker():
                assert await mills.outputs(client, request("bad")) == ["poison flour"]
        await mills.store.close()

    asyncio.run(scenario())


def test_an_attempt_that_kills_its_workers_again_is_not_repeated_for_ever(mill: Mill, mills: HostedWorld) -> None:
    async def scenario() -> None:
        async with mills.client() as client:
            await client.start(request("bad"), "poison")
            for _ in range(1 + 2):
                await mills.crash(no_probe)
            async with mills.worker() as worker:
                await until(lambda: worker.counts.failed == 1 and mills.unread() == 0)
            invocation = client.invoke(request("bad"), timeout_s=PATIENCE_S)
            asking = asyncio.create_task(anext(invocation))
            # Nothing was got anywhere since: one more crash is one too many.
            await mills.crash(no_probe)
            async with mills.worker() as worker:
                with pytest.raises(RequestFailed):
                    await asking
                await until(lambda: mills.unread() == 0)
        await mills.store.close()

    asyncio.run(scenario())

    assert mill.executions.counts["grind", "bad"] == 4


def test_workers_that_end_in_good_order_are_no_crashes(mill: Mill, mills: HostedWorld) -> None:
    async def scenario() -> None:
        async with mills.client() as client:
            await client.start(request("slow"), "slow")
            for n in range(5):
                async with mills.worker():
                    await until(lambda: mill.executions.counts.total() > n)  # noqa: B023 - awaited here
            async with mills.worker():
                assert await mills.outputs(client, request("slow")) == ["slow flour"]
        await mills.store.close()

    # Each of them has no time to finish.
    mills.config = replace(mills.config, pubsub=replace(mills.config.pubsub, grace_s=0))
    asyncio.run(scenario())

    assert mill.executions.counts["grind", "slow"] == 6
