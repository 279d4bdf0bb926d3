"""Agents and pollers side by side on MongoDB: the scenarios of tests/scenarios/test_dispatch_modes.py, unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.integration.mongo_deployment import deployments_on, scenarios_of
from tests.scenarios import test_dispatch_modes

#: One for each thing that a store has a part in.
QUICK: Final = (
    "test_each_facet_goes_its_way_through_one_workflow",
    "test_the_first_answer_wins_when_both_ways_are_taken",
    "test_a_registry_runner_does_the_tasks_of_a_deployment_too",
    "test_a_cancelled_run_leaves_no_task_to_do",
)


@pytest.fixture(autouse=True, params=["replica set", pytest.param("standalone", marks=pytest.mark.long)])
def _on_mongodb(request: pytest.FixtureRequest) -> Iterator[None]:
    fixture = "mongodb_url" if request.param == "replica set" else "standalone_mongodb_url"
    with deployments_on(request.getfixturevalue(fixture)):
        yield


_ALL = scenarios_of(test_dispatch_modes)
globals().update({name: _ALL[name] for name in QUICK})


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_crashes_and_copies_on_mongodb(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    test_dispatch_modes.test_crashes_and_copies_do_no_event_twice(seed, tmp_path_factory.mktemp("copies"))
