"""Who works on a cluster: processes are listed while they live, as stale when they are killed, and served as ready."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.integration.kafka.test_answers_by_kcat import CHECKOUT
from tests.integration.schemas_page import shell, typed
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = pytest.mark.timeout(300)

ANNOUNCE = "printf 'rust-agent-7|"
#: One second between announcements: a killed process is gone after three.
QUICK = {"AFL_PRESENCE_INTERVAL_S": "1"}
HANDLERS = 'def register_handlers(runner):\n    runner.register("shop.Charge", lambda payload: {"receipt": "r"})\n'


def served(party: Party, path: str) -> str:
    """Return a page of the port that a process has said."""
    (line,) = [line for line in party.log.splitlines() if "has /metrics" in line]
    address = line[line.index("http://") :].split()[0]
    with urllib.request.urlopen(address + path, timeout=10) as answer:
        return str(answer.read().decode())


def test_processes_are_ready_and_listed_and_the_killed_one_is_stale(deployments: Deployments, tmp_path: Path) -> None:
    deployment = deployments(CHECKOUT)
    deployment.client.apply_topics(deployment.programs)
    (tmp_path / "desk.py").write_text(HANDLERS)
    processes = deployment.processes
    evaluator = processes.command("evaluator", "--metrics-port", "0", **QUICK)
    agent = processes.command("agent", "--handlers", str(tmp_path / "desk.py"), "--metrics-port", "0", **QUICK)
    for party in (evaluator, agent):
        party.when_it_says("has /metrics")

    def servers() -> dict[str, Any]:
        listing = processes.command("servers", "--json")
        listing.exit_code()
        found = json.loads("\n".join(listing.lines))
        return {server["service_name"]: server for server in found if server["presence"]}

    eventually(lambda: {"afl-evaluator", "agent"} <= servers().keys(), DEADLINE_S)
    deployment.client.start("shop.Checkout", {"order": "17"}, workflow_id="order-17")
    processes.finish(["order-17"])
    assert json.loads(served(evaluator, "/health/ready")) == {"ready": True, "reasons": []}
    assert json.loads(served(agent, "/health/live")) == {"live": True, "reasons": []}
    assert 'afl_evaluator_answers_total{facet="shop.Charge",result="completed"} 1.0' in served(evaluator, "/metrics")

    agent.kill()

    eventually(lambda: servers()["agent"]["stale"], DEADLINE_S)
    listed = servers()
    assert listed["agent"]["handlers"] == ["shop.Charge"]
    assert listed["agent"]["presence"]["version"]
    assert not listed["afl-evaluator"]["stale"]


@pytest.mark.long
def test_an_agent_in_any_language_is_listed_by_one_line_of_kcat(deployments: Deployments, tmp_path: Path) -> None:
    required_tool("kcat")
    deployment = deployments(CHECKOUT)
    deployment.client.apply_topics(deployment.programs)

    typed(shell(ANNOUNCE), tmp_path, deployment.config, deployment.processes.environment)

    listing = deployment.processes.command("servers", "--json")
    listing.exit_code()
    assert "rust-agent-7" in "".join(listing.lines)
