"""A service in FastStream answers an event facet whose events are JSON, beside evaluators of ours on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture.shell_sessions import type_page
from tests.eventually import eventually
from tests.worlds.delivery_checks import assert_delivered
from tests.worlds.processes import DEADLINE_S, ROOT, Party, Processes
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

SHOP = (ROOT / "examples" / "with_faststream" / "shop.afl").read_text()
AS_JSON = {"AFL_WIRE_FACET_EVENTS": "shop.Charge=json"}


def test_a_service_that_is_killed_loses_no_event(deployments: Deployments, processes: Processes) -> None:
    deployment = deployments(SHOP, settings=AS_JSON)
    deployment.agent_group = f"{deployment.config.prefix}agent.shop.Charge"

    def service() -> Party:
        return processes.start(
            "faststream", "examples.with_faststream.agent", environment=deployment.processes.environment
        )

    deployment.processes.evaluator()
    first = service()
    runs = [f"order-{number}" for number in range(30)]
    for run in runs:
        deployment.client.start("shop.Checkout", {"order": run}, workflow_id=run)
    eventually(lambda: first.check_alive() and any(deployment.records(deployment.topology.control())), DEADLINE_S)
    first.kill()
    second = service()
    deployment.processes.finish(runs)
    assert_delivered(deployment, runs)
    second.ask_to_stop()

    assert second.exit_code() == 0
    assert [deployment.workflow(run).outputs for run in runs] == [{"receipt": f"r-{run}"} for run in runs]


def test_a_probe_finds_no_fault_in_it(deployments: Deployments, processes: Processes) -> None:
    prefix = deployments(SHOP).config.prefix
    deployment = deployments(SHOP, settings={"AFL_PREFIX": f"{prefix}probe."})
    processes.start("faststream", "examples.with_faststream.agent", environment=deployment.processes.environment)

    payload = json.dumps({"order": "17", "amount": 1.5})
    words = ("agent", "probe", "--facet", "shop.Charge", "--payload", payload, "--json")
    probe = deployment.processes.command(*words, AFL_PREFIX=prefix)

    assert probe.exit_code() == 0, probe.log
    verdicts = {one["case"]: one for one in json.loads("\n".join(probe.lines))}
    assert all(one["faults"] == [] for one in verdicts.values()), verdicts
    assert verdicts["good"]["came"] == "result"
    assert "dead letter" in verdicts["no JSON"]["came"]


def test_the_page_of_the_example_can_be_typed(kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    type_page(
        (ROOT / "examples" / "with_faststream" / "README.md").read_text(),
        tmp_path,
        environment={"AFL_PREFIX": kafka_prefix},
        in_place_of={"localhost:9092": kafka_bootstrap, "AFL_PREFIX=afl.probe.": f"AFL_PREFIX={kafka_prefix}probe."},
        timeout_s=200,
    )
