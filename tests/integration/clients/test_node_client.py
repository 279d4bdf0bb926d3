"""The client for Node.js: its own tests and types, and one group with an agent in Python."""

from pathlib import Path

import pytest

from tests.integration.clients.fetched import node_client, run_in
from tests.integration.clients.mixed_group import MixedGroup
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return node_client(tmp_path)


def test_its_keys_numbers_and_types_are_as_it_says(node: Path) -> None:
    run_in(node, [required_tool("node"), "--test", "test/vectors.test.js"])
    run_in(node, [required_tool("node"), "node_modules/typescript/bin/tsc"])


def test_a_facet_moves_from_python_to_node_without_a_stop(deployments: Deployments, node: Path) -> None:
    group = MixedGroup(deployments, "node", assignor="range")
    with group.joined_by([required_tool("node"), "test/tasks.js"], node):
        group.share()
        group.rebalance()
        group.move()
        group.answer_all_kinds()
    group.check_answers()
