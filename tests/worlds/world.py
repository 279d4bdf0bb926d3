"""Worlds: a broker and a kind of store each. A scenario asks its world for deployments, and runs in every world."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from pymongo import MongoClient

from afl.core.clock import ManualClock
from afl.engine.execution.scripts import ScriptRunner
from afl.telemetry.telemetry import Telemetry
from afl_stream.settings.config import (
    AgentSettings,
    AnswerSettings,
    DispatchSettings,
    EmbeddedSettings,
    EvaluatorSettings,
    LifecycleSettings,
    StreamConfig,
    TopicSettings,
    WireSettings,
    load_config,
)
from afl_stream.settings.logs import LoggingSettings
from afl_stream.settings.sensitive import KeySettings, SensitiveSettings
from afl_stream.tracing.tracer import Tracer
from tests.worlds.deployment import START_MS, Deployment
from tests.worlds.embedded_cluster import EmbeddedCluster
from tests.worlds.kafka_cluster import SESSION_TIMEOUT_MS, KafkaCluster
from tests.worlds.process_parties import ProcessParties
from tests.worlds.processes import Processes
from tests.worlds.stores import ConfiguredStores, SqliteStores, Stores, in_memory

#: Makes the stores of one more deployment.
NewStores = Callable[[], Stores]


class Settings(TypedDict, total=False):
    """What a scenario may say of its deployment; `scripts` runs the scripts of every evaluator."""

    evaluator: EvaluatorSettings
    answers: AnswerSettings
    dispatch: DispatchSettings
    agent: AgentSettings
    control_partitions: int
    max_event_bytes: int
    wire: WireSettings
    lifecycle: LifecycleSettings
    telemetry: Telemetry | None
    tracer: Tracer | None
    scripts: ScriptRunner | None
    sensitive: SensitiveSettings
    keys: KeySettings
    logging: LoggingSettings


class World(ABC):
    """Makes the deployments of one test, and ends them."""

    def __init__(self) -> None:
        self._made: list[Deployment] = []

    def deployment(self, *sources: str, **settings: Unpack[Settings]) -> Deployment:
        """Return a deployment of its own topics and rows, to which these programs are deployed."""
        self._made.append(self._make(sources, settings))
        return self._made[-1]

    @abstractmethod
    def _make(self, sources: tuple[str, ...], settings: Settings) -> Deployment: ...

    def close(self) -> None:
        for made in self._made:
            made.close()


class EmbeddedWorld(World):
    """The embedded broker. Without a folder the log is in memory, and ends with the process."""

    def __init__(self, folder: Path | None, new_stores: NewStores) -> None:
        super().__init__()
        self._folder, self._new_stores = folder, new_stores

    def _make(self, sources: tuple[str, ...], settings: Settings) -> Deployment:
        folder = None if self._folder is None else self._folder / f"d{len(self._made)}"
        if folder is not None:
            folder.mkdir(parents=True)
        return _embedded(folder, self._new_stores(), sources, settings)


class KafkaWorld(World):
    """The run's broker, and parties in the test's process. Each deployment has a prefix of its own."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, new_stores: NewStores) -> None:
        super().__init__()
        self._bootstrap, self._prefix, self._folder, self._new_stores = bootstrap, prefix, folder, new_stores

    def _make(self, sources: tuple[str, ...], settings: Settings) -> Deployment:
        name = f"d{len(self._made)}"
        (folder := self._folder / name).mkdir(parents=True)
        environment = kafka_environment(self._bootstrap, f"{self._prefix}{name}.", folder)
        config = _config(load_config(environ=environment), settings)
        return Deployment(
            config,
            KafkaCluster(config),
            self._new_stores(),
            *sources,
            telemetry=settings.get("telemetry"),
            tracer=settings.get("tracer"),
            scripts=settings.get("scripts"),
            agent_group=f"{config.prefix}workers",
        )


