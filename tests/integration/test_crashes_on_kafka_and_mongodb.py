"""Evaluators on Kafka whose store is a MongoDB database: killed or frozen anywhere, nothing is lost or done twice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.integration import test_frozen_evaluator_on_kafka
from tests.integration.kafka_deployment import Deployments
from tests.integration.mongo_deployment import scenarios_of
from tests.integration.processes import Processes
from tests.integration.test_crashes_on_kafka import (
    DOCUMENT_POINTS,
    EVALUATOR_POINTS,
    an_evaluator_dies,
    quick_first,
)
from tests.scenarios.shop import SHOP

#: A transaction compares while it writes; and what it has written a server keeps from others for a minute after its
#: writer was killed. test_mongo_store.py kills there, on a server of its own.
_OF_DOCUMENTS_ALONE = {*DOCUMENT_POINTS, "store.compared", "store.written"}

#: Each takes 15 s; crashes on Kafka, and on MongoDB, are each tried by quicker tests.
pytestmark = pytest.mark.long


def on_mongodb(processes: Processes, folder: Path, bootstrap: str, prefix: str, url: str) -> Iterator[Deployments]:
    """Make deployments that each have a database; they are dropped at the end."""
    stem = f"t{uuid.uuid4().hex[:12]}"
    made = Deployments(processes, folder, bootstrap, prefix, store_url=f"{url.rstrip('/')}/{stem}")
    yield made
    made.close()
    with MongoClient[dict[str, object]](url) as client:
        for name in client.list_database_names():
            if name.startswith(stem):
                client.drop_database(name)


@pytest.fixture
def deployments(
    processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path, mongodb_url: str
) -> Iterator[Deployments]:
    """Deployments whose stores are on a replica set."""
    yield from on_mongodb(processes, tmp_path, kafka_bootstrap, kafka_prefix, mongodb_url)


@pytest.fixture
def standalone_deployments(
    processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path, standalone_mongodb_url: str
) -> Iterator[Deployments]:
    """Deployments whose stores are on a server without transactions."""
    yield from on_mongodb(processes, tmp_path, kafka_bootstrap, kafka_prefix, standalone_mongodb_url)


@pytest.mark.parametrize(
    "point", quick_first([p for p in EVALUATOR_POINTS if p not in _OF_DOCUMENTS_ALONE], {"control.persisted"})
)
def test_an_evaluator_killed_at_any_step_is_followed_by_one_that_finds_all_in_the_replica_set(
    point: str, deployments: Deployments
) -> None:
    an_evaluator_dies(deployments(SHOP), point)


@pytest.mark.parametrize("point", quick_first([*EVALUATOR_POINTS, *DOCUMENT_POINTS], {"store.written"}))
def test_an_evaluator_killed_at_any_step_is_followed_by_one_that_finishes_its_commit_document(
    point: str, standalone_deployments: Deployments
) -> None:
    an_evaluator_dies(standalone_deployments(SHOP), point)


class TestFrozenEvaluators:
    """The tests of frozen evaluators, unchanged."""

    pytestmark = pytest.mark.long
    vars().update({name: staticmethod(test) for name, test in scenarios_of(test_frozen_evaluator_on_kafka).items()})  # type: ignore[arg-type]
