"""The client for the shell: one group with an agent in Python."""

from pathlib import Path

import pytest

from tests.integration.clients.mixed_group import CLIENTS, MixedGroup
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
