"""Evaluators and agents that come and go in the middle of 500 events on a real broker: each step once, all complete."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer

from afl_stream.wire.messages import Event
from tests.eventually import eventually
from tests.scenarios.test_rival_evaluators import FLEET, HOSTS, PING, WORKFLOWS
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import Deployments

EVENTS = WORKFLOWS * HOSTS
#: Each call takes this long, so that there is a middle in which parties come and go.
PACE_MS = 30


def start_scans(deployment: Deployment) -> list[str]:
    hosts = list(range(HOSTS))
    return [
        deployment.client.start("fleet.Scan", {"hosts": hosts}, workflow_id=f"scan-{number}")
        for number in range(WORKFLOWS)
    ]


def answered(deployment: Deployment) -> int:
    """How many events have their answer in the store."""
    ids = [f"scan-{number}" for number in range(WORKFLOWS)]
    return sum(step.event_state == "event.Completed" for scan in ids for step in deployment.steps(scan))


def assert_scanned(deployment: Deployment, scans: list[str]) -> None:
    assert_delivered(deployment, scans)
    for scan in scans:
        assert deployment.workflow(scan).outputs == {"times": [2 * host for host in range(HOSTS)]}
    assert_no_offset_past_its_effect(deployment)


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_one_of_each_added_and_one_removed_in_the_middle_of_500_events(
    protocol: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(FLEET, protocol=protocol, control_partitions=4)
    gate = tmp_path / "gate"
    pace = {"PARTY_PACE_MS": str(PACE_MS), "PARTY_GATE": str(gate)}
    evaluators = [deployment.processes.evaluator() for _ in range(2)]
    agents = [deployment.processes.agent(environment=pace) for _ in range(2)]
    deployment.processes.await_members(deployment.config.evaluator_group, 2)
    deployment.processes.await_members(deployment.agent_group, 2)
    scans = start_scans(deployment)
    eventually(lambda: answered(deployment) > 0, DEADLINE_S)

    evaluators.append(deployment.processes.evaluator())
    agents.append(deployment.processes.agent(environment=pace))
    deployment.processes.await_members(deployment.config.evaluator_group, 3)
    deployment.processes.await_members(deployment.agent_group, 3)
    gate.touch()
    evaluators[0].ask_to_stop()
    agents[0].ask_to_stop()
    assert answered(deployment) < EVENTS, "it was over before the end"
    done = [evaluators[0].stats(), agents[0].stats()]
    deployment.processes.finish(scans)

    assert_scanned(deployment, scans)
    assert [done[0]["outcomes"].get("unreadable"), done[1]["failed"]] == [None, 0]


class AnyKey:
    """An agent without our code: reads events, answers in JSON under a random key, some of them twice.

    After some of them it waits until it is told to go on.
    """

    FIRST_PART = EVENTS // 10

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self._deployment = deployment
        self._random = Random(seed)
        self._topic = deployment.topology.facet(PING)
        self._control = deployment.topology.control()
        self._stop = threading.Event()
        self._gate = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.events = self.answers = 0

    def go_on(self) -> None:
        self._gate.set()

    def __enter__(self) -> AnyKey:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._gate.set()
        self._thread.join()

    def _work(self) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._deployment.config.kafka.bootstrap or "",
            "group.id": self._deployment.agent_group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        })  # fmt: skip
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                event = self._deployment.codec.decode(message.value(), ())
                assert isinstance(event, Event)
                self._answer(event)
                self.events += 1
                if self.events == self.FIRST_PART:
                    self._gate.wait()
        consumer.close()

    def _answer(self, event: Event) -> None:
        text = json.dumps({"step_id": event.step_id, "result": {"ms": 2 * int(str(event.payload["host"]))}})
        for _ in range(self._random.choice((1, 1, 2))):
            key = self._random.choice((None, b"", b"same", str(self._random.random()).encode()))
            self._deployment.queue(self._control, text.encode(), key=key)
            self.answers += 1
        self._deployment.flush()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_evaluators_that_share_a_store_and_get_answers_under_random_keys_apply_each_once(
    protocol: str, deployments: Deployments
) -> None:
    deployment = deployments(FLEET, protocol=protocol, control_partitions=4)
    evaluators = [deployment.processes.evaluator() for _ in range(2)]
    deployment.processes.await_members(deployment.config.evaluator_group, 2)
    scans = start_scans(deployment)
    topic = deployment.topology.facet(PING)

    with AnyKey(deployment, seed=1) as agent:
        eventually(lambda: answered(deployment) == AnyKey.FIRST_PART, DEADLINE_S)
        evaluators.append(deployment.processes.evaluator().when_ready())
        agent.go_on()
        evaluators[0].ask_to_stop()
        deployment.processes.finish(scans)
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)
    outcomes = [evaluators[0].stats(), evaluators[1].stop(), evaluators[2].stop()]

    assert_scanned(deployment, scans)
    assert len(unique_ids(deployment.records(topic))) == EVENTS
    applied = sum(stats["outcomes"].get("applied", 0) for stats in outcomes)
    duplicates = sum(stats["outcomes"].get("duplicate", 0) for stats in outcomes)
    assert applied == WORKFLOWS + EVENTS
    assert duplicates == agent.answers - EVENTS
