"""`afl-stream agent probe` beside an agent of our own, which keeps every rule."""

import json
import os
import subprocess
import sys

import pytest

from afl_stream.broker.process import leash_to
from tests.integration.clients.mixed_group import TASKS
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_an_agent_in_python_is_as_the_rules_say(deployments: Deployments) -> None:
    prefix = deployments(TASKS).config.prefix
    deployment = deployments(TASKS, settings={"AFL_PREFIX": f"{prefix}probe."})
    deployment.processes.agent_of("tests.worlds.task_handlers")

    payload = json.dumps({"kind": "plain", "number": 1})
    words = ("agent", "probe", "--facet", "tasks.Do", "--payload", payload, "--json")
    probe = deployment.processes.command(*words, AFL_PREFIX=prefix)

    assert probe.exit_code() == 0, probe.log
    verdicts = {one["case"]: one for one in json.loads("\n".join(probe.lines))}
    assert all(one["faults"] == [] for one in verdicts.values())
    assert verdicts["good"]["came"] == "result"
    assert "dead letter" in verdicts["no JSON"]["came"]


#: A Kafka client that means to be an agent: its answers have another name for the result.
MISTAKEN = """
import json, sys
from confluent_kafka import Consumer, Producer
broker, prefix = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": broker, "group.id": prefix + "mistaken", "auto.offset.reset": "earliest",
                     "client.id": "mistaken"})
consumer.subscribe([prefix + "events.tasks.Do"])
producer = Producer({"bootstrap.servers": broker})
while True:
    record = consumer.poll(1)
    if record is not None and record.error() is None:
        step_id = json.loads(record.value())["step_id"]
        producer.produce(prefix + "control", json.dumps({"step_id": step_id, "results": {}}), step_id.split(":")[0])
        producer.flush()
"""


def test_a_silent_probe_says_whether_an_agent_reads_and_what_it_sent(deployments: Deployments) -> None:
    prefix = deployments(TASKS).config.prefix
    deployment = deployments(TASKS, settings={"AFL_PREFIX": f"{prefix}probe."})
    words = ("agent", "probe", "--facet", "tasks.Do", "--json", "--timeout")

    alone = deployment.processes.command(*words, "0.5", AFL_PREFIX=prefix)
    assert alone.exit_code() == 1, alone.log
    first, *others = json.loads("\n".join(alone.lines))
    assert f"no member of a group reads {prefix}probe.events.tasks.Do" in first["faults"][-1]
    assert [one["came"] for one in others] == ["not sent"] * 5

    command = [sys.executable, "-c", MISTAKEN, deployment.config.kafka.bootstrap or "", f"{prefix}probe."]
    agent = subprocess.Popen([*leash_to(os.getpid()), *command], stdin=subprocess.DEVNULL)
    try:
        deployment.processes.await_members(f"{prefix}probe.mistaken", 1)
        beside = deployment.processes.command(*words, "10", AFL_PREFIX=prefix)
        assert beside.exit_code() == 1, beside.log
    finally:
        agent.kill()
        agent.wait()
    first, *_ = json.loads("\n".join(beside.lines))
    assert "unreadable answer" in first["came"]
    assert "results" in first["faults"][0]
    assert "mistaken of the group" in first["faults"][-1]
