"""An evaluator that stands still past its session: another takes over, and when it comes back it changes nothing."""

import pytest

from tests.eventually import eventually
from tests.integration.kafka_deployment import Deployments, KafkaDeployment
from tests.integration.processes import DEADLINE_S, Party
from tests.scenarios.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.scenarios.loop_harness import unique_ids
from tests.scenarios.shop import SHOP, assert_one_answer_each, start_orders

ORDERS = 3


def take_over_from(frozen: Party, deployment: KafkaDeployment, orders: list[str]) -> Party:
    """Another evaluator does all the work, and its store is at rest."""
    frozen.when_frozen()
    successor = deployment.evaluator()
    deployment.agent()
    deployment.finish(orders)
    return successor


def copies(deployment: KafkaDeployment) -> int:
    """How many events were published more than once."""
    records = deployment.records(deployment.topology.facet("shop.Price"))
    return len(records) - len(unique_ids(records))


def assert_still_of_use(deployment: KafkaDeployment) -> None:
    """Check that the deployment continues, whichever of the two has the partitions."""
    more = start_orders(deployment, ORDERS, stem="later")
    deployment.finish(more)
    assert_delivered(deployment, [*(f"order-{n}" for n in range(ORDERS)), *more])


@pytest.mark.parametrize("point", [pytest.param("control.read", marks=pytest.mark.long), "control.applied"])
def test_one_that_was_frozen_in_the_middle_of_a_batch_changes_nothing_and_says_why(
    point: str, deployments: Deployments
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.evaluator(point, act="freeze")
    take_over_from(frozen, deployment, orders)
    rows = deployment.rows_of_work()

    frozen.go_on()
    frozen.when_it_says("lost its partitions")
    deployment.await_members(deployment.config.evaluator_group, 2)

    assert deployment.rows_of_work() == rows
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    (reason,) = [line for line in frozen.log.splitlines() if "lost its partitions" in line]
    assert deployment.topology.commands() in reason
    assert_still_of_use(deployment)
    assert frozen.stop()["positions_lost"] == 1


@pytest.mark.long
def test_one_that_was_frozen_before_it_published_makes_copies_with_the_same_ids(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.evaluator("control.persisted", act="freeze")
    take_over_from(frozen, deployment, orders)
    rows = deployment.rows_of_work()

    asked = copies(deployment)
    frozen.go_on()
    deployment.await_members(deployment.config.evaluator_group, 2)
    eventually(lambda: copies(deployment) > asked, DEADLINE_S)

    # The agent answers the copies, and reading those duplicates moves positions.
    assert deployment.rows_of_work() | {"position": []} == rows | {"position": []}
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_no_offset_past_its_effect(deployment)
    assert_still_of_use(deployment)


@pytest.mark.long
def test_one_that_was_frozen_between_its_batches_hands_over_and_comes_back(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.evaluator().when_ready()
    frozen.freeze()
    take_over_from(frozen, deployment, orders)
    rows = deployment.rows_of_work()

    frozen.go_on()
    deployment.await_members(deployment.config.evaluator_group, 2)

    assert deployment.rows_of_work() == rows
    assert_delivered(deployment, orders)
    assert_still_of_use(deployment)
    frozen.stop()


@pytest.mark.long
def test_a_frozen_agent_is_followed_by_another_and_its_late_answers_are_duplicates(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator = deployment.evaluator()
    frozen = deployment.agent("agent.handled", act="freeze").when_frozen()

    deployment.agent()
    deployment.finish(orders)
    rows = deployment.rows_of_work()
    frozen.go_on()
    deployment.await_members(deployment.agent_group, 2)
    frozen.stop()

    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_delivered(deployment, orders)
    assert deployment.rows_of_work()["step"] == rows["step"]
    assert_no_offset_past_its_effect(deployment)
    assert evaluator.stop()["outcomes"]["duplicate"] >= 1
