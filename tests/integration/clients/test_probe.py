"""`afl-stream agent probe` beside an agent of our own, which keeps every rule."""

import json

import pytest

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
