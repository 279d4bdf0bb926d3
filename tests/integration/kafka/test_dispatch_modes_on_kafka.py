"""Agents on a real broker and pollers of the evaluators' store work on the same runs: each event goes one way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from afl.core.ids import event_id_of
from afl.engine.model.entities import TaskState
from afl_stream.wire.messages import StepContinue
from tests.eventually import eventually
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import Deployments

DESK = """
namespace desk {
    event facet Pay(order: Long) => (by: String)
    event facet Approve(order: Long, paid: String) => (by: String)
    event facet Ship(order: Long, approved: String) => (by: String)
    workflow Sell(order: Long) => (paid: String, approved: String, sent: String) andThen {
        p = Pay(order = $.order)
        a = Approve(order = $.order, paid = p.by)
        s = Ship(order = $.order, approved = a.by)
        yield Sell(paid = p.by, approved = a.by, sent = s.by)
    }
}
"""
PAY, APPROVE, SHIP = "desk.Pay", "desk.Approve", "desk.Ship"
MODULE = "tests.integration.desk_handlers"
ORDERS = 30


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def deployment(deployments: Deployments, calls: Path) -> Deployment:
    made = deployments(DESK, settings={"AFL_DISPATCH_TASK_FACETS": APPROVE, "DESK_CALLS": str(calls)})
    calls.touch()
    return made


def sell(deployment: Deployment) -> list[str]:
    return [deployment.client.start("desk.Sell", {"order": n}, workflow_id=f"sale-{n}") for n in range(ORDERS)]


def calls_made(calls: Path) -> Counter[str]:
    return Counter(calls.read_text().splitlines())


def assert_sold(deployment: Deployment, sales: list[str]) -> None:
    for number, sale in enumerate(sales):
        row = deployment.workflow(sale)
        assert row.status == "COMPLETED", row.error
        assert row.outputs == {
            "paid": f"{PAY} {number}", "approved": f"{APPROVE} {number}", "sent": f"{SHIP} {number}"
        }  # fmt: skip
        steps = deployment.steps(sale)
        assert len({step.id for step in steps}) == len(steps)
        tasks = [deployment.store.get_task(event_id_of(step.id, step.attempt)) for step in steps if step.attempt]
        assert [(task.name, task.state) for task in tasks if task is not None] == [(APPROVE, TaskState.COMPLETED)]
    for facet in (PAY, SHIP):
        assert len(unique_ids(deployment.records(deployment.topology.facet(facet)))) == ORDERS
    assert deployment.topology.facet(APPROVE) not in deployment.transport.admin().topic_names()


@pytest.mark.long
def test_each_event_is_done_once_by_agents_and_pollers_together(deployment: Deployment, calls: Path) -> None:
    for _ in range(2):
        deployment.processes.evaluator()
        deployment.processes.agent_of(MODULE)
        deployment.processes.poller(MODULE).when_ready()
    # While partitions change hands, two members may be at the same event.
    deployment.processes.await_members(deployment.config.evaluator_group, 2)
    deployment.processes.await_members(deployment.agent_group, 2)
    sales = sell(deployment)

    deployment.processes.finish(sales)

    assert_sold(deployment, sales)
    assert calls_made(calls) == {f"{facet} {n}": 1 for facet in (PAY, APPROVE, SHIP) for n in range(ORDERS)}


@pytest.mark.parametrize(
    ("evaluator", "agent", "poller"),
    [
        ("control.persisted", "agent.handled", "task.handled"),
        ("store.committed", "agent.produced", "task.answered"),
    ],
)
@pytest.mark.long
def test_what_dies_and_what_comes_twice_loses_and_doubles_nothing(
    evaluator: str, agent: str, poller: str, deployment: Deployment, calls: Path
) -> None:
    doomed = [
        deployment.processes.evaluator(at=evaluator, passes=3),
        deployment.processes.agent_of(MODULE, at=agent, passes=4),
        deployment.processes.poller(MODULE, at=poller, passes=3),
    ]
    deployment.processes.evaluator()
    deployment.processes.poller(MODULE)
    deployment.processes.agent_of(MODULE)
    sales = sell(deployment)
    eventually(lambda: any(party.has_died() for party in doomed), DEADLINE_S)
    # A stranger answers what was answered, and what is a task.
    for sale in sales[:10]:
        for step in deployment.steps(sale):
            if step.event_state == "event.Completed":
                answer = StepContinue(step_id=step.id, result={"by": "a stranger"})
                value = deployment.codec.encode(answer, deployment.topology.control())
                deployment.queue(deployment.topology.control(), value, key=sale.encode())
    deployment.flush()

    deployment.processes.finish(sales)

    assert_sold(deployment, sales)
    # Only what died with its handler's work unstored was done again.
    again = sum(calls_made(calls).values()) - 3 * ORDERS
    assert 0 <= again <= 3 * 16
