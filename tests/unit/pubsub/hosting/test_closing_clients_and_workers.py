"""Clients and workers that are closed while a call, or their start, is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from afl_stream.embedded.faults import Faults
from afl_stream.embedded.transport import EmbeddedProducer, EmbeddedTransport
from afl_stream.pubsub.hosting.client import ClientNotOpen, WorkflowClient
from afl_stream.pubsub.hosting.worker import WorkflowWorker
from afl_stream.transport import DeliveryCallback, Headers, NotAuthorized, Producer, TransportError
from afl_stream.wire.schema_source import SchemaNotAnnounced
from tests.worlds.hosted import PATIENCE_S, HostedWorld, approval, request, until
from tests.worlds.open_parts import WatchedTransport


class Unacknowledged:
    """A producer whose broker keeps what it is sent, and says nothing."""

    def __init__(self) -> None:
        self.produced: list[DeliveryCallback] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        assert on_delivery is not None
        self.produced.append(on_delivery)

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return len(self.produced)

    def close(self) -> None:
        """Nothing is open."""


class SilentTransport(EmbeddedTransport):
    """A cluster that acknowledges nothing."""

    def __init__(self, world: HostedWorld) -> None:
        super().__init__(world.broker)
        self.silent = Unacknowledged()

    def producer(self) -> Producer:  # type: ignore[override]  # a producer all the same
        return self.silent


@pytest.fixture
def house() -> Iterator[HostedWorld]:
    world = HostedWorld(approval())
    yield world
    world.close()


async def first_output(client: WorkflowClient) -> object:
    return await anext(client.invoke(request("r1"), "text"))


CALLS: dict[str, Callable[[WorkflowClient], Awaitable[object]]] = {
    "start": lambda client: client.start(request("r1"), "text"),
    "answer": lambda client: client.answer("r1", "yes"),
    "invoke": first_output,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_waits_for_its_acknowledgement_ends_with_the_client(
    house: HostedWorld, call: Callable[[WorkflowClient], Awaitable[object]]
) -> None:
    async def scenario() -> None:
        transport = SilentTransport(house)
        client = WorkflowClient(house.workflow, transport, house.worker_config(), codec=house.codec)
        await client.__aenter__()
        calling = asyncio.ensure_future(call(client))
        await until(lambda: transport.silent.produced)
        async with asyncio.timeout(PATIENCE_S):
            await client.close()
            with pytest.raises(ClientNotOpen, match="closed while it published"):
                await calling
            with pytest.raises(ClientNotOpen, match="is not open"):
                await call(client)

    asyncio.run(scenario())


def test_a_call_ends_with_the_error_that_ends_the_client(house: HostedWorld) -> None:
    async def scenario() -> None:
        faults = Faults()
        transport = EmbeddedTransport(house.broker, probe=faults.probe)
        client = WorkflowClient(house.workflow, transport, house.worker_config(), codec=house.codec)
        async with asyncio.timeout(PATIENCE_S), client:
            faults.fail_at("produce.after_append_before_ack", error=NotAuthorized("topic drafts", "produce"))
            with pytest.raises(NotAuthorized):
                await client.start(request("r1"), "text")

    asyncio.run(scenario())


def test_a_client_that_is_closed_twice_at_once_can_be_opened_again(house: HostedWorld) -> None:
    async def scenario() -> None:
        transport = WatchedTransport(house.broker)
        client = WorkflowClient(house.workflow, transport, house.worker_config())
        await client.close()
        for number in range(2):
            async with client:
                await client.start(request(f"r{number}"), "text")
                await asyncio.gather(client.close(), client.close())
            assert not transport.left_open

    asyncio.run(scenario())


def test_a_client_that_is_closed_while_it_opens_says_so(house: HostedWorld) -> None:
    async def scenario() -> None:
        transport = WatchedTransport(house.broker)
        transport.answers.clear()
        client = WorkflowClient(house.workflow, transport, house.worker_config())
        opening = asyncio.create_task(client.__aenter__())
        await until(transport.asked.is_set)
        await client.close()
        transport.answers.set()
        with pytest.raises(ClientNotOpen):
            await opening
        assert transport.made
        assert not transport.left_open

    asyncio.run(scenario())


Party = WorkflowClient | WorkflowWorker
PARTIES: list[type[Party]] = [WorkflowClient, WorkflowWorker]


def party_of(kind: type[Party], house: HostedWorld, transport: EmbeddedTransport) -> Party:
    if kind is WorkflowClient:
        return WorkflowClient(house.workflow, transport, house.worker_config())
    return WorkflowWorker(house.workflow, transport, house.store, house.worker_config())


@pytest.mark.parametrize("kind", PARTIES)
def test_what_is_opened_after_the_opening_was_cancelled_is_closed(house: HostedWorld, kind: type[Party]) -> None:
    async def scenario() -> None:
        transport = WatchedTransport(house.broker)
        transport.answers.clear()
        opening = asyncio.create_task(party_of(kind, house, transport).__aenter__())
        await until(transport.asked.is_set)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not transport.made
        transport.answers.set()
        await until(lambda: transport.made and not transport.left_open)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", PARTIES)
def test_an_opening_that_fails_half_way_leaves_nothing_open(house: HostedWorld, kind: type[Party]) -> None:
    class OneProducer(WatchedTransport):
        """Has one producer, which schemas are announced with, and none for the party itself."""

        is_used_up = False

        def producer(self) -> EmbeddedProducer:
            if self.is_used_up:
                raise TransportError("no producer: too many open files")
            self.is_used_up = True
            return super().producer()

    async def scenario() -> None:
        transport = OneProducer(house.broker)
        with pytest.raises(TransportError, match="too many open files"):
            await party_of(kind, house, transport).__aenter__()
        assert transport.made
        assert not transport.left_open

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", PARTIES)
def test_an_opening_that_may_not_announce_its_schema_leaves_nothing_open(house: HostedWorld, kind: type[Party]) -> None:
    async def scenario() -> None:
        faults = Faults()
        faults.fail_at("produce.before_append", error=NotAuthorized("topic schemas", "produce"))
        transport = WatchedTransport(house.broker, probe=faults.probe)
        with pytest.raises(SchemaNotAnnounced):
            await party_of(kind, house, transport).__aenter__()
        assert transport.made
        assert not transport.left_open

    asyncio.run(scenario())
