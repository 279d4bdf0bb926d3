"""What fails half way into its start leaves nothing open, and what fails at the end leaves nothing else open."""

from __future__ import annotations

import asyncio
import io
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from afl.core.errors import AFLError
from afl.core.monitoring.status_server import NoPortFree
from afl.stores.memory.store import MemoryStore
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.audit.audit import Audit, AuditConfig, AuditStream
from afl_stream.audit.sinks import LastWritten
from afl_stream.client import AsyncClient, Client, ClientNotOpen
from afl_stream.errors import ConfigError, SchemaUnavailable
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.gateway import serving
from afl_stream.gateway.gateway import Gateway
from afl_stream.reading.topic_log import TopicLog
from afl_stream.settings.config import TelemetrySettings
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.transport import BrokerUnavailable, NotAuthorized, TopicPartition
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event
from tests.worlds.hosted import PATIENCE_S, until
from tests.worlds.open_parts import WatchedTransport

FAILED = NotAuthorized("it does not work", "at all")


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def transport(deployment: Deployment) -> Iterator[WatchedTransport]:
    transport = WatchedTransport(deployment.broker)
    yield transport
    transport.close()
    deployment.broker.close()


def agent_of(deployment: Deployment, transport: WatchedTransport) -> Agent:
    agent = Agent(AgentConfig(stream=deployment.stream), transport)
    agent.register(PAY, lambda _payload: {})
    return agent


@pytest.mark.parametrize("call", ["subscribe", "watermarks"])
def test_an_agent_that_cannot_start_leaves_nothing_open_and_can_be_started_again(
    deployment: Deployment, transport: WatchedTransport, call: str
) -> None:
    agent = agent_of(deployment, transport)
    transport.errors[call] = FAILED
    with pytest.raises(NotAuthorized, match="it does not work"):
        agent.start()
    assert transport.made
    assert not transport.left_open

    transport.errors.clear()
    agent.start()
    assert transport.left_open
    assert agent.close() == 0
    assert not transport.left_open


def test_an_agent_whose_last_flush_fails_closes_all(deployment: Deployment, transport: WatchedTransport) -> None:
    agent = agent_of(deployment, transport)
    agent.start()
    transport.errors["flush"] = FAILED
    with pytest.raises(NotAuthorized, match="it does not work"):
        agent.close()
    assert not transport.left_open


def test_an_evaluator_that_cannot_join_leaves_nothing_open(
    deployment: Deployment, transport: WatchedTransport, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.json"
    config = replace(deployment.stream, telemetry=TelemetrySettings(sink="logging", file=str(lines)))
    transport.errors["subscribe"] = FAILED
    with pytest.raises(NotAuthorized, match="it does not work"):
        EvaluatorService(config, transport, MemoryStore())
    assert transport.made
    assert not transport.left_open
    opened = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _is_open(number)]
    assert str(lines) not in opened


def _is_open(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


@pytest.mark.parametrize("party", ["client", "evaluator"])
def test_each_part_is_closed_also_when_a_producer_does_not_close(
    deployment: Deployment, transport: WatchedTransport, party: str
) -> None:
    opened: Client | EvaluatorService
    if party == "client":
        opened = Client(deployment.stream, transport)
        opened.definitions.refresh()
    else:
        opened = EvaluatorService(deployment.stream, transport, MemoryStore())
    assert len(transport.left_open) > 1
    transport.errors["close"] = FAILED
    with pytest.raises(NotAuthorized, match="it does not work"):
        opened.close()
    assert not transport.left_open


def test_an_audit_whose_sink_is_full_leaves_its_group_and_closes_the_sink(
    deployment: Deployment, transport: WatchedTransport
) -> None:
    class FullSink(AuditStream):
        is_closed = False

        def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:
            raise OSError("no space left")

        def is_due(self) -> bool:
            return False

        def close(self) -> None:
            self.is_closed = True

    sink = FullSink(io.BytesIO())
    audit = Audit(AuditConfig(stream=deployment.stream), transport, sink)
    deployment.publish(event())
    while not audit.turn(0.01):
        """Until the record is written."""
    with pytest.raises(OSError, match="no space left"):
        audit.close()
    assert sink.is_closed
    assert not transport.left_open


def test_a_topic_that_cannot_be_read_yet_leaves_no_reader(deployment: Deployment, transport: WatchedTransport) -> None:
    log = TopicLog(transport, deployment.topology.schemas())
    transport.errors["watermarks"] = BrokerUnavailable("away")
    with pytest.raises(SchemaUnavailable, match="away"):
        log.read_to_end()
    assert transport.made
    assert not transport.left_open


# --- gateways ---------------------------------------------------------------------------------------------------------


def test_a_gateway_without_a_port_leaves_nothing_open(deployment: Deployment, transport: WatchedTransport) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(NoPortFree):
            serving.start(deployment.stream, transport, "127.0.0.1", taken.getsockname()[1])
    assert transport.made
    assert not transport.left_open


def test_a_gateway_with_a_setting_that_is_none_leaves_nothing_open(
    deployment: Deployment, transport: WatchedTransport
) -> None:
    settings = GatewaySettings(webhooks=f"{PAY}=http://localhost/", webhook_secret="whsec_%")
    with pytest.raises(ConfigError, match="webhook_secret"):
        Gateway(replace(deployment.stream, gateway=settings), transport)
    assert not transport.left_open


def test_a_gateway_closes_clients_that_are_at_work_and_the_thread_that_follows_runs(
    deployment: Deployment, transport: WatchedTransport
) -> None:
    gateway = Gateway(deployment.stream, transport, answer_s=0.5)
    is_told = Event()
    gateway.runs.ends.listen("r1", is_told.set)
    assert is_told.wait(PATIENCE_S)
    starting = Thread(target=lambda: _ignore(lambda: gateway.runs.start("Pay", {}, "r1", "me")))
    asking = Thread(target=lambda: _ignore(lambda: gateway.runs.status("r1")))
    for thread in (starting, asking):
        thread.start()
    gateway.close()
    for thread in (starting, asking):
        thread.join()
    assert not transport.left_open


def _ignore(call: Callable[[], object]) -> None:
    """Make a call: no evaluator answers it, and its client may be closed meanwhile."""
    with suppress(AFLError):
        call()


# --- clients of asyncio programs --------------------------------------------------------------------------------------


def test_an_asynchronous_client_that_is_closed_while_it_opens_says_so(
    deployment: Deployment, transport: WatchedTransport
) -> None:
    is_asked, may_go_on = Event(), Event()

    class Slow(WatchedTransport):
        def producer(self) -> Any:
            is_asked.set()
            assert may_go_on.wait(PATIENCE_S)
            return super().producer()

    async def scenario() -> None:
        slow = Slow(deployment.broker)
        client = AsyncClient(deployment.stream, slow)
        opening = asyncio.create_task(client.open())
        await until(is_asked.is_set)
        await client.close()
        may_go_on.set()
        with pytest.raises(ClientNotOpen):
            await opening
        assert slow.made
        assert not slow.left_open

    asyncio.run(scenario())
