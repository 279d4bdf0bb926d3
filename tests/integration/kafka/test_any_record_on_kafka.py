"""Nothing that a broker can hold ends a reader of it: header names that are no UTF-8, null headers, times before the
year 1, compressed batches, and what transactions leave in a log.
"""

import io
import json
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afl.engine.model.store import COMPLETED
from afl.stores.sqlite.store import SqliteStore
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.audit.audit import Audit, AuditConfig, AuditStream
from afl_stream.client.client import Client
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.reading.topic_log import TopicLog
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import KafkaSettings, StreamConfig, TopicSettings
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition, UnreadableHeaders
from tests.any_record import AnyRecord, any_records
from tests.contract.transport_contract import make_topic, unique
from tests.eventually import eventually
from tests.integration.raw_batches import RawRecord, produce_raw
from tests.scenarios.test_any_record import ANY, ASK, answer
from tests.worlds.deployment import program_of
from tests.worlds.processes import DEADLINE_S

#: Records of one example; each goes to every topic.
RECORDS: Final = 30


def raw(record: AnyRecord) -> RawRecord:
    return RawRecord(key=record.key, value=record.value, headers=record.headers)


class EveryReader:
    """One of each reader of a deployment, driven by the test's own thread."""

    def __init__(self, bootstrap: str, prefix: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        quick = {"topic.metadata.refresh.interval.ms": "1000"}
        self.config = StreamConfig(
            prefix=prefix,
            kafka=KafkaSettings(bootstrap=bootstrap, consumer=quick),
            topics=TopicSettings(control_partitions=1, event_partitions=1, replication=1),
        )
        self._store_path = directory / "store.sqlite3"
        self.program = program_of(ANY)
        topology = Topology(self.config)
        self.topics = (
            topology.control(), topology.commands(), topology.facet(ASK), topology.lifecycle(), topology.definitions(),
            topology.schemas(),
        )  # fmt: skip
        self.written = io.BytesIO()
        self.runs = 0
        self.open()
        self.client.apply_topics([self.program])
        self.client.deploy(self.program)

    def open(self) -> None:
        self.transport = KafkaTransport(self.config)
        self.client = Client(self.config, self.transport)
        self._parties: tuple[EvaluatorService, Agent, Audit] | None = None

    def parties(self) -> tuple[EvaluatorService, Agent, Audit]:
        if self._parties is None:
            self._store = SqliteStore(self._store_path, prefix=self.config.prefix)
            evaluator = EvaluatorService(self.config, self.transport, self._store)
            agent = Agent(AgentConfig(stream=self.config, name="worker"), self.transport)
            agent.register(ASK, answer)
            audit = AuditConfig(stream=self.config, commands=True, lifecycle=True)
            self._parties = (evaluator, agent, Audit(audit, self.transport, AuditStream(self.written)))
        return self._parties

    def close(self) -> None:
        if self._parties is not None:
            evaluator, agent, audit = self._parties
            audit.close()
            agent.close()
            evaluator.close()
            self._store.close()
        self.client.close()
        self.transport.close()

    def put(self, record: AnyRecord, *, gzip: bool) -> None:
        for topic in self.topics:
            if record.key is not None or topic not in self.topics[-2:]:  # a compacted topic takes no record without key
                produce_raw(self._bootstrap, topic, [raw(record)], timestamp_ms=record.timestamp_ms, gzip=gzip)

    def leave_transactions(self) -> None:
        """End every topic with the markers of a transaction that is committed and one that is not."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": unique("t"), "log_level": 0})
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for topic in self.topics:
                producer.produce(topic, b"\x07", b"k", partition=0)
            producer.flush()
            end()

    def assert_a_run_goes_through(self) -> None:
        self.runs += 1
        evaluator, agent, audit = self.parties()
        milestones = self.client.milestones()
        workflow_id = f"good-{self.runs}"
        self.client.start("any.Thing", {"n": self.runs}, workflow_id=workflow_id)
        reported: list[str] = []

        def ended() -> bool:
            evaluator.loop.run_once(0.01)
            agent.run_once(0.01)
            audit.turn(0.01)
            reported.extend(m.kind for m in milestones.read(0.0) if m.workflow_id == workflow_id)
            return "workflow.completed" in reported and workflow_id.encode() in self.written.getvalue()

        eventually(ended, DEADLINE_S)
        milestones.close()
        row = self._store.load_workflow(workflow_id)
        assert row is not None
        assert (row.status, row.outputs) == (COMPLETED, {"n": self.runs})
        assert (evaluator.loop.stats().paused, audit.problems) == ({}, ())


@pytest.mark.long
def test_no_record_ends_a_reader(kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path) -> None:
    readers = EveryReader(kafka_bootstrap, kafka_prefix, tmp_path)
    codec = DeploymentCodec(readers.config, readers.transport, Topology(readers.config)).codec

    @given(records=st.lists(any_records(codec), min_size=RECORDS, max_size=RECORDS), gzip=st.booleans())
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def holds(records: list[AnyRecord], gzip: bool) -> None:
        for record in records:
            readers.put(record, gzip=gzip)
        readers.assert_a_run_goes_through()

    holds()
    readers.leave_transactions()
    readers.assert_a_run_goes_through()
    readers.close()
    readers.open()
    readers.assert_a_run_goes_through()
    readers.close()
    lines = [json.loads(line) for line in readers.written.getvalue().splitlines()]
    assert {line.get("reason") for line in lines} >= {"bad_headers", "null_value", "bad_magic"}


def test_a_header_name_that_is_no_utf8_loses_its_own_records_headers_and_nothing_else(kafka_bootstrap: str) -> None:
    transport = KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=kafka_bootstrap)))
    topic = make_topic(transport)
    records = [
        RawRecord(
            key=b"k", value=b"%d" % number, headers=((b"\xff\xfe" if number % 3 else b"good", value), (b"b", b"2"))
        )
        for number, value in enumerate([b"1", None] * 60)
    ]
    produce_raw(kafka_bootstrap, topic, records)

    consumer = transport.consumer(None)
    consumer.assign({TopicPartition(topic, 0): 0})
    found: list[Record] = []

    def has_all() -> bool:
        found.extend(consumer.consume(7, 0.2))
        return len(found) == len(records)

    eventually(has_all)
    transport.close()

    assert [record.value for record in found] == [record.value for record in records]
    for number, record in enumerate(found):
        assert isinstance(record.headers, UnreadableHeaders) == bool(number % 3)
        if not number % 3:
            assert record.headers == (("good", records[number].headers[0][1]), ("b", b"2"))


def test_a_log_that_ends_with_markers_of_transactions_is_read_to_its_end(kafka_bootstrap: str) -> None:
    transport = KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=kafka_bootstrap)))
    topic = make_topic(transport)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for value, end in ((b"committed", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    log = TopicLog(transport, topic, timeout_s=DEADLINE_S)

    assert [value for _, value in log.read_to_end()] == [b"committed"]
    assert log.read_to_end() == []

    log.close()
    transport.close()


def test_a_member_of_a_group_stands_behind_the_markers_at_the_end_of_a_log(kafka_bootstrap: str) -> None:
    transport = KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=kafka_bootstrap)))
    topic = make_topic(transport)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction()
    partition, consumer = TopicPartition(topic, 0), transport.consumer(unique("group"))
    consumer.subscribe([topic])
    read: list[bytes | None] = []

    def stands_at() -> int:
        read.extend(record.value for record in consumer.consume(10, 0.1))
        return consumer.position(partition) if partition in consumer.assignment() else -1

    eventually(lambda: stands_at() == consumer.watermarks(partition).high == 2, DEADLINE_S)
    assert read == [b"committed"]
    consumer.seek(partition, 0)
    eventually(lambda: stands_at() == 2, DEADLINE_S)
    assert read == [b"committed"] * 2

    consumer.close()
    transport.close()


@pytest.mark.long
def test_an_agent_that_has_handled_all_before_the_markers_of_a_transaction_is_ready(
    kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path
) -> None:
    readers = EveryReader(kafka_bootstrap, kafka_prefix, tmp_path)
    readers.leave_transactions()
    now_s = [0.0]
    agent = Agent(AgentConfig(stream=readers.config, name="ready"), readers.transport, clock_s=lambda: now_s[0])
    agent.register(ASK, answer)

    def has_dead_lettered() -> bool:
        agent.turn(0.05)
        return agent.counts.dead_lettered == 1

    eventually(has_dead_lettered, DEADLINE_S)
    for now_s[0] in (100.0, 200.0, 300.0):
        for _ in range(20):
            agent.turn(0.05)

    assert (agent.health().lag, agent.health().ready) == (0, True), agent.health()
    agent.close()
    readers.close()
