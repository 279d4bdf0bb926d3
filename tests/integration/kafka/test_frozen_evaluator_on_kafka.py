"""An evaluator that stands still past its session: another takes over, and when it comes back it changes nothing."""

import pytest

from tests.eventually import eventually
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.shop import SHOP, assert_one_answer_each, start_orders
from tests.worlds.stored_rows import rows_of_work
from tests.worlds.world import Deployments

ORDERS = 3


def take_over_from(frozen: Party, deployment: Deployment, orders: list[str]) -> Party:
    """Another evaluator does all the work, and its store is at rest."""
    frozen.when_frozen()
    successor = deployment.processes.evaluator()
    deployment.processes.agent()
    deployment.processes.finish(orders)
    return successor


def copies(deployment: Deployment) -> int:
    """How many events were published more than once."""
    records = deployment.records(deployment.topology.facet("shop.Price"))
    return len(records) - len(unique_ids(records))


def assert_still_of_use(deployment: Deployment) -> None:
    """Wait until the deployment continues, whichever evaluator has the partitions."""
    more = start_orders(deployment, ORDERS, stem="later")
    deployment.processes.finish(more)
    assert_delivered(deployment, [*(f"order-{n}" for n in range(ORDERS)), *more])


@pytest.mark.parametrize("point", [pytest.param("control.read", marks=pytest.mark.long), "control.applied"])
def test_one_that_was_frozen_in_the_middle_of_a_batch_changes_nothing_and_says_why(
    point: str, deployments_on_either_store: Deployments
) -> None:
    deployment = deployments_on_either_store(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.processes.evaluator(point, act="freeze")
    take_over_from(frozen, deployment, orders)
    rows = rows_of_work(deployment)

    frozen.go_on()
    frozen.when_it_says("lost its partitions")
    deployment.processes.await_members(deployment.config.evaluator_group, 2)

    assert rows_of_work(deployment) == rows
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    (reason,) = [line for line in frozen.log.splitlines() if "lost its partitions" in line]
    assert deployment.topology.commands() in reason
    assert_still_of_use(deployment)
    assert frozen.stop()["positions_lost"] == 1


@pytest.mark.long
def test_one_that_was_frozen_before_it_published_makes_copies_with_the_same_ids(
    deployments_on_either_store: Deployments,
) -> None:
    deployment = deployments_on_either_store(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.processes.evaluator("control.persisted", act="freeze")
    take_over_from(frozen, deployment, orders)
    rows = rows_of_work(deployment)

    asked = copies(deployment)
    frozen.go_on()
    deployment.processes.await_members(deployment.config.evaluator_group, 2)
    eventually(lambda: copies(deployment) > asked, DEADLINE_S)

    # The agent answers the copies, and reading those duplicates moves positions.
    assert rows_of_work(deployment) | {"position": []} == rows | {"position": []}
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_no_offset_past_its_effect(deployment)
    assert_still_of_use(deployment)


@pytest.mark.long
def test_one_that_was_frozen_between_its_batches_hands_over_and_comes_back(
    deployments_on_either_store: Deployments,
) -> None:
    deployment = deployments_on_either_store(SHOP)
    orders = start_orders(deployment, ORDERS)
    frozen = deployment.processes.evaluator().when_ready()
    frozen.freeze()
    take_over_from(frozen, deployment, orders)
    rows = rows_of_work(deployment)

    frozen.go_on()
    deployment.processes.await_members(deployment.config.evaluator_group, 2)

    assert rows_of_work(deployment) == rows
    assert_delivered(deployment, orders)
    assert_still_of_use(deployment)
    frozen.stop()


@pytest.mark.long
def test_a_frozen_agent_is_followed_by_another_and_its_late_answers_change_nothing(
    deployments_on_either_store: Deployments,
) -> None:
    deployment = deployments_on_either_store(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator = deployment.processes.evaluator()
    frozen = deployment.processes.agent("agent.handled", act="freeze").when_frozen()

    deployment.processes.agent()
    deployment.processes.finish(orders)
    rows = rows_of_work(deployment)
    frozen.go_on()
    deployment.processes.await_members(deployment.agent_group, 2)
    frozen.stop()

    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_delivered(deployment, orders)
    assert rows_of_work(deployment)["step"] == rows["step"]
    assert_no_offset_past_its_effect(deployment)
    # Answers that it sends before it learns that its partitions are lost are duplicates; later it sends none.
    assert evaluator.stop()["outcomes"].keys() <= {"applied", "duplicate"}
