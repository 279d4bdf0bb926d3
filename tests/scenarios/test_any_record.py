"""Nothing that a log can hold ends a reader of it: what cannot be used is a dead letter or is passed over."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afl.engine.model.store import COMPLETED
from afl_stream.agent.agent import HandlerContext
from afl_stream.audit.audit import Audit, AuditConfig, AuditStream
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import TopicPartition
from afl_stream.wire.codec import Codec
from tests.any_record import AnyRecord, any_records, newer_records, records_without_schema, text_headers
from tests.worlds.deployment import START_MS
from tests.worlds.world import embedded

ANY = """
namespace any {
  event facet Ask(n: Long) => (n: Long)
  workflow Thing(n: Long) => (n: Long) andThen { a = Ask(n = $.n) yield Thing(n = a.n) }
}
"""
ASK = "any.Ask"


def answer(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
    assert context.headers is not None
    assert context.is_cancelled in (True, False)
    return {"n": payload["n"]}


class EveryReader:
    """A deployment with one of each reader at work."""

    def __init__(self, directory: Path | None, *, partitions: int = 1) -> None:
        self.deployment = embedded(directory, ANY, control_partitions=partitions)
        # A file does not keep them.
        self.has_markers = directory is None
        self.topics = [name for name in self.deployment.broker.topics() if ".dlq." not in name]
        self.runs = 0
        self.open()

    def open(self) -> None:
        deployment = self.deployment
        deployment.evaluator()
        deployment.worker({ASK: answer})
        self.written = io.BytesIO()
        config = AuditConfig(stream=deployment.config, commands=True, external=True, lifecycle=True)
        self.audit = Audit(config, EmbeddedTransport(deployment.broker), AuditStream(self.written))
        self.milestones = deployment.client.milestones(from_beginning=True)
        self.work()

    def restart(self) -> None:
        """Let all readers end, and others begin at the same place, with nothing in memory."""
        self.audit.close()
        self.milestones.close()
        self.deployment.crash_and_restart()
        self.open()

    def put(self, record: AnyRecord) -> None:
        """Put a record on every topic, and behind it what a transaction leaves."""
        deployment = self.deployment
        deployment.broker.now_ms = lambda: record.timestamp_ms
        for topic in self.topics:
            deployment.put(topic, record.value, key=record.key, headers=text_headers(record), partition=0)
            if self.has_markers:
                deployment.broker.append_marker(TopicPartition(topic, 0))
        deployment.broker.now_ms = deployment.clock.now_ms

    def work(self) -> None:
        self.deployment.settle()
        self.milestones.read(0.0)
        while self.audit.turn(0.0):
            pass

    def lose_schemas(self) -> None:
        topic = self.deployment.topology.schemas()
        self.deployment.broker.truncate(TopicPartition(topic, 0), self.deployment.records(topic)[-1].offset + 1)

    def assert_partition_0_is_held(self) -> None:
        """Both of the evaluator's, the agent's and what the audit reads of them and of the lifecycle."""
        deployment = self.deployment
        topology = deployment.topology
        read = [TopicPartition(topic, 0) for topic in (topology.control(), topology.commands(), topology.external())]
        assert sorted(deployment.evaluators[0].stats.paused) == sorted(read)
        (reason,) = deployment.workers[0].agent.health().reasons
        assert reason.startswith(f"{topology.facet(ASK)}[0] offset ")
        followed = [*(partition.topic for partition in read), topology.facet(ASK), topology.lifecycle()]
        problems = [problem.partition("[0] offset ")[0] for problem in self.audit.problems]
        assert sorted(problems) == sorted(followed)

    def assert_nothing_is_held(self) -> None:
        assert (self.deployment.evaluators[0].stats.paused, self.audit.problems) == ({}, ())
        assert not [reason for reason in self.deployment.workers[0].agent.health().reasons if "offset" in reason]

    def assert_a_run_goes_through(self) -> None:
        self.runs += 1
        workflow_id = f"good-{self.runs}"
        self.deployment.client.start("any.Thing", {"n": self.runs}, workflow_id=workflow_id)
        self.work()
        found = self.deployment.workflow(workflow_id)
        assert (found.status, found.outputs) == (COMPLETED, {"n": self.runs})

    def assert_a_run_goes_through_beside_partition_0(self) -> None:
        deployment, facet = self.deployment, self.deployment.topology.facet(ASK)
        while True:
            self.runs += 1
            workflow_id = deployment.id_in_partition(1, f"good-{self.runs}")
            deployment.client.start("any.Thing", {"n": self.runs}, workflow_id=workflow_id)
            self.work()
            keys = [(record.key or b"", record.partition) for record in deployment.records(facet)]
            (partition,) = {number for key, number in keys if key.startswith(workflow_id.encode() + b":")}
            if partition == 1:  # Else its event is behind what was put there.
                assert deployment.workflow(workflow_id).status == COMPLETED
                return


def put_any(readers: EveryReader, examples: int) -> None:
    """Put many records on every topic, a few at a time, with a run that goes through behind each time."""

    @given(records=st.lists(any_records(readers.deployment.codec), min_size=1, max_size=8))
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def holds(records: list[AnyRecord]) -> None:
        for record in records:
            readers.put(record)
        readers.work()
        readers.assert_a_run_goes_through()
        readers.assert_nothing_is_held()

    holds()
    lines = [json.loads(line) for line in readers.written.getvalue().splitlines()]
    assert {line["kind"] for line in lines} >= {"unreadable", "event", "answer"}


def test_no_record_ends_a_reader_nor_the_next_one(tmp_path: Path) -> None:
    readers = EveryReader(tmp_path)

    put_any(readers, 12)

    readers.restart()
    readers.assert_a_run_goes_through()


@pytest.mark.parametrize("holding", [newer_records, records_without_schema])
def test_a_record_that_holds_up_its_partition_ends_no_reader_and_holds_up_no_other(
    holding: Callable[[Codec, int], st.SearchStrategy[AnyRecord]],
) -> None:
    codec = EveryReader(None).deployment.codec

    @given(before=st.lists(any_records(codec), max_size=3), it=holding(codec, START_MS), after=any_records(codec))
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def holds(before: list[AnyRecord], it: AnyRecord, after: AnyRecord) -> None:
        readers = EveryReader(None, partitions=2)
        readers.lose_schemas()
        for record in (*before, it, after):
            readers.put(record)
        readers.assert_a_run_goes_through_beside_partition_0()
        readers.assert_partition_0_is_held()

    holds()


def test_no_record_ends_a_reader_of_a_log_with_transactions() -> None:
    put_any(EveryReader(None), 5)
