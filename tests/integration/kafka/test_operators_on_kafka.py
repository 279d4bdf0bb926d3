"""Operators on a real broker: a failed step retried, a step run again, and a handler that learns of a cancel."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from afl.core.clock import epoch_ms
from afl.engine.execution.generations import current_steps
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, PAUSED, StepDocument
from afl_stream.agent.agent import Agent, AgentConfig, HandlerContext
from afl_stream.kafka.transport import KafkaTransport
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import Deployments

CHECKOUT = """
namespace shop {
  event facet Charge(order: String) => (receipt: String)
  workflow Checkout(order: String) => (receipt: String) andThen {
    paid = Charge(order = $.order)
    yield Checkout(receipt = paid.receipt)
  }
}
"""


def step_of(deployment: Deployment, workflow_id: str) -> StepDocument:
    row = deployment.store.load_workflow(workflow_id)
    assert row is not None
    (step,) = [
        step
        for step in current_steps(deployment.store.load_steps(workflow_id), row.execution)
        if step.facet_name == "shop.Charge"
    ]
    return step


def comes_to(deployment: Deployment, workflow_id: str, status: str, attempt: int = 0) -> None:
    def has_come() -> bool:
        row = deployment.store.load_workflow(workflow_id)
        if row is None or row.status != status:
            return False
        return not attempt or step_of(deployment, workflow_id).attempt == attempt

    eventually(has_come, DEADLINE_S, interval_s=0.05)


def test_what_failed_is_retried_and_what_was_done_is_run_again(deployments: Deployments) -> None:
    deployment = deployments(CHECKOUT)
    deployment.processes.evaluator()
    client = deployment.client
    client.start("shop.Checkout", {"order": "1"}, workflow_id="w1")
    comes_to(deployment, "w1", PAUSED, attempt=1)

    client.fail_step(step_of(deployment, "w1").id, "card declined")
    comes_to(deployment, "w1", ERROR)
    client.retry("w1", command_id="again")
    client.retry("w1", command_id="again")
    comes_to(deployment, "w1", PAUSED, attempt=2)
    client.continue_step(step_of(deployment, "w1").id, {"receipt": "r-1"}, attempt=2)
    comes_to(deployment, "w1", COMPLETED)
    client.rerun(step_of(deployment, "w1").id)
    comes_to(deployment, "w1", PAUSED, attempt=3)
    client.continue_step(step_of(deployment, "w1").id, {"receipt": "r-2"})
    comes_to(deployment, "w1", COMPLETED)

    row = deployment.store.load_workflow("w1")
    assert row is not None
    assert (row.outputs, row.execution) == ({"receipt": "r-2"}, 2)


def test_a_handler_that_asks_learns_of_a_cancellation(deployments: Deployments) -> None:
    deployment = deployments(CHECKOUT)
    deployment.processes.evaluator()
    transport = KafkaTransport(deployment.config)
    agent = Agent(AgentConfig(stream=deployment.config, group=deployment.agent_group), transport)
    runs, learned = threading.Event(), threading.Event()

    def charge(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        assert not context.is_cancelled
        runs.set()
        eventually(lambda: context.is_cancelled, DEADLINE_S, interval_s=0.1)
        learned.set()
        return {"receipt": "r-1"}

    agent.register("shop.Charge", charge)
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        deployment.client.start("shop.Checkout", {"order": "1"}, workflow_id="w1")
        assert runs.wait(DEADLINE_S)
        deployment.client.cancel("w1", "ordered twice")
        assert learned.wait(DEADLINE_S)
    finally:
        agent.stop()
        thread.join(DEADLINE_S)
        transport.close()
    comes_to(deployment, "w1", CANCELLED)


@pytest.mark.long
def test_events_of_a_cancelled_run_are_skipped_and_handed_out_again_after_a_retry(deployments: Deployments) -> None:
    deployment = deployments(CHECKOUT)
    deployment.processes.evaluator()
    transport = KafkaTransport(deployment.config)
    agent = Agent(AgentConfig(stream=deployment.config, group=deployment.agent_group), transport)
    handled: list[tuple[str, int]] = []

    def charge(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        handled.append((context.workflow_id, context.attempt))
        return {"receipt": f"r-{payload['order']}"}

    agent.register("shop.Charge", charge)
    # It is a member before there is an event, and takes no turn while the runs are started and one is cancelled.
    eventually(lambda: agent.turn(0.1) or not agent.groups_without_partitions, DEADLINE_S)
    for number in (1, 2):
        deployment.client.start("shop.Checkout", {"order": str(number)}, workflow_id=f"w{number}")
        comes_to(deployment, f"w{number}", PAUSED, attempt=1)
    deployment.client.cancel("w1")
    comes_to(deployment, "w1", CANCELLED)
    asked_ms = epoch_ms()
    eventually(lambda: epoch_ms() > asked_ms + 1_000, DEADLINE_S)

    eventually(lambda: agent.run_once(0.1) or agent.counts.cancelled == len(handled) == 1, DEADLINE_S)
    assert handled == [("w2", 1)]
    deployment.client.retry("w1")
    eventually(lambda: agent.run_once(0.1) or len(handled) == 2, DEADLINE_S)
    comes_to(deployment, "w1", COMPLETED)

    assert (handled[1], agent.counts.cancelled) == (("w1", 2), 1)
    agent.close()
    transport.close()
