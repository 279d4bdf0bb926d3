"""A group's offsets are gone from a real broker, as a week without members leaves it."""

import pytest

from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.party_handlers import DEFERRED
from tests.worlds.processes import DEADLINE_S
from tests.worlds.shop import ORDER, SHOP, start_orders
from tests.worlds.world import Deployments

ORDERS = 3
#: What an order asks: three prices, and the shipping.
EVENTS_OF_AN_ORDER = 4
#: Prices that a run which waits for one of them has asked for.
EVENTS_OF_THE_OPEN_ORDER = 3


def deployment_without_offsets(deployments: Deployments, **settings: str) -> Deployment:
    """Three orders that have ended and one that waits, handled by agents whose group has no offsets any more."""
    deployment = deployments(SHOP, settings=settings)
    orders = start_orders(deployment, ORDERS)
    deployment.client.start(ORDER, {"items": ["tea", "sugar", DEFERRED]}, workflow_id="open")
    deployment.processes.evaluator()
    agent = deployment.processes.agent()
    deployment.processes.finish(orders)
    eventually(lambda: len(deployment.events("shop.Price")) == 3 * (ORDERS + 1), DEADLINE_S)
    agent.stop()
    deployment.kafka.admin.delete_consumer_groups([deployment.agent_group])[deployment.agent_group].result(30)
    return deployment


@pytest.mark.long
def test_events_of_ended_runs_are_skipped_and_that_is_told_with_numbers(deployments: Deployments) -> None:
    deployment = deployment_without_offsets(deployments)

    agent = deployment.processes.agent().when_it_says("no committed offsets")
    price = deployment.topology.facet("shop.Price")

    def has_read_all() -> bool:
        agent.check_alive()
        at = deployment.committed(deployment.agent_group, [price, deployment.topology.facet("shop.Ship")])
        return sum(each.offset for each in at.values()) == ORDERS * EVENTS_OF_AN_ORDER + EVENTS_OF_THE_OPEN_ORDER

    eventually(has_read_all, DEADLINE_S, interval_s=0.1)
    counts = agent.stop()

    assert counts["ended"] == ORDERS * EVENTS_OF_AN_ORDER
    assert counts["handled"] + counts["deferred"] == EVENTS_OF_THE_OPEN_ORDER
    assert f"group {deployment.agent_group} has no committed offsets for {price}[" in agent.log


@pytest.mark.long
def test_an_agent_that_refuses_ends_and_handles_nothing(deployments: Deployments) -> None:
    deployment = deployment_without_offsets(deployments, AFL_AGENT_LOST_OFFSETS="refuse")
    answers = len(deployment.messages(deployment.topology.control()))

    agent = deployment.processes.command("agent", "--group", deployment.agent_group, "--handlers",
                               "tests.worlds.party_handlers:price=shop.Price")  # fmt: skip

    assert agent.exit_code() == 3
    assert "has no committed offsets" in agent.log
    assert "--reset-offsets" in agent.log
    assert len(deployment.messages(deployment.topology.control())) == answers
