"""The client for the shell: one group with an agent in Python."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.integration.clients.mixed_group import CLIENTS, TASKS, MixedGroup
from tests.worlds.processes import DEADLINE_S, ROOT
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_a_facet_moves_from_python_to_a_command_without_a_stop(deployments: Deployments, tmp_path: Path) -> None:
    for tool in ("kcat", "jq"):
        required_tool(tool)

    group = MixedGroup(deployments, "shell", assignor="range", runs=8)
    with group.joined_by([str(CLIENTS / "shell" / "test" / "agent")], tmp_path):
        group.share()
        group.rebalance(times=3, between_s=0.4)
        group.move()
        group.answer_all_kinds()
    group.check_answers()


def test_it_places_keys_as_others_do(deployments: Deployments) -> None:
    for tool in ("kcat", "jq"):
        required_tool(tool)
    deployment = deployments(TASKS, settings={"AFL_TOPICS_CONTROL_PARTITIONS": "12"})
    config = deployment.config
    vectors = json.loads((ROOT / "schemas" / "partitioner_vectors.json").read_text())["vectors"]
    # Bash has no text with a zero in it, and a run has a name.
    wanted = {one["key"]: one["partition_of_12"] for one in vectors if one["key"] and "\0" not in one["key"]}
    for key in wanted:
        ref = json.dumps({"step_id": f"{key}:0", "workflow_id": key})
        words = [str(CLIENTS / "shell" / "afl-answer"), "-b", config.kafka.bootstrap or "", "-p", config.prefix]
        subprocess.run([*words, ref, "result", "{}"], env=os.environ, check=True, timeout=DEADLINE_S)

    def placed() -> dict[str, int]:
        return {(one.key or b"").decode(): one.partition for one in deployment.records(deployment.topology.control())}

    assert len(wanted) >= 6
    eventually(lambda: placed() == wanted, DEADLINE_S)
