"""A real broker behind a proxy that swallows replies, and one that stands still: told, waited for, and then the end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from afl_stream.broker.ports import free_ports
from afl_stream.exit_codes import ExitCode
from tests.eventually import eventually
from tests.integration.swallowing_proxy import SwallowingProxy, Swallows
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, FIRST, REPORT
from tests.worlds.processes import DEADLINE_S, Party, Processes
from tests.worlds.world import Deployments
from tools.kafka import Broker

pytestmark = pytest.mark.long

SILENT_AFTER_S: Final = 3
OUTAGE_S: Final = 5
#: What they are given to say so, beyond what counts as a silence: looks at it are a second apart, the machine is slow.
SLACK_S: Final = 20.0
SETTINGS: Final = {
    "AFL_KAFKA_SILENT_AFTER_S": str(SILENT_AFTER_S),
    "AFL_KAFKA_OUTAGE_TIMEOUT_S": str(OUTAGE_S),
}
ANSWERING: Final = f"""
FACET = "{ASK}"
def handle(payload):
    return {{"answer": payload["question"], "length": len(payload["question"])}}
"""


@pytest.fixture
def proxy() -> Iterator[SwallowingProxy]:
    broker_port, port = free_ports(2)
    with SwallowingProxy(port, broker_port) as proxy:
        yield proxy


@pytest.fixture
def broker(proxy: SwallowingProxy, tmp_path: Path, broker_installed: None) -> Iterator[Broker]:
    """Provide a broker that tells its clients to come to the proxy."""
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    with Broker.start(tmp_path / "broker", port=proxy._broker_port, properties=advertised) as broker:
        yield broker


@pytest.fixture
def deployment(broker: Broker, proxy: SwallowingProxy, processes: Processes, tmp_path: Path) -> Iterator[Deployment]:
    made = Deployments(processes, tmp_path, f"127.0.0.1:{proxy.port}", "swallowed.")
    yield made(DESK, settings=SETTINGS)
    proxy.swallows = Swallows.NOTHING
    broker.resume()
    made.close()


def services(deployment: Deployment) -> list[Party]:
    """Start an evaluator, an agent and an audit."""
    folder = deployment.config.store_path.parent.parent
    (folder / "answering.py").write_text(ANSWERING)
    started = [
        deployment.processes.command("evaluator"),
        deployment.processes.command("agent", "--handlers", "./answering.py"),
        deployment.processes.command("audit", "--file", "audit.jsonl"),
    ]
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-before")
    deployment.processes.finish(["wf-before"])
    eventually(lambda: (folder / "audit.jsonl").exists(), DEADLINE_S)
    return started


def assert_each_says_so_and_ends(parties: list[Party], words: str, since_s: float) -> None:
    for party in parties:
        # One that has said so may have ended by now.
        eventually(lambda party=party: words in party.log, DEADLINE_S)  # type: ignore[misc]  # bound to this one
        said_s = time.monotonic() - since_s
        assert said_s < SILENT_AFTER_S + SLACK_S, f"{party.name} said so after {said_s:.1f} s"
    for party in parties:
        assert party.exit_code() == ExitCode.UNAVAILABLE, party.log
        assert f"gave up after {OUTAGE_S} s" in party.log
        assert party.log.count("waiting for it") == 1


def test_fetch_replies_that_are_swallowed_are_told_within_seconds_and_end_each_service(
    deployment: Deployment, proxy: SwallowingProxy
) -> None:
    parties = services(deployment)

    proxy.swallows = Swallows.FETCHES
    began_s = time.monotonic()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-after")
    # The agent has an event to miss, too: garbage is one.
    deployment.queue(deployment.topology.facet(ASK), b"no event", key=b"wf:1")
    deployment.flush()

    assert_each_says_so_and_ends(parties, "without a reply to a fetch", began_s)
    assert proxy.lost > 0


def test_a_broker_whose_every_reply_is_swallowed_is_told_and_ends_each_service(
    deployment: Deployment, proxy: SwallowingProxy
) -> None:
    parties = services(deployment)

    proxy.swallows = Swallows.EVERYTHING

    assert_each_says_so_and_ends(parties, "has not answered for", time.monotonic())


def test_a_broker_that_stands_still_is_told_and_when_it_continues_so_do_they(
    deployment: Deployment, broker: Broker
) -> None:
    deployment.processes.environment["AFL_KAFKA_OUTAGE_TIMEOUT_S"] = "600"
    parties = services(deployment)

    broker.pause()
    for party in parties:
        party.when_it_says("has not answered for")
    broker.resume()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-after")
    deployment.processes.finish(["wf-after"])

    for party in parties:
        party.when_it_says("the broker is back")
        party.send(signal.SIGTERM)
        assert party.exit_code() == ExitCode.OK, party.log


def test_sigterm_during_an_outage_is_obeyed_within_the_time_that_a_drain_may_take(
    deployment: Deployment, broker: Broker
) -> None:
    deployment.processes.environment["AFL_KAFKA_OUTAGE_TIMEOUT_S"] = "600"
    deployment.processes.environment["AFL_AGENT_GRACE_S"] = "5"
    parties = services(deployment)

    broker.pause()
    for party in parties:
        party.when_it_says("has not answered for")
    began_s = time.monotonic()
    for party in parties:
        party.send(signal.SIGTERM)
    codes = [party.exit_code() for party in parties]
    took_s = time.monotonic() - began_s

    assert set(codes) <= {ExitCode.OK, ExitCode.UNAVAILABLE}
    assert took_s < 5 + 20 + SLACK_S


def test_idle_services_stay_well_far_longer_than_an_outage_may_last(deployment: Deployment) -> None:
    parties = services(deployment)
    until_s = time.monotonic() + SILENT_AFTER_S + OUTAGE_S + 6

    eventually(lambda: all(party.check_alive() for party in parties) and time.monotonic() > until_s, DEADLINE_S)

    for party in parties:
        assert "waiting for it" not in party.log
        party.send(signal.SIGTERM)
        assert party.exit_code() == ExitCode.OK, party.log
