"""Offsets without a record on a real broker: an audit says which of them were lost, and why the others have none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.audit.sqlite_sink import AuditDatabase
from afl_stream.audit.verifying import verify
from afl_stream.client.client import Client
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import KafkaSettings, StreamConfig, TopicSettings
from tests.eventually import eventually

DEADLINE_S: Final = 60
ANSWER: Final = b'{"step_id": "wf-1:1", "result": {}}'


class Bench:
    """A deployment without programs: its control topic, and what is written to it."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.config = StreamConfig(
            prefix=prefix,
            kafka=KafkaSettings(bootstrap=bootstrap),
            topics=TopicSettings(control_partitions=1, replication=1),
        )
        self.transport = KafkaTransport(self.config)
        client = Client(self.config, self.transport)
        client.apply_topics([])
        self.control = client.topology.control()
        client.close()

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for _ in range(count):
            producer.produce(self.control, ANSWER, b"wf-1")
        assert producer.flush(DEADLINE_S) == 0

    def transaction(self, count: int, *, commits: bool) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.control, "log_level": 0})
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(self.control, ANSWER, b"wf-1")
        producer.flush(DEADLINE_S)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    def delete_before(self, offset: int) -> None:
        place = confluent_kafka.TopicPartition(self.control, 0, offset)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.delete_records([place])[place].result(DEADLINE_S)

    def audited(self, path: Path, last_offset: int) -> list[dict[str, Any]]:
        """Return the lines of a file once an audit has written the record at an offset."""
        config = AuditConfig(
            stream=self.config, group=f"{self.config.prefix}audit.one", lost_records=LostRecords.EARLIEST
        )
        transport = KafkaTransport(self.config)
        is_database = path.suffix == ".db"
        audit = Audit(config, transport, AuditDatabase(path) if is_database else AuditFile(path))

        def reached() -> bool:
            audit.turn(0.1)
            return audit.counts.written > 0 and max(end.offset for end in written(audit)) >= last_offset

        eventually(reached, DEADLINE_S)
        audit.close()
        transport.close()
        return [] if is_database else [json.loads(line) for line in path.read_text().splitlines()]


def written(audit: Audit) -> list[Any]:
    return list(audit._written.values())


@pytest.fixture
def bench(kafka_bootstrap: str, kafka_prefix: str) -> Iterator[Bench]:
    made = Bench(kafka_bootstrap, kafka_prefix)
    yield made
    made.transport.close()


def told(lines: list[dict[str, Any]]) -> list[object]:
    """Return the offsets of records, and the reason and the bounds of what is missing between them."""
    return [
        line["offset"] if "offset" in line else (line["reason"], line["expected_offset"], line["found_offset"])
        for line in lines
    ]


def test_markers_and_aborted_records_are_no_loss(bench: Bench, tmp_path: Path) -> None:
    bench.produce(1)
    bench.transaction(2, commits=True)  # Offsets 1 and 2, and the marker at 3.
    bench.transaction(2, commits=False)  # 4 and 5, which nobody sees, and the marker at 6.
    bench.produce(1)

    lines = bench.audited(tmp_path / "audit.jsonl", 7)

    assert told(lines) == [0, 1, 2, ("transactions", 3, 7), 7]
    found = verify(tmp_path / "audit.jsonl")
    assert found.is_intact
    assert found.offsets.explained == {"transactions": 4}


def test_records_that_were_deleted_before_they_were_read_are_lost(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    bench.produce(2)
    bench.audited(path, 1)
    bench.produce(4)
    bench.delete_before(5)

    lines = bench.audited(path, 5)

    assert told(lines) == [0, 1, ("retention", 2, 5), 5]
    assert [line["kind"] for line in lines] == ["answer", "answer", "lost", "answer"]


def test_markers_at_the_end_of_one_audit_are_no_gap_of_the_next(bench: Bench, tmp_path: Path) -> None:
    bench.transaction(1, commits=True)
    bench.audited(tmp_path / "audit.jsonl", 0)
    bench.produce(1)

    lines = bench.audited(tmp_path / "audit.jsonl", 2)

    assert told(lines) == [0, ("transactions", 1, 2), 2]


def test_a_database_tells_the_same(bench: Bench, tmp_path: Path) -> None:
    bench.transaction(1, commits=True)
    bench.transaction(1, commits=False)
    bench.produce(1)

    bench.audited(tmp_path / "audit.db", 4)

    found = verify(tmp_path / "audit.db")
    assert found.is_intact
    assert (found.chain.lines, found.offsets.explained) == (3, {"transactions": 3})
