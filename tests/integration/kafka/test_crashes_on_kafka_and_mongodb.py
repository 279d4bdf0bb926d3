"""Evaluators on Kafka whose store is a MongoDB database: killed or frozen anywhere, nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kafka.test_crashes_on_kafka import (
    DOCUMENT_POINTS,
    EVALUATOR_POINTS,
    an_evaluator_dies,
    quick_first,
)
from tests.worlds.processes import Processes
from tests.worlds.shop import SHOP
from tests.worlds.world import Deployments, deployments_on_mongodb

#: A transaction compares while it writes; and what it has written a server keeps from others for a minute after its
#: writer was killed. test_mongo_store.py kills there, on a server of its own.
_OF_DOCUMENTS_ALONE = {*DOCUMENT_POINTS, "store.compared", "store.written"}

#: Each takes 15 s; crashes on Kafka, and on MongoDB, are each tried by quicker tests.
pytestmark = pytest.mark.long


@pytest.fixture
def deployments(
    processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path, mongodb_url: str
) -> Iterator[Deployments]:
    """Deployments whose stores are on a replica set."""
    yield from deployments_on_mongodb(processes, tmp_path, kafka_bootstrap, kafka_prefix, mongodb_url)


@pytest.fixture
def standalone_deployments(
    processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path, standalone_mongodb_url: str
) -> Iterator[Deployments]:
    """Deployments whose stores are on a server without transactions."""
    yield from deployments_on_mongodb(processes, tmp_path, kafka_bootstrap, kafka_prefix, standalone_mongodb_url)


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
