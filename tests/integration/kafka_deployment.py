"""A deployment on a real broker: its topics, its parties as processes, its store and its log seen from outside."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import Message as ConsumedMessage
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its own __init__ imports it, unlisted
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from afl.compiled.program import CompiledProgram
from afl.engine.model.store import ENDED_STATUSES, StepDocument, WorkflowRow
from afl_stream.client.client import Client
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.programs.deployment_codec import open_codec
from afl_stream.settings.config import StreamConfig, load_config
from afl_stream.topics.declared import Topology
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition
from afl_stream.wire.messages import Event, Lifecycle, Message
from tests.eventually import eventually
from tests.integration.mongodb import rows_of_database
from tests.integration.party_handlers import argument_for
from tests.integration.processes import DEADLINE_S, Party, Processes
from tests.record_headers import headers_of
from tests.scenarios.loop_harness import facets_with_events, program_of

#: A member that died is missed after this time; the test broker allows it.
SESSION_TIMEOUT_MS: Final = 1_500
_REQUEST_TIMEOUT_S: Final = 20.0
#: What the store says of the work: tables of leases and of other people's things are left out.
_TABLES_OF_WORK: Final = ("workflow", "workflow_inputs", "step", "position", "outbox", "parked")


class KafkaDeployment:
    """One deployment under a prefix of its own. The parties share a store file."""

    agent_group = "workers"

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        bootstrap: str,
        prefix: str,
        *sources: str,
        protocol: str = "classic",
        control_partitions: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._processes = processes
        self.agent_group = f"{prefix}workers"
        self.store_path = folder / "store.sqlite3"
        self.environment = {
            "AFL_PREFIX": prefix,
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_KAFKA_GROUP_PROTOCOL": protocol,
            "AFL_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "1000",
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": str(control_partitions),
            "AFL_TOPICS_EVENT_PARTITIONS": "4",
            **({} if "AFL_STORE_URL" in (settings or {}) else {"AFL_STORE_PATH": str(self.store_path)}),
            "AFL_AGENT_MAX_CONCURRENT": "4",
            **_membership(protocol),
            **(settings or {}),
        }
        self.config: StreamConfig = load_config(environ=self.environment)
        self.topology = Topology(self.config)
        self.programs: list[CompiledProgram] = [program_of(source) for source in sources]
        self.transport = KafkaTransport(self.config)
        self.client = Client(self.config, self.transport)
        self.codec = open_codec(self.config, self.transport, self.topology)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2_random", "log_level": 0,
        })  # fmt: skip
        self._reader = Consumer({
            "bootstrap.servers": bootstrap, "group.id": f"{prefix}onlooker", "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "log_level": 0,
            # A fetch that waits for one topic's next record holds up the first record of the topic that is read next.
            "fetch.wait.max.ms": 5,
        })  # fmt: skip
        if protocol == "consumer":
            self._shorten_sessions((self.config.evaluator_group, self.agent_group))
        self.client.apply_topics(self.programs)
        for program in self.programs:
            self.client.deploy(program)
        self.store = open_configured_store(self.config)

    def _shorten_sessions(self, groups: Sequence[str]) -> None:
        """With the consumer protocol the broker decides how soon a dead member is missed."""
        value = {"consumer.session.timeout.ms": SESSION_TIMEOUT_MS, "consumer.heartbeat.interval.ms": 300}
        for group in groups:
            entries = [
                ConfigEntry(name, str(number), incremental_operation=AlterConfigOpType.SET)
                for name, number in value.items()
            ]
            resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
            for done in self.admin.incremental_alter_configs([resource]).values():
                done.result(_REQUEST_TIMEOUT_S)

    def close(self) -> None:
        self.client.close()
        self.transport.close()
        self._reader.close()
        self.store.close()

    def make_again(self, topic: str) -> None:
        """Delete a topic and create one of the same name, size and settings."""
        partitions = len(self.admin.list_topics(topic, _REQUEST_TIMEOUT_S).topics[topic].partitions)
        settings = dict(self.transport.admin().topics()[topic].settings)
        self.admin.delete_topics([topic])[topic].result(_REQUEST_TIMEOUT_S)
        eventually(lambda: topic not in self.admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics, DEADLINE_S)
        made = NewTopic(topic, partitions, 1, config=settings)
        eventually(lambda: self.admin.create_topics([made])[topic].result(_REQUEST_TIMEOUT_S) is None, DEADLINE_S)

    def set_of_topic(self, topic: str, name: str, value: str) -> None:
        """Change a setting of a topic, as an administrator does."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(_REQUEST_TIMEOUT_S)

    def restore_store(self, copy: Path) -> None:
        """Put an earlier copy of the store in its place; nobody may have it open."""
        self.store.close()
        for name in self.store_path.parent.glob(f"{self.store_path.name}*"):
            name.unlink()
        shutil.copy(copy, self.store_path)
        self.store = open_configured_store(self.config)

    # --- its parties --------------------------------------------------------------------------------------------

    def evaluator(self, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start an evaluator, which may kill or freeze itself at a point."""
        return self._party("evaluator", [], at, passes, act, {})

    def agent(
        self, at: str = "", passes: int = 1, act: str = "kill", environment: Mapping[str, str] | None = None
    ) -> Party:
        """Start an agent for all facets of the programs."""
        words = ["--group", self.agent_group]
        for facet in facets_with_events(self.programs):
            words += ["--handlers", argument_for(facet)]
        return self._party("agent", words, at, passes, act, environment or {})

    def agent_of(self, module: str, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start an agent with the handlers of a module."""
        return self._party("agent", ["--group", self.agent_group, "--handlers", module], at, passes, act, {})

    def poller(self, module: str, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start a poller of the store with the handlers of a module."""
        return self._party("poller", ["--handlers", module], at, passes, act, {})

    def registry_agent(
        self, *topics: str, group: str | None = None, at: str = "", passes: int = 1, act: str = "kill"
    ) -> Party:
        """Start an agent that handles what is registered in the store."""
        words = ["--registry", *(["--group", group] if group else [])]
        for pattern in topics:
            words += ["--topics", pattern]
        return self._party("agent", words, at, passes, act, {})

    def audit(self, file: Path, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start an audit that writes to this file."""
        return self._party("audit", ["--file", str(file)], at, passes, act, {})

    def command(self, *words: str, **environment: str) -> Party:
        """Start the command line as people do."""
        return self._processes.start(words[0], "afl_stream", *words, environment={**self.environment, **environment})

    def _party(
        self, role: str, words: Sequence[str], at: str, passes: int, act: str, environment: Mapping[str, str]
    ) -> Party:
        fate = ["--at", at, "--passes", str(passes), "--act", act] if at else []
        module = "tests.integration.party"
        return self._processes.start(role, module, role, *words, *fate, environment={**self.environment, **environment})

    def await_members(self, group: str, count: int) -> None:
        """Wait until the group has so many members, each with partitions."""
        eventually(lambda: self._processes.check_alive() and self._members(group) == count, DEADLINE_S, interval_s=0.1)

    def _members(self, group: str) -> int:
        """How many members of a group have partitions; -1 while there is one without."""
        found = self.admin.describe_consumer_groups([group])[group].result(_REQUEST_TIMEOUT_S)
        having = [bool(member.assignment and member.assignment.topic_partitions) for member in found.members]
        return len(having) if all(having) else -1

    # --- moving on ----------------------------------------------------------------------------------------------

    def finish(self, workflow_ids: Sequence[str]) -> None:
        """Wait until these workflows have ended and all that was to be published is."""
        eventually(partial(self._is_over, workflow_ids), DEADLINE_S, interval_s=0.02)

    def _is_over(self, workflow_ids: Sequence[str]) -> bool:
        self._processes.check_alive()
        return all(map(self.has_ended, workflow_ids)) and not self.store.outbox()

    def has_ended(self, workflow_id: str) -> bool:
        row = self.store.load_workflow(workflow_id)
        return row is not None and row.status in ENDED_STATUSES

    def put(self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()) -> None:
        """Produce a record as a stranger does."""
        self._producer.produce(topic, value, key=key, headers=list(headers))

    def flush(self) -> None:
        """Wait until all that was put is in the log."""
        assert self._producer.flush(_REQUEST_TIMEOUT_S) == 0

    # --- looking at it ------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic as a plain consumer sees it, partition by partition."""
        listed = self._reader.list_topics(topic, _REQUEST_TIMEOUT_S).topics[topic]
        bounds = {n: self._reader.get_watermark_offsets(Place(topic, n), _REQUEST_TIMEOUT_S) for n in listed.partitions}
        left = {number: high for number, (low, high) in bounds.items() if low < high}
        self._reader.assign([Place(topic, number, bounds[number][0]) for number in left])
        found: list[Record] = []
        while left:
            message = self._reader.poll(_REQUEST_TIMEOUT_S)
            assert message is not None, f"{topic}: nothing came of {left}"
            assert message.error() is None, message.error()
            record = _record(message)
            if record.offset < left.get(record.partition, 0):
                found.append(record)
            if record.offset + 1 >= left.get(record.partition, 0):
                left.pop(record.partition, None)
        self._reader.unassign()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def messages(self, topic: str) -> list[Message]:
        return [self.codec.decode(r.value, r.headers, json_allowed=True) for r in self.records(topic)]

    def events(self, facet: str) -> list[Event]:
        """Return the events on a facet's topic, copies included."""
        return [message for message in self.messages(self.topology.facet(facet)) if isinstance(message, Event)]

    def milestones(self, workflow_id: str) -> list[Lifecycle]:
        """Return what subscribers were told of a workflow, copies left out."""
        unique: dict[bytes, Lifecycle] = {}
        for record in self.records(self.topology.lifecycle()):
            message = self.codec.decode(record.value, record.headers)
            if isinstance(message, Lifecycle) and message.workflow_id == workflow_id:
                unique.setdefault(headers_of(record)["ce_id"], message)
        return list(unique.values())

    def dead_letters(self, topic: str) -> list[Record]:
        return self.records(self.topology.dlq(topic))

    def committed(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed on some topics; partitions without an offset are left out."""
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(_REQUEST_TIMEOUT_S)
        return {
            TopicPartition(place.topic, place.partition): CommittedOffset(offset=place.offset)
            for place in found.topic_partitions or ()
            if place.topic in topics and place.offset >= 0
        }

    def has_read_all(self) -> bool:
        """Whether the evaluators have handled every answer and command that there is."""
        stored = {(at.topic, at.partition): offset for at, offset in self.store.positions().items()}
        return all(
            record.offset < stored.get((record.topic, record.partition), 0)
            for topic in (self.topology.control(), self.topology.commands())
            for record in self.records(topic)
        )

    def workflow(self, workflow_id: str) -> WorkflowRow:
        row = self.store.load_workflow(workflow_id)
        assert row is not None, f"no workflow {workflow_id}"
        return row

    def steps(self, workflow_id: str) -> list[StepDocument]:
        return self.store.load_steps(workflow_id)

    def rows_of_work(self) -> dict[str, list[tuple[object, ...]]]:
        """Return the store's rows, to the byte, as they are in the file or in the database."""
        if self.config.store.url is not None:
            return rows_of_database(self.config.store.url, _TABLES_OF_WORK)
        with self.file() as file:
            return {table: file.execute(f"SELECT * FROM {table}").fetchall() for table in _TABLES_OF_WORK}

    @contextmanager
    def file(self) -> Iterator[sqlite3.Connection]:
        """Provide the store's file, opened beside whoever else has it open."""
        connection = sqlite3.connect(self.store_path)
        try:
            yield connection
        finally:
            connection.close()


def _record(message: ConsumedMessage) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),  # type: ignore[arg-type]  # a consumed record's are a list of pairs
        timestamp_ms=message.timestamp()[1],
    )


class Deployments:
    """Makes the deployments of a test on one broker, each under a prefix of its own, and closes them."""

    def __init__(
        self, processes: Processes, folder: Path, bootstrap: str, prefix: str, *, store_url: str | None = None
    ) -> None:
        """`store_url`: each deployment has a MongoDB database of its own, whose url begins so, in place of a file."""
        self.processes = processes
        self._store_url = store_url
        self._folder, self._bootstrap, self._prefix = folder, bootstrap, prefix
        self._made: list[KafkaDeployment] = []

    def __call__(
        self,
        *sources: str,
        protocol: str = "classic",
        control_partitions: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> KafkaDeployment:
        name = f"d{len(self._made)}"
        folder = self._folder / name
        folder.mkdir()
        made = KafkaDeployment(
            self.processes,
            folder,
            self._bootstrap,
            f"{self._prefix}{name}.",
            *sources,
            protocol=protocol,
            control_partitions=control_partitions,
            settings={**self._store(name), **(settings or {})},
        )
        self._made.append(made)
        return made

    def _store(self, name: str) -> dict[str, str]:
        return {} if self._store_url is None else {"AFL_STORE_URL": f"{self._store_url}{name}"}

    def close(self) -> None:
        for made in self._made:
            made.close()


def _membership(protocol: str) -> dict[str, str]:
    """How soon the group notices a death; with the consumer protocol that is the broker's to say."""
    if protocol == "consumer":
        return {}
    return {
        "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "300",
    }
