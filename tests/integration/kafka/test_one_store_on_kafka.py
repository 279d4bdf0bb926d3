"""One store for a deployment on a real broker: evaluators in two folders, as two processes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.shop import SHOP, start_orders
from tests.worlds.stored_rows import file_of
from tests.worlds.world import Deployments

ORDERS = 3

pytestmark = pytest.mark.long


def evaluator_in(deployment: Deployment, folder: Path, *words: str) -> Party:
    """Start an evaluator of the deployment with the store of another folder."""
    folder.mkdir(exist_ok=True)
    return deployment.processes.command("evaluator", *words, AFL_STORE_PATH=str(folder / "store.sqlite3"))


def asked(deployment: Deployment) -> int:
    """How many events were published, copies included: so often handlers run."""
    return sum(len(deployment.records(deployment.topology.facet(facet))) for facet in ("shop.Price", "shop.Ship"))


def test_an_evaluator_in_another_folder_ends_with_3_and_runs_nothing_again(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator, _ = deployment.processes.evaluator(), deployment.processes.agent()
    deployment.processes.finish(orders)
    before = asked(deployment)

    beside = evaluator_in(deployment, tmp_path / "two")

    assert beside.exit_code() == 3
    assert deployment.store.identity().id in beside.log
    assert str(deployment.config.store_path) in beside.log
    assert str(tmp_path / "two" / "store.sqlite3") in beside.log
    assert "last seen" in beside.log
    assert "--new-store" in beside.log
    assert "Traceback" not in beside.log
    # Nobody else needs to run for that.
    evaluator.stop()
    alone = evaluator_in(deployment, tmp_path / "two")
    assert alone.exit_code() == 3
    deployment.processes.evaluator()
    more = start_orders(deployment, 1, "later")
    deployment.processes.finish(more)
    assert [deployment.workflow(order).status for order in orders + more] == [COMPLETED] * (ORDERS + 1)
    assert asked(deployment) == before + 4


def test_of_two_evaluators_that_start_at_once_with_stores_of_their_own_one_ends(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)

    both = [evaluator_in(deployment, tmp_path / name) for name in ("one", "two")]

    def ended() -> list[Party]:
        return [party for party in both if not party.is_running]

    eventually(lambda: len(ended()) == 1, DEADLINE_S)
    (loser,) = ended()
    assert loser.exit_code() == 3
    assert "have store" in loser.log
    (winner,) = [party for party in both if party is not loser]
    winner.check_alive()


def test_a_copy_of_the_store_ends_with_3_once_the_original_has_worked_on(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator, _ = deployment.processes.evaluator(), deployment.processes.agent()
    deployment.processes.finish(orders)
    (tmp_path / "two").mkdir()
    with file_of(deployment) as file, sqlite3.connect(tmp_path / "two" / "store.sqlite3") as copy:
        file.backup(copy)
    copy.close()
    deployment.processes.finish(start_orders(deployment, 1, "later"))

    on_copy = evaluator_in(deployment, tmp_path / "two")

    assert on_copy.exit_code() == 3
    assert "this is a copy of it, or an older state" in on_copy.log
    evaluator.check_alive()


def test_new_store_takes_over_and_the_evaluator_of_the_other_ends_with_3(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, 1)
    agent, first = deployment.processes.agent(), deployment.processes.command("evaluator")
    deployment.processes.finish(orders)

    second = evaluator_in(deployment, tmp_path / "two", "--new-store")

    assert first.exit_code() == 3
    assert "it was claimed since" in first.log
    assert str(tmp_path / "two" / "store.sqlite3") in first.log
    assert "the deployment gets a new store" in second.log
    eventually(lambda: asked(deployment) == 8, DEADLINE_S, interval_s=0.1)
    second.check_alive()
    agent.check_alive()
