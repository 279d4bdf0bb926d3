"""The client for Go: its own tests, and one group with an agent in Python."""

from pathlib import Path

import pytest

from tests.integration.clients.fetched import run_in
from tests.integration.clients.mixed_group import CLIENTS, MixedGroup
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FOLDER = CLIENTS / "go"


def test_its_keys_and_numbers_are_as_it_says_and_a_facet_moves_to_it_without_a_stop(
    deployments: Deployments, tmp_path: Path
) -> None:
    go = required_tool("go")
    run_in(FOLDER, [go, "mod", "download"], fetches=True)
    run_in(FOLDER, [go, "vet", "./..."])
    run_in(FOLDER, [go, "test", "./..."])
    run_in(FOLDER, [go, "build", "-o", str(tmp_path / "tasks"), "./cmd/tasks"])

    group = MixedGroup(deployments, "go", assignor="cooperative-sticky")
    with group.joined_by([str(tmp_path / "tasks")], tmp_path):
        group.share()
        group.rebalance()
        group.move()
        group.answer_all_kinds()
    group.check_answers()
