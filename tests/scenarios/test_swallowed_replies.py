"""Replies that never come: evaluator, agent and audit say so, are not ready, and end; an idle topic does not count."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from afl.core.process.stopping import StopFlag
from afl_stream.agent.agent import Agent, AgentConfig, AgentHealth
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.embedded.transport import EmbeddedTransport, Faults
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.reading.watchdog import Health
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import BrokerUnavailable
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, FIRST, REPORT
from tests.worlds.world import embedded

DEADLINE_S = 60
LONG = pytest.mark.long
SILENT_AFTER_S = 1
FOR_LONG = 1_000_000


class Ticking:
    """Seconds: one passes at each reading."""

    def __init__(self) -> None:
        self._ticks = count(1000)

    def __call__(self) -> float:
        return float(next(self._ticks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One that reads: runs until `stop`, or until it gives up."""

    run: Callable[[], object]
    stop: Callable[[], object]
    health: Callable[[], Health | AgentHealth]
    #: Makes a record that it has to read.
    send: Callable[[], object]
    has_read: Callable[[], bool]
    has_read_all: Callable[[], bool]


class Running:
    """A service in a thread of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.errors: list[BaseException] = []
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._service.run()
        except BrokerUnavailable as error:
            self.errors.append(error)

    def ended(self) -> str:
        """Return what it ended of, by itself."""
        self._thread.join(DEADLINE_S)
        (error,) = self.errors
        return str(error)

    def stop(self) -> None:
        self._service.stop()
        self._thread.join(DEADLINE_S)
        assert self.errors == []


def evaluator(deployment: Deployment, transport: EmbeddedTransport, folder: Path) -> Service:
    stop = StopFlag()
    service = EvaluatorService(
        deployment.config, transport, deployment.store, clock=deployment.clock, monotonic_s=Ticking()
    )
    return Service(
        run=lambda: service.run(stop),
        stop=stop.set,
        health=service.health,
        send=lambda: deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1"),
        has_read=lambda: deployment.store.load_workflow("wf-1") is not None,
        has_read_all=lambda: service.has_read_all,
    )


def agent(deployment: Deployment, transport: EmbeddedTransport, folder: Path) -> Service:
    made = Agent(AgentConfig(stream=deployment.config), transport, clock_s=Ticking())
    made.register(ASK, lambda payload: {})

    def send() -> None:
        # A garbage record is one to be read, too.
        deployment.put(deployment.topology.facet(ASK), b"no event", key=b"wf-1:1")

    return Service(
        run=made.run,
        stop=made.stop,
        health=made.health,
        send=send,
        has_read=lambda: made.counts.read > 0,
        has_read_all=lambda: made.has_read_all,
    )


def audit(deployment: Deployment, transport: EmbeddedTransport, folder: Path) -> Service:
    made = Audit(
        AuditConfig(stream=deployment.config, commands=True, poll_timeout_s=0.05),
        transport, AuditFile(folder / "audit.jsonl"), clock_s=Ticking(),
    )  # fmt: skip
    return Service(
        run=made.run,
        stop=made.stop,
        health=made.health,
        send=lambda: deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1"),
        has_read=lambda: made.counts.written > 0,
        has_read_all=lambda: made.has_read_all,
    )


SERVICES = pytest.mark.parametrize("make", [evaluator, agent, audit])
#: The same of one quick one; of all in the long run.
EACH_IN_TURN = pytest.mark.parametrize("make", [agent, *(pytest.param(m, marks=LONG) for m in (evaluator, audit))])


class Bench:
    """A deployment whose service reads over a transport with faults."""

    def __init__(self, make: Callable[..., Service], folder: Path, outage_timeout_s: int) -> None:
        self.faults = Faults()
        deployment = embedded(None, DESK)
        kafka = KafkaSettings(silent_after_s=SILENT_AFTER_S, outage_timeout_s=outage_timeout_s)
        deployment.config = replace(deployment.config, kafka=kafka)
        self.service = make(deployment, EmbeddedTransport(deployment.broker, probe=self.faults.probe), folder)

    def is_ready(self) -> bool:
        return self.service.health().ready

    def start(self) -> Running:
        running = Running(self.service)
        eventually(self.is_ready, DEADLINE_S)
        return running


def outage_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@SERVICES
def test_swallowed_fetches_are_told_once_make_it_unready_and_end_it(
    make: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(make, tmp_path, outage_timeout_s=5)
    running = bench.start()
    bench.faults.swallow("poll.before_deliver")
    bench.service.send()

    said = running.ended()

    assert "without a reply to a fetch" in said
    assert "gave up after 5 s" in said
    (reported,) = [text for text in outage_warnings(caplog) if "waiting for it, up to 5 s" in text]
    assert "without a reply to a fetch" in reported
    assert any("without a reply to a fetch" in reason for reason in bench.service.health().reasons)


@EACH_IN_TURN
def test_when_replies_come_again_it_continues_and_is_ready(
    make: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(make, tmp_path, outage_timeout_s=FOR_LONG)
    running = bench.start()
    bench.faults.swallow("poll.before_deliver")
    bench.service.send()
    eventually(lambda: not bench.is_ready(), DEADLINE_S)
    had_read = bench.service.has_read()

    bench.faults.clear()
    eventually(lambda: bench.is_ready() and bench.service.has_read(), DEADLINE_S)

    running.stop()
    assert not had_read
    assert len([text for text in outage_warnings(caplog) if "the broker is back" in text]) == 1


@EACH_IN_TURN
def test_a_broker_that_answers_nothing_is_an_outage_on_an_idle_topic_too(
    make: Callable[..., Service], tmp_path: Path
) -> None:
    bench = Bench(make, tmp_path, outage_timeout_s=2)
    running = bench.start()
    bench.faults.swallow("view.before_answer")

    said = running.ended()

    assert "has not answered for" in said
    assert "gave up after 2 s" in said


@EACH_IN_TURN
def test_an_idle_topic_is_no_outage(
    make: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(make, tmp_path, outage_timeout_s=5)
    running = bench.start()
    # By its own clock far longer than an outage may last.
    eventually(lambda: bench.faults.reached("view.before_answer") > 10, DEADLINE_S)

    assert bench.is_ready()
    running.stop()
    assert outage_warnings(caplog) == []


@EACH_IN_TURN
def test_one_that_ends_when_it_is_idle_is_not_idle_while_replies_are_swallowed(
    make: Callable[..., Service], tmp_path: Path
) -> None:
    bench = Bench(make, tmp_path, outage_timeout_s=FOR_LONG)
    running = bench.start()
    eventually(bench.service.has_read_all, DEADLINE_S)
    bench.faults.swallow("poll.before_deliver")
    bench.service.send()
    eventually(lambda: not bench.service.has_read_all(), DEADLINE_S)
    had_read = bench.service.has_read()
    bench.faults.clear()
    eventually(lambda: bench.service.has_read() and bench.service.has_read_all(), DEADLINE_S)

    running.stop()
    assert not had_read
