"""Fixtures for the tests of real servers: databases, brokers and processes of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.config import MongoDBConfig
from tests.integration.registry.world import started_registry
from tests.worlds.mongodb import a_database
from tests.worlds.processes import Processes
from tests.worlds.requirements import missing
from tests.worlds.servers import why_no_broker_of_ours
from tests.worlds.world import Deployments, deployments_on_mongodb
from tools.kafka import Broker
from tools.registry import RegistryServer


@pytest.fixture
def mongodb(mongodb_url: str) -> Iterator[MongoDBConfig]:
    """Provide a database that no other test has; it is dropped after the test."""
    with a_database(mongodb_url) as config:
        yield config


@pytest.fixture
def standalone_mongodb(standalone_mongodb_url: str) -> Iterator[MongoDBConfig]:
    """Provide a database of the test's own, on a server that has no transactions."""
    with a_database(standalone_mongodb_url) as config:
        yield config


@pytest.fixture(params=["replica set", "standalone"])
def mongodb_of_either_kind(request: pytest.FixtureRequest) -> Iterator[MongoDBConfig]:
    """Provide a database of the test's own, on a replica set and on a standalone server."""
    fixture = "mongodb_url" if request.param == "replica set" else "standalone_mongodb_url"
    with a_database(request.getfixturevalue(fixture)) as config:
        yield config


@pytest.fixture(scope="session")
def broker_installed() -> None:
    """For a test that starts a broker itself: says what is missing where it can't."""
    reason = why_no_broker_of_ours()
    if reason is not None:
        missing(f"no Kafka broker of the test's own: {reason}")


@pytest.fixture
def own_broker(tmp_path: Path, broker_installed: None) -> Iterator[Broker]:
    """Provide a broker of the test's own, that it may pause, kill, stop and start again."""
    with Broker.start(tmp_path / "own-broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """Provide a registry that the tests of this run share: use subjects of the test's own."""
    with started_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def own_registry(tmp_path: Path) -> Iterator[RegistryServer]:
    """Provide a schema registry of the test's own, that it may kill and start again."""
    with started_registry(tmp_path / "own-registry") as server:
        yield server


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start processes; what is left of them is killed after the test."""
    with Processes(tmp_path) as started:
        yield started


@pytest.fixture
def deployments(processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path) -> Iterator[Deployments]:
    """Make deployments on the run's broker."""
    made = Deployments(processes, tmp_path, kafka_bootstrap, kafka_prefix)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", pytest.param("mongo", marks=[pytest.mark.mongo, pytest.mark.long])])
def deployments_on_either_store(
    request: pytest.FixtureRequest, processes: Processes, kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path
) -> Iterator[Deployments]:
    """Make deployments on the run's broker, whose stores are files, and then databases."""
    if request.param == "mongo":
        url = request.getfixturevalue("mongodb_url")
        yield from deployments_on_mongodb(processes, tmp_path, kafka_bootstrap, kafka_prefix, url)
    else:
        yield request.getfixturevalue("deployments")
