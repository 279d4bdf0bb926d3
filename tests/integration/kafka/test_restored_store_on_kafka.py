"""A store that was put back from an earlier copy, and a log that is no longer the one that the store has read."""

import sqlite3
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.client.client import Client
from tests.eventually import eventually
from tests.worlds.delivery_checks import assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.shop import ITEMS, ORDER, SHOP, assert_one_answer_each, start_orders
from tests.worlds.stored_rows import file_of, restore, rows_of_work
from tests.worlds.world import Deployments

ORDERS = 3


def event_ids(deployment: Deployment) -> set[str]:
    return {event.id for facet in ("shop.Price", "shop.Ship") for event in deployment.events(facet)}


def copy_store(deployment: Deployment, target: Path) -> None:
    """Copy the file as it is after the last commit, as a backup does."""
    copy = sqlite3.connect(target)
    with file_of(deployment) as file:
        file.backup(copy)
    copy.close()


@pytest.mark.long
def test_a_store_put_back_from_an_earlier_copy_reads_on_from_its_positions_to_the_same_result(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    agent = deployment.processes.agent()
    # In the middle: some answers are in, others are on their way.
    deployment.processes.evaluator("control.published", passes=3).when_dead()
    copy_store(deployment, tmp_path / "copy.sqlite3")
    evaluator = deployment.processes.evaluator()
    deployment.processes.finish(orders)
    outputs = [deployment.workflow(order).outputs for order in orders]
    evaluator.stop()
    asked = event_ids(deployment)
    later = deployment.store.positions()

    restore(deployment, tmp_path / "copy.sqlite3")
    earlier = deployment.store.positions()
    assert sum(earlier.values()) < sum(later.values())
    deployment.processes.evaluator()
    deployment.processes.finish(orders)

    assert [deployment.workflow(order).status for order in orders] == [COMPLETED] * ORDERS
    assert [deployment.workflow(order).outputs for order in orders] == outputs
    for order in orders:
        assert_one_answer_each(deployment, order)
    agent.check_alive()
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)
    assert_no_offset_past_its_effect(deployment)
    # What was done after the copy is done again, under the ids that it had.
    assert event_ids(deployment) == asked


@pytest.mark.parametrize("kind", ["control", pytest.param("commands", marks=pytest.mark.long)])
@pytest.mark.long
def test_a_topic_deleted_and_made_again_is_an_error_that_names_it_and_skips_nothing(
    kind: str, deployments: Deployments
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator, agent = deployment.processes.evaluator(), deployment.processes.agent()
    deployment.processes.finish(orders)
    evaluator.stop()
    agent.stop()
    topic = getattr(deployment.topology, kind)()
    deployment.recreate(topic)
    # A client of its own: the other one still knows the topic that is gone.
    with Client(deployment.config, deployment.transport) as client:
        client.start(ORDER, {"items": ITEMS}, workflow_id="later")
    rows = rows_of_work(deployment)

    refused = deployment.processes.command("evaluator")

    assert refused.exit_code() == 3
    assert topic in refused.log
    assert "Traceback" not in refused.log
    assert rows_of_work(deployment) == rows
