"""Where the tests get their broker and their MongoDB: one for the whole run; a broker of a test's own to be killed."""

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from afl.config import MongoDBConfig
from tests.integration.kafka_deployment import Deployments
from tests.integration.mongodb import a_database, server_of_the_run
from tests.integration.processes import Processes
from tests.integration.requirements import missing
from tests.integration.shared_broker import BrokerOfTheRun
from tools.kafka import Broker
from tools.kafka.errors import NotInstalled
from tools.kafka.jars import KAFKA_POM, jars_of
from tools.kafka.java import find_java
from tools.kafka.testcontainer import DockerMissing, broker_in_docker
from tools.mongodb.testcontainer import DockerMissing as DockerWithoutMongoDB
from tools.mongodb.testcontainer import mongodb_in_docker


@pytest.fixture(scope="session")
def kafka_bootstrap(
    bootstrap_from_outside: str | None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Provide the run's broker address: the person's own (AFL_KAFKA_BOOTSTRAP), else ours, else one in Docker."""
    if bootstrap_from_outside is not None:
        yield _answering(bootstrap_from_outside)
        return
    reason = _why_no_broker_of_ours()
    if reason is None:
        is_worker = hasattr(request.config, "workerinput")
        folder = tmp_path_factory.getbasetemp()
        # Workers of one run have folders beside each other, and a common parent process.
        run = BrokerOfTheRun(
            (folder.parent if is_worker else folder) / "kafka-of-the-run",
            guardian_pid=os.getppid() if is_worker else os.getpid(),
        )
        with run as bootstrap:
            yield bootstrap
        return
    try:
        docker = broker_in_docker()
    except DockerMissing as error:
        missing(f"no Kafka broker: AFL_KAFKA_BOOTSTRAP is not set; {reason}; {error}")
    with docker as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def mongodb_url(
    mongodb_from_outside: str | None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Provide the address of the run's MongoDB: the person's own (AFL_MONGODB_URL), one in Docker, else ours."""
    if mongodb_from_outside is not None:
        yield mongodb_from_outside
        return
    yield from _mongodb(request, tmp_path_factory, standalone=False)


@pytest.fixture(scope="session")
def standalone_mongodb_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide the address of a MongoDB, in Docker or ours, that is no replica set: it has no transactions."""
    yield from _mongodb(request, tmp_path_factory, standalone=True)


def _mongodb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, *, standalone: bool
) -> Iterator[str]:
    with ExitStack() as ends:
        try:
            url = ends.enter_context(mongodb_in_docker(standalone=standalone))
        except DockerWithoutMongoDB:
            is_worker = hasattr(request.config, "workerinput")
            folder = tmp_path_factory.getbasetemp()
            name = f"{'standalone-' if standalone else ''}mongodb-of-the-run"
            shared = (folder.parent if is_worker else folder) / name
            guardian_pid = os.getppid() if is_worker else os.getpid()
            url = ends.enter_context(server_of_the_run(shared, guardian_pid, standalone=standalone))
        yield url


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


@pytest.fixture
def kafka_prefix(kafka_bootstrap: str) -> Iterator[str]:
    """Provide a prefix that no other test has, for topics and groups; its topics are deleted after the test."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    yield prefix
    client = AdminClient({"bootstrap.servers": kafka_bootstrap, "log_level": 0})
    topics = [name for name in client.list_topics(timeout=30).topics if name.startswith(prefix)]
    for deleted in client.delete_topics(topics).values() if topics else ():
        # Already gone, by the test's own doing or by a rival cleanup.
        try:
            deleted.result(30)
        except KafkaException:
            continue


@pytest.fixture
def broker_installed() -> None:
    """For a test that starts a broker itself: says what is missing where it can't."""
    reason = _why_no_broker_of_ours()
    if reason is not None:
        missing(f"no Kafka broker of the test's own: {reason}")


@pytest.fixture
def own_broker(tmp_path: Path, broker_installed: None) -> Iterator[Broker]:
    """Provide a broker of the test's own, that it may pause, kill, stop and start again."""
    with Broker.start(tmp_path / "own-broker") as broker:
        yield broker


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


def _answering(bootstrap: str) -> str:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        client.list_topics(timeout=20)
    except KafkaException as error:
        pytest.fail(f"no broker answers at AFL_KAFKA_BOOTSTRAP={bootstrap}: {error}", pytrace=False)
    return bootstrap


def _why_no_broker_of_ours() -> str | None:
    try:
        find_java()
        jars_of(KAFKA_POM)
    except NotInstalled as error:
        return str(error)
    return None
