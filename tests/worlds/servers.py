"""A pytest plugin: where tests get their broker and their MongoDB, one for the whole run, and their world."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from afl_stream.broker.errors import NotInstalled
from afl_stream.broker.jars import KAFKA_POM, jars_of
from afl_stream.broker.java import find_java
from tests.worlds.mongodb import server_of_the_run
from tests.worlds.requirements import missing
from tests.worlds.shared_broker import BrokerOfTheRun
from tests.worlds.stores import MongoStores, SqliteStores, in_memory
from tests.worlds.world import EmbeddedWorld, KafkaWorld, World
from tests.worlds.worlds import EACH_ONCE
from tools.kafka.testcontainer import DockerMissing, broker_in_docker
from tools.mongodb.testcontainer import DockerMissing as DockerWithoutMongoDB
from tools.mongodb.testcontainer import mongodb_in_docker


@pytest.fixture(scope="session")
def kafka_bootstrap(
    bootstrap_from_outside: str | None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Return the address of the run's broker: the person's own (AFL_KAFKA_BOOTSTRAP), else ours, else one in Docker."""
    if bootstrap_from_outside is not None:
        yield _answering(bootstrap_from_outside)
        return
    reason = why_no_broker_of_ours()
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
    """Return the address of the run's MongoDB: the person's own (AFL_MONGODB_URL), one in Docker, else ours."""
    if mongodb_from_outside is not None:
        yield mongodb_from_outside
        return
    yield from _mongodb(request, tmp_path_factory, standalone=False)


@pytest.fixture(scope="session")
def standalone_mongodb_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a MongoDB, in Docker or ours, without a replica set: it has no transactions."""
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
def kafka_prefix(kafka_bootstrap: str) -> Iterator[str]:
    """Return a prefix that no other test has, for topics and groups; its topics are deleted after the test."""
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


def _embedded_memory(request: pytest.FixtureRequest, folder: Path) -> World:
    return EmbeddedWorld(None, in_memory)


def _embedded_sqlite(request: pytest.FixtureRequest, folder: Path) -> World:
    return EmbeddedWorld(folder, SqliteStores)


def _embedded_mongo(request: pytest.FixtureRequest, folder: Path) -> World:
    url = str(request.getfixturevalue("mongodb_url"))
    return EmbeddedWorld(folder, lambda: MongoStores(url))


def _embedded_standalone_mongo(request: pytest.FixtureRequest, folder: Path) -> World:
    url = str(request.getfixturevalue("standalone_mongodb_url"))
    return EmbeddedWorld(folder, lambda: MongoStores(url))


def _kafka_sqlite(request: pytest.FixtureRequest, folder: Path) -> World:
    bootstrap, prefix = (str(request.getfixturevalue(name)) for name in ("kafka_bootstrap", "kafka_prefix"))
    return KafkaWorld(bootstrap, prefix, folder, SqliteStores)


def _kafka_mongo(request: pytest.FixtureRequest, folder: Path) -> World:
    url = str(request.getfixturevalue("mongodb_url"))
    bootstrap, prefix = (str(request.getfixturevalue(name)) for name in ("kafka_bootstrap", "kafka_prefix"))
    return KafkaWorld(bootstrap, prefix, folder, lambda: MongoStores(url))


_WORLDS: Final = {
    "embedded-memory": _embedded_memory,
    "embedded-sqlite": _embedded_sqlite,
    "embedded-mongo": _embedded_mongo,
    "embedded-standalone-mongo": _embedded_standalone_mongo,
    "kafka-sqlite": _kafka_sqlite,
    "kafka-mongo": _kafka_mongo,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for a world in those of its module (`WORLDS`), unless a mark of its own names others."""
    if "world" not in metafunc.fixturenames:
        return
    marked = metafunc.definition.iter_markers("parametrize")
    if not any("world" in _names(mark.args[0]) for mark in marked):
        metafunc.parametrize("world", getattr(metafunc.module, "WORLDS", EACH_ONCE), indirect=True)


def _names(argument: str | Sequence[str]) -> list[str]:
    """Return what a `parametrize` names."""
    return [name.strip() for name in argument.split(",")] if isinstance(argument, str) else list(argument)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Make a test's deployments: each test that asks for it runs in every world, unless it narrows them down."""
    made = _WORLDS[request.param](request, tmp_path / "world")
    yield made
    made.close()


def _answering(bootstrap: str) -> str:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        client.list_topics(timeout=20)
    except KafkaException as error:
        pytest.fail(f"no broker answers at AFL_KAFKA_BOOTSTRAP={bootstrap}: {error}", pytrace=False)
    return bootstrap


def why_no_broker_of_ours() -> str | None:
    try:
        find_java()
        jars_of(KAFKA_POM)
    except NotInstalled as error:
        return str(error)
    return None
