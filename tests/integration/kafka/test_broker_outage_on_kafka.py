"""The broker killed and brought back in the middle of a run: everything completes, nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.integration.kafka.test_groups_on_kafka import PACE_MS, answered, assert_scanned, start_scans
from tests.scenarios.test_rival_evaluators import FLEET
from tests.worlds.processes import DEADLINE_S, Processes
from tests.worlds.world import Deployments
from tools.kafka import Broker


@pytest.fixture
def on_own_broker(own_broker: Broker, processes: Processes, tmp_path: Path) -> Iterator[Deployments]:
    """Make deployments on a broker that the test may kill."""
    made = Deployments(processes, tmp_path, own_broker.bootstrap, "own.")
    yield made
    made.close()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_a_broker_killed_and_brought_back_in_the_middle_of_a_run_costs_nothing_but_time(
    protocol: str, own_broker: Broker, on_own_broker: Deployments, tmp_path: Path
) -> None:
    deployment = on_own_broker(FLEET, protocol=protocol)
    gate = tmp_path / "gate"
    evaluator = deployment.processes.evaluator()
    agent = deployment.processes.agent(environment={"PARTY_PACE_MS": str(PACE_MS), "PARTY_GATE": str(gate)})
    scans = start_scans(deployment)
    eventually(lambda: answered(deployment) > 0, DEADLINE_S)

    own_broker.kill()
    gate.touch()
    assert evaluator.check_alive()
    assert agent.check_alive()
    own_broker.start_again()
    deployment.processes.finish(scans)

    assert_scanned(deployment, scans)
    assert evaluator.stop()["positions_lost"] == 0
    assert agent.stop()["failed"] == 0
