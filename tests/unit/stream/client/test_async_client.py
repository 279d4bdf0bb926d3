"""The asynchronous client: it has all that `Client` has, and neither a slow broker nor a cancelled wait harms it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from afl_stream.client import AsyncClient, AsyncMilestones, Client, ClientNotOpen, Milestones, NotAnswered
from afl_stream.embedded.transport import EmbeddedProducer, EmbeddedTransport
from afl_stream.wire.messages import ExternalEvent
from tests.unit.stream.agent.agent_bench import Deployment


def public_methods(kind: type) -> dict[str, Any]:
    found = inspect.getmembers(kind, inspect.isroutine)
    return {name: method for name, method in found if not name.startswith("_")}


def parameters(method: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize(("form", "asynchronous"), [(Client, AsyncClient), (Milestones, AsyncMilestones)])
def test_each_method_of_the_client_is_there_under_its_name_with_its_parameters(form: type, asynchronous: type) -> None:
    wanted, found = public_methods(form), public_methods(asynchronous)

    assert wanted.keys() <= found.keys()
    assert {name: parameters(found[name]) for name in wanted} == {name: parameters(wanted[name]) for name in wanted}


def test_a_client_that_is_not_open_says_how_it_is_used() -> None:
    deployment = Deployment()
    client = AsyncClient(deployment.stream, deployment.transport)

    with pytest.raises(ClientNotOpen, match="inside `async with AsyncClient"):
        asyncio.run(client.pauses())


class Gate:
    """A transport's way to the broker: closed, a record waits, and holds up the thread that sends it."""

    def __init__(self) -> None:
        self.is_open, self.is_reached = threading.Event(), threading.Event()
        self.is_open.set()

    def pass_through(self) -> None:
        self.is_reached.set()
        assert self.is_open.wait(30)


class GatedProducer(EmbeddedProducer):
    gate: Gate

    def produce(self, topic: str, value: bytes | None, **options: Any) -> None:
        self.gate.pass_through()
        super().produce(topic, value, **options)


class GatedTransport(EmbeddedTransport):
    def __init__(self, deployment: Deployment, gate: Gate) -> None:
        super().__init__(deployment.broker)
        self._gate = gate

    def producer(self) -> GatedProducer:
        made = GatedProducer(self.broker, self._probe, self._queue_limit)
        made.gate = self._gate
        self._producers.add(made)
        return made


def external_events(deployment: Deployment) -> list[str]:
    """Return the names of the events that were raised."""
    found = [deployment.codec.decode(r.value, r.headers) for r in deployment.records(deployment.topology.external())]
    return [event.name for event in found if isinstance(event, ExternalEvent)]


def run(story: Callable[[AsyncClient, Gate], Coroutine[object, object, None]]) -> Deployment:
    """Run a story with a client of a deployment without an evaluator; return the deployment."""
    deployment, gate = Deployment(), Gate()

    async def main() -> None:
        async with AsyncClient(deployment.stream, GatedTransport(deployment, gate)) as client:
            await story(client, gate)

    asyncio.run(main())
    return deployment


def test_the_loop_runs_on_while_a_record_waits_for_the_broker() -> None:
    async def story(client: AsyncClient, gate: Gate) -> None:
        gate.is_open.clear()
        raising = asyncio.create_task(client.raise_event("run-1", "first"))
        turns = 0
        while not gate.is_reached.is_set() or turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not raising.done()
        gate.is_open.set()
        await raising

    assert external_events(run(story)) == ["first"]


def test_what_is_cancelled_before_its_turn_is_not_sent_and_what_is_being_sent_is() -> None:
    async def story(client: AsyncClient, gate: Gate) -> None:
        gate.is_open.clear()
        first, second = (asyncio.create_task(client.raise_event("run-1", name)) for name in ("first", "second"))
        while not gate.is_reached.is_set():
            await asyncio.sleep(0)
        for task in (first, second):
            task.cancel()
        assert {type(ended) for ended in await asyncio.gather(first, second, return_exceptions=True)} == {
            asyncio.CancelledError
        }
        gate.is_open.set()
        await client.raise_event("run-1", "third")

    assert external_events(run(story)) == ["first", "third"]


def test_a_wait_that_is_cancelled_ends_at_once_and_leaves_the_others() -> None:
    async def story(client: AsyncClient, gate: Gate) -> None:
        def wait(name: str, timeout_s: float) -> asyncio.Task[object]:
            return asyncio.create_task(client.raise_event("run-1", name, wait=True, timeout_s=timeout_s))

        cancelled, other = wait("first", 60), wait("second", 0.3)
        await asyncio.wait([cancelled], timeout=0.05)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(NotAnswered, match="raised again with its id it counts once"):
            await other

    assert external_events(run(story)) == ["first", "second"]


def test_closing_ends_waits_that_others_have_begun() -> None:
    waits: list[asyncio.Task[object]] = []

    async def story(client: AsyncClient, gate: Gate) -> None:
        waits.append(asyncio.create_task(client.describe("run-1", answer_timeout_s=60)))
        await client.raise_event("run-1", "first", wait=False)
        while not client._answers._by_command:
            await asyncio.sleep(0)

    deployment, gate = Deployment(), Gate()

    async def main() -> None:
        async with AsyncClient(deployment.stream, GatedTransport(deployment, gate)) as client:
            await story(client, gate)
        with pytest.raises(ClientNotOpen):
            await waits[0]

    asyncio.run(main())


def test_a_read_that_is_cancelled_loses_no_milestone() -> None:
    async def story(client: AsyncClient, gate: Gate) -> None:
        async with client.milestones() as milestones:
            reading = asyncio.create_task(milestones.read(30))
            await asyncio.sleep(0)
            reading.cancel()
            assert isinstance((await asyncio.gather(reading, return_exceptions=True))[0], asyncio.CancelledError)
            await client.pause(workflow_id="run-1", reason="lunch")
            assert (await anext(milestones)).kind == "workflow.paused"

    run(story)
