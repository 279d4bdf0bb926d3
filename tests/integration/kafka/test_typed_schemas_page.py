"""The page about schemas, typed as it is printed: a retry by kcat, and the readers in Python and Java."""

import json
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED, ERROR
from tests.eventually import eventually
from tests.integration.kafka.test_answers_by_kcat import CHECKOUT, waiting_step
from tests.integration.schemas_page import programs, shell, typed
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, ROOT
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = pytest.mark.long

RETRY, FETCH, READ = "printf '%s' 'order-19|", "mvn -q", "python read_events.py"


def type_in(deployment: Deployment, folder: Path, beginning: str) -> str:
    return typed(shell(beginning), folder, deployment.config, deployment.processes.environment)


def test_a_failed_run_is_tried_again_once_however_often_that_is_typed(deployments: Deployments, tmp_path: Path) -> None:
    required_tool("kcat")
    deployment = deployments(CHECKOUT)
    deployment.processes.evaluator()
    deployment.client.start("shop.Checkout", {"order": "19"}, workflow_id="order-19")
    step_id = waiting_step(deployment, "order-19")
    deployment.client.fail_step(step_id, "card declined")
    eventually(lambda: deployment.workflow("order-19").status == ERROR, DEADLINE_S)

    type_in(deployment, tmp_path, RETRY)
    type_in(deployment, tmp_path, RETRY)
    eventually(lambda: deployment.workflow("order-19").status != ERROR, DEADLINE_S)
    deployment.client.start("shop.Checkout", {"order": "20"}, workflow_id="order-20")
    waiting_step(deployment, "order-20")

    events = [key for key in _keys_of_events(deployment, tmp_path) if key.startswith("order-19:")]
    assert len(events) == 2, "the first attempt, and one more"


def test_readers_in_python_and_java_print_the_same_events(deployments: Deployments, tmp_path: Path) -> None:
    for tool in ("mvn", "java", "javac"):
        required_tool(tool)
    deployment = deployments(CHECKOUT)
    deployment.processes.evaluator()
    handlers = tmp_path / "desk.py"
    handlers.write_text(
        'def charge(payload):\n    return {"receipt": "r"}\n'
        'def register_handlers(runner):\n    runner.register("shop.Charge", charge)\n'
    )
    deployment.processes.command("agent", "--handlers", str(handlers))
    deployment.client.start("shop.Checkout", {"order": "17"}, workflow_id="order-17")
    deployment.processes.finish(["order-17"])
    assert deployment.workflow("order-17").status == COMPLETED
    # The page's commands are for a clone.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in programs().items():
        (tmp_path / name).write_text(text)

    type_in(deployment, tmp_path, FETCH)
    lines = [json.loads(line) for line in type_in(deployment, tmp_path, READ).splitlines() if line.startswith("{")]

    assert len(lines) == 2, "one event, by two readers"
    assert lines[0] == lines[1]


def _keys_of_events(deployment: Deployment, folder: Path) -> list[str]:
    return type_in(deployment, folder, "kcat -C").split()
