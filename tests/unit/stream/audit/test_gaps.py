"""Offsets without a record: why they have none, and which of them were lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.audit.gaps import Gap, OffsetGaps
from afl_stream.audit.sinks import LastWritten
from afl_stream.audit.verifying import verify
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.reading.group_reader import LostRecords
from afl_stream.transport import CommittedOffset, Record, TopicDescription, TopicPartition, Watermarks
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

P = TopicPartition("t", 0)
FEED = TopicPartition(f"afl.events.{PAY}", 0)


class Cluster:
    """A topic with a policy, and where its log and a group stand."""

    def __init__(self, policy: str = "delete", low: int = 0, committed: int | None = None) -> None:
        self.policy, self.low, self.offset = policy, low, committed

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        settings = {"cleanup.policy": self.policy}
        return {name: TopicDescription(name=name, partitions=1, settings=settings) for name in names or ()}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return {} if self.offset is None else {p: CommittedOffset(offset=self.offset) for p in partitions}

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        return Watermarks(low=self.low, high=1_000)


def gaps_of(cluster: Cluster, *, is_filtered: bool = False) -> OffsetGaps:
    return OffsetGaps(cluster, lambda: 0.0, is_filtered=is_filtered)


def record(offset: int) -> Record:
    return Record("t", 0, offset, b"k", b"v")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("delete", "transactions"), ("compact", "compaction"), ("compact,delete", "compaction")],
)
def test_a_hole_within_the_log_is_no_loss(policy: str, reason: str) -> None:
    cluster = Cluster(policy)
    gaps = gaps_of(cluster)
    gaps.note(P, 5)

    assert gaps.before(record(5), cluster, {}) is None
    assert gaps.before(record(8), cluster, {}) == Gap(P, 5, 8, reason)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        # The last line is of offset 3; the first record that is read now is at 10.
        (Cluster(low=0, committed=4), Gap(P, 4, 10, "transactions")),
        (Cluster(low=0, committed=9), Gap(P, 4, 10, "group")),
        (Cluster(low=7, committed=None), Gap(P, 4, 10, None)),
        (Cluster(low=7, committed=9), Gap(P, 4, 10, None)),
        (Cluster("compact", low=0, committed=4), Gap(P, 4, 10, "compaction")),
    ],
)
def test_a_hole_at_a_restart_is_explained_by_where_log_and_group_stand(cluster: Cluster, expected: Gap) -> None:
    written = {P: LastWritten(3, 0)}

    assert gaps_of(cluster).before(record(10), cluster, written) == expected


def test_the_first_record_of_an_empty_sink_is_no_gap() -> None:
    cluster = Cluster(low=7)

    assert gaps_of(cluster).before(record(10), cluster, {}) is None


@pytest.mark.parametrize(("low", "expected"), [(0, None), (5, None), (12, Gap(P, 9, 15, None))])
def test_what_a_filter_left_out_before_a_restart_is_no_gap(low: int, expected: Gap | None) -> None:
    cluster = Cluster(low=low, committed=9)
    found = 9 if expected is None else 15

    assert gaps_of(cluster, is_filtered=True).before(record(found), cluster, {P: LastWritten(3, 0)}) == expected


def audited(deployment: Deployment, path: Path, **settings: Any) -> list[dict[str, Any]]:
    config = AuditConfig(stream=deployment.stream, lost_records=LostRecords.EARLIEST, **settings)
    audit = Audit(config, EmbeddedTransport(deployment.broker), AuditFile(path))
    for _ in range(12):
        audit.turn(0)
    audit.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def publish(deployment: Deployment, *steps: int) -> None:
    deployment.publish(*(event(step=step) for step in steps))


def test_records_that_retention_took_while_the_group_had_lost_its_offsets_are_reported(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    publish(deployment, 1, 2)
    audited(deployment, path)
    publish(deployment, 3, 4, 5)
    deployment.broker.truncate(FEED, 4)
    deployment.broker.forget_offsets("afl.audit")

    *_, lost, last = audited(deployment, path)

    assert (lost["kind"], lost["expected_offset"], lost["found_offset"]) == ("lost", 2, 4)
    assert last["offset"] == 4
    found = verify(path)
    assert found.is_intact
    assert found.offsets.explained == {"retention": 2}


def test_a_file_that_is_an_earlier_copy_of_itself_is_filled_up(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    publish(deployment, 1, 2)
    audited(deployment, path, continues_sink=True)
    copy = path.read_bytes()
    publish(deployment, 3, 4)
    audited(deployment, path, continues_sink=True)
    path.write_bytes(copy)
    publish(deployment, 5)

    lines = audited(deployment, path, continues_sink=True)

    assert [line["offset"] for line in lines] == [0, 1, 2, 3, 4]
    assert verify(path).is_intact


def test_a_member_of_a_shared_group_says_that_others_have_what_it_has_not(tmp_path: Path) -> None:
    deployment = Deployment()
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for number, path in enumerate((first, second, first), 1):
        publish(deployment, number)
        audited(deployment, path)

    one, gap, three = [json.loads(line) for line in first.read_text().splitlines()]

    assert (one["offset"], three["offset"]) == (0, 2)
    assert (gap["kind"], gap["reason"], gap["expected_offset"], gap["found_offset"]) == ("gap", "group", 1, 2)
