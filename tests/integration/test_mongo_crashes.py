"""Crashes, rivals and repetitions on MongoDB: what the loop promises on SQLite holds on both kinds of server."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.config import MongoDBConfig
from afl_stream.config import EvaluatorSettings
from afl_stream.embedded import Crash
from tests.integration.mongo_deployment import MongoDeployment
from tests.scenarios.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.scenarios.shop import SHOP, Handlers, assert_one_answer_each, start_orders
from tests.scenarios.test_loop_crashes import ORDERS, Life, Place, faults_at, no_faults
from tests.scenarios.test_rival_evaluators import FLEET, answer_under_any_key, finish_in_threads

#: A commit by transaction, and one by commit document, have different steps.
TRANSACTION_POINTS = ("store.written", "store.committed", "control.applied", "control.persisted", "control.published")
DOCUMENT_POINTS = ("store.compared", "store.written", "store.applied", "store.committed", "control.persisted")


def crash_and_go_on(database: MongoDBConfig, folder: Path, place: Place) -> None:
    """A crash at the place, a restart, and what then must be true."""
    deployment, handlers = MongoDeployment(database, folder, SHOP), Handlers()
    orders = start_orders(deployment, ORDERS)

    with pytest.raises(Crash, match=place.point):
        Life(deployment, handlers, faults_at(deployment, place)).live()
    deployment.crash_and_restart()
    assert_no_offset_past_its_effect(deployment)
    Life(deployment, handlers, no_faults(deployment)).live()

    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_no_offset_past_its_effect(deployment)
    deployment.crash()


@pytest.mark.parametrize("passes", [0, 2])
@pytest.mark.parametrize("point", TRANSACTION_POINTS)
def test_a_crash_around_a_transaction_loses_nothing_and_does_nothing_twice(
    mongodb: MongoDBConfig, tmp_path: Path, point: str, passes: int
) -> None:
    crash_and_go_on(mongodb, tmp_path, Place(party="evaluator", point=point, passes=passes))


@pytest.mark.parametrize("passes", [0, 2])
@pytest.mark.parametrize("point", DOCUMENT_POINTS)
def test_a_crash_around_a_commit_document_loses_nothing_and_does_nothing_twice(
    standalone_mongodb: MongoDBConfig, tmp_path: Path, point: str, passes: int
) -> None:
    crash_and_go_on(standalone_mongodb, tmp_path, Place(party="evaluator", point=point, passes=passes))


def test_two_evaluators_in_threads_of_their_own_finish_workflows_that_they_share(
    mongodb_of_either_kind: MongoDBConfig, tmp_path: Path
) -> None:
    deployment = MongoDeployment(mongodb_of_either_kind, tmp_path, FLEET, control_partitions=4)

    # A server in Python behind a wire: it takes its time.
    finish_in_threads(deployment, deadline_s=60)


def test_answers_in_the_wrong_partitions_and_twice_are_each_applied_once(
    mongodb_of_either_kind: MongoDBConfig, tmp_path: Path
) -> None:
    settings = EvaluatorSettings(batch_records=20)
    deployment = MongoDeployment(mongodb_of_either_kind, tmp_path, FLEET, evaluator=settings, control_partitions=4)

    answer_under_any_key(deployment, seed=1)

    deployment.crash()
