"""A person with kcat and jq: what the page of the schemas has them type starts runs, answers steps and ends runs."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from afl.engine.model.store import CANCELLED, COMPLETED, ERROR
from afl.engine.states import EventState
from afl_stream.partitioner import partition_for
from tests.eventually import eventually
from tests.integration.schemas_page import shell, typed
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

#: The facet, the workflow and the runs that the page speaks of.
CHECKOUT = """
namespace shop {
  event facet Charge(order: String) => (receipt: String)
  workflow Checkout(order: String) => (receipt: String) andThen {
    paid = Charge(order = $.order)
    yield Checkout(receipt = paid.receipt)
  }
}
"""
ASKED_OF_THE_PAGE = "order-17:5f3a"
LIST, ANSWER, AUDIT, RUN = "kcat -C", "printf '%s' 'order-17|", "afl-stream audit", "printf '%s' 'order-18|"


@pytest.fixture
def deployment(deployments: Deployments) -> Deployment:
    """Return a shop without agents."""
    for tool in ("kcat", "jq"):
        required_tool(tool)
    return deployments(CHECKOUT)


def type_in(deployment: Deployment, text: str) -> str:
    return typed(text, deployment.config.store_path.parent, deployment.config, deployment.processes.environment)


def waiting_step(deployment: Deployment, workflow_id: str) -> str:
    """Return the id of the step that waits for an answer, as the page's command shows it."""
    shown: list[str] = []

    def is_shown() -> bool:
        shown[:] = [key for key in type_in(deployment, shell(LIST)).split() if key.startswith(f"{workflow_id}:")]
        return bool(shown)

    eventually(is_shown, DEADLINE_S, interval_s=0.1)
    (step_id,) = shown
    return step_id


def answer(deployment: Deployment, workflow_id: str, entries: Mapping[str, object]) -> None:
    """Type an answer of another kind as the page's is typed."""
    begun, _, rest = shell(ANSWER).partition("|")
    ended = rest[rest.index("}}'") + len("}}'") :]
    type_in(deployment, f"{begun.replace('order-17', workflow_id)}|{json.dumps(entries)}'{ended}")


def test_an_answer_of_step_id_and_result_sent_three_times_is_applied_once_and_twice_a_duplicate(
    deployment: Deployment,
) -> None:
    evaluator = deployment.processes.evaluator()
    deployment.client.start("shop.Checkout", {"order": "17"}, workflow_id="order-17")
    step_id = waiting_step(deployment, "order-17")
    command = shell(ANSWER).replace(ASKED_OF_THE_PAGE, step_id)

    for _ in range(3):
        type_in(deployment, command)
    deployment.processes.finish(["order-17"])
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)

    # Besides the answer, the start was applied.
    assert evaluator.stop()["outcomes"] == {"applied": 2, "duplicate": 2}
    assert deployment.workflow("order-17").outputs == {"receipt": "r-17"}
    sent = deployment.records(deployment.topology.control())
    assert [json.loads(record.value or b"") for record in sent] == [
        {"step_id": step_id, "result": {"receipt": "r-17"}}
    ] * 3
    assert {record.partition for record in sent} == {partition_for(b"order-17", 2)}
    assert deployment.dead_letters(deployment.topology.control()) == []

    audited = [json.loads(line) for line in type_in(deployment, shell(AUDIT)).splitlines()]
    expected = [["event", step_id, {"order": "17"}, None], *[["answer", step_id, {"receipt": "r-17"}, None]] * 3]
    assert sorted(audited, key=str) == sorted(expected, key=str)


def test_runs_are_started_updated_failed_and_cancelled_with_kcat(deployment: Deployment) -> None:
    evaluator = deployment.processes.evaluator()
    starts = shell(RUN).partition("\nprintf")[0]
    type_in(deployment, starts)
    type_in(deployment, starts.replace("18", "19"))
    type_in(deployment, starts.replace("18", "20"))
    failed, finished = waiting_step(deployment, "order-19"), waiting_step(deployment, "order-20")
    waiting_step(deployment, "order-18")

    # The start comes again with the whole block: the same run, not a second one.
    type_in(deployment, shell(RUN))
    answer(deployment, "order-19", {"step_id": failed, "error": {"type": "CardDeclined", "message": "no funds"}})
    answer(deployment, "order-20", {"step_id": finished, "partial": {"receipt": "pending"}, "mood": "ignored"})
    eventually(lambda: event_state(deployment, finished) == EventState.PROCESSING, DEADLINE_S)
    answer(deployment, "order-20", {"step_id": finished, "result": {"receipt": "r-20"}})
    runs = ["order-18", "order-19", "order-20"]
    deployment.processes.finish(runs)
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)

    assert [deployment.workflow(run).status for run in runs] == [CANCELLED, ERROR, COMPLETED]
    assert deployment.workflow("order-20").outputs == {"receipt": "r-20"}
    assert evaluator.stop()["outcomes"]["duplicate"] == 1
    for topic in (deployment.topology.control(), deployment.topology.commands()):
        assert deployment.dead_letters(topic) == []


def event_state(deployment: Deployment, step_id: str) -> str | None:
    steps = deployment.steps(step_id.partition(":")[0])
    return next(step.event_state for step in steps if step.id == step_id)