class Deployments:
    """Makes the deployments of a test whose parties are processes, on one broker, each under a prefix of its own."""

    def __init__(
        self, processes: Processes, folder: Path, bootstrap: str, prefix: str, *, store_url: str | None = None
    ) -> None:
        """`store_url`: each deployment has a MongoDB database of its own, whose url begins so, in place of a file."""
        self.processes = processes
        self._store_url = store_url
        self._folder, self._bootstrap, self._prefix = folder, bootstrap, prefix
        self._made: list[Deployment] = []

    def __call__(
        self,
        *sources: str,
        protocol: str = "classic",
        control_partitions: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> Deployment:
        name = f"d{len(self._made)}"
        (folder := self._folder / name).mkdir()
        store = {} if self._store_url is None else {"AFL_STORE_URL": f"{self._store_url}{name}"}
        environment = {
            **kafka_environment(self._bootstrap, f"{self._prefix}{name}.", folder, protocol=protocol),
            "AFL_TOPICS_CONTROL_PARTITIONS": str(control_partitions),
            "AFL_TOPICS_EVENT_PARTITIONS": "4",
            **store,
            **(settings or {}),
        }
        if "AFL_STORE_URL" in environment:
            del environment["AFL_STORE_PATH"]
        config = load_config(environ=environment)
        cluster, parties = KafkaCluster(config), ProcessParties(self.processes, environment)
        group = f"{config.prefix}workers"
        if protocol == "consumer":
            cluster.shorten_sessions((config.evaluator_group, group))
        made = Deployment(config, cluster, ConfiguredStores(), *sources, agent_group=group, processes=parties)
        parties.serve(made)
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


def deployments_on_mongodb(
    processes: Processes, folder: Path, bootstrap: str, prefix: str, url: str
) -> Iterator[Deployments]:
    """Make deployments that each have a database; they are dropped at the end."""
    stem = f"t{uuid.uuid4().hex[:12]}"
    made = Deployments(processes, folder, bootstrap, prefix, store_url=f"{url.rstrip('/')}/{stem}")
    yield made
    made.close()
    with MongoClient[dict[str, object]](url) as client:
        for name in client.list_database_names():
            if name.startswith(stem):
                client.drop_database(name)


def embedded(
    folder: Path | None, *sources: str, stores: Stores | None = None, **settings: Unpack[Settings]
) -> Deployment:
    """Return a deployment on the embedded broker, for what has no meaning elsewhere.

    Without a folder it lives in memory and cannot restart. Without `stores` its rows are in the folder, or in memory.
    """
    if stores is None:
        stores = in_memory() if folder is None else SqliteStores()
    return _embedded(folder, stores, sources, settings)


def _embedded(folder: Path | None, stores: Stores, sources: tuple[str, ...], settings: Settings) -> Deployment:
    base = StreamConfig(
        embedded=EmbeddedSettings(data_dir=str(folder or "unused")),
        topics=TopicSettings(control_partitions=2, event_partitions=2, replication=1),
        agent=AgentSettings(max_concurrent=4, max_crashes=50),
        max_event_bytes=900_000,
    )
    config, clock = _config(base, settings), ManualClock(START_MS)
    return Deployment(
        config,
        EmbeddedCluster(None if folder is None else config.log_path, clock.now_ms),
        stores,
        *sources,
        clock=clock,
        telemetry=settings.get("telemetry"),
        tracer=settings.get("tracer"),
        scripts=settings.get("scripts"),
    )


def _config(base: StreamConfig, settings: Settings) -> StreamConfig:
    """Return the settings of a deployment, where `base` has those of its world."""
    evaluator = settings.get("evaluator", base.evaluator)
    partitions = settings.get("control_partitions", base.topics.control_partitions)
    return replace(
        base,
        max_event_bytes=settings.get("max_event_bytes", base.max_event_bytes),
        topics=replace(base.topics, control_partitions=partitions),
        evaluator=replace(evaluator, allow_scripts=True) if settings.get("scripts") is not None else evaluator,
        agent=settings.get("agent", base.agent),
        answers=settings.get("answers", base.answers),
        dispatch=settings.get("dispatch", base.dispatch),
        wire=settings.get("wire", base.wire),
        sensitive=settings.get("sensitive", base.sensitive),
        logging=settings.get("logging", base.logging),
        keys=settings.get("keys", base.keys),
        lifecycle=settings.get("lifecycle", base.lifecycle),
    )


def kafka_environment(bootstrap: str, prefix: str, folder: Path, *, protocol: str = "classic") -> dict[str, str]:
    """Return the settings of a deployment on this broker, as its processes have them."""
    return {
        "AFL_PREFIX": prefix,
        "AFL_KAFKA_BOOTSTRAP": bootstrap,
        "AFL_KAFKA_GROUP_PROTOCOL": protocol,
        "AFL_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "1000",
        "AFL_TOPICS_REPLICATION": "1",
        "AFL_TOPICS_CONTROL_PARTITIONS": "2",
        "AFL_TOPICS_EVENT_PARTITIONS": "2",
        "AFL_STORE_PATH": str(folder / "store.sqlite3"),
        "AFL_AGENT_MAX_CONCURRENT": "4",
        **_membership(protocol),
    }


def _membership(protocol: str) -> dict[str, str]:
    """How soon the group notices a death; with the consumer protocol that is the broker's to say."""
    if protocol == "consumer":
        return {}
    return {
        "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "300",
    }
