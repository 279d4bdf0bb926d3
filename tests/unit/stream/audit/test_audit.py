"""The audit writes one line for each record, from the first of each topic, and once across a restart."""

import errno
import io
import json
import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afl_stream.agent.agent import LostRecords
from afl_stream.audit.assignment import DESCRIPTIONS_INTERVAL_S
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile, AuditStream
from afl_stream.audit.file_sink import TAIL_BYTES
from afl_stream.audit.group import GroupNameUnreadable, group_of
from afl_stream.audit.lines import encode_line
from afl_stream.embedded.transport import Crash, EmbeddedBroker, EmbeddedConsumer, EmbeddedTransport, Faults
from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable, TopicMissing
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import BrokerUnavailable, OffsetOutOfRange, Start, TopicPartition, UnknownTopic
from afl_stream.wire.messages import (
    FailureReason,
    Lifecycle,
    Message,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
)
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, MoodyCodec, TransportOfUntoldIds, event
from tests.worlds.parties import Interruptions

TOPIC = "afl.events.billing.Pay"


class AuditBench:
    """An audit of a deployment into a file, in a process of its own as far as the broker can tell."""

    def __init__(self, deployment: Deployment, path: Path, faults: Faults | None = None, **settings: Any) -> None:
        party = {name: settings.pop(name) for name in ("codec", "clock_s") if name in settings}
        self.path = path
        self.transport = EmbeddedTransport(deployment.broker)
        self.audit = Audit(
            AuditConfig(stream=deployment.stream, **settings),
            self.transport,
            AuditFile(path),
            probe=(faults or Faults()).probe,
            **party,
        )

    def catch_up(self) -> None:
        while self.audit.turn(0):
            pass
        self.audit.turn(0)

    def own_consumer(self) -> EmbeddedConsumer:
        """Its membership of the group."""
        (found,) = [consumer for consumer in self.transport._consumers if consumer.group is not None]
        return found

    def kill(self) -> None:
        self.transport.abandon()
        self.audit.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer(deployment: Deployment, message: Message) -> None:
    deployment.producer.produce("afl.control", deployment.codec.encode(message), key=b"wf-1")
    deployment.producer.flush(10)


def audited(deployment: Deployment, path: Path, **settings: Any) -> list[dict[str, Any]]:
    bench = AuditBench(deployment, path, **settings)
    bench.catch_up()
    bench.audit.close()
    return lines_of(path)


def test_an_event_becomes_a_line_that_says_what_where_and_when(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1, attempt=2, payload={"amount": 3}))
    written_at_ms = deployment.records(TOPIC)[0].timestamp_ms

    (line,) = audited(deployment, tmp_path / "audit.jsonl")

    time, chain = line.pop("time"), line.pop("chain")
    assert len(chain) == 64
    assert line == {
        "kind": "event",
        "workflow": "wf-1",
        "step": "wf-1:1",
        "facet": "billing.Pay",
        "event_id": "wf-1:1#2",
        "attempt": 2,
        "payload": {"amount": 3},
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "time_ms": written_at_ms,
    }
    assert time.endswith("Z")
    assert time[19:23] == f".{written_at_ms % 1000:03d}"


def test_each_answer_becomes_a_line_of_its_kind(tmp_path: Path) -> None:
    deployment = Deployment()
    answer(deployment, StepUpdate(step_id="wf-1:1", partial={"progress": 50}))
    answer(deployment, StepContinue(step_id="wf-1:1", result={"paid": True}, event_id="wf-1:1#1", group="g"))
    answer(deployment, StepFailed(step_id="wf-1:2", error=FailureReason(type="ValueError", message="no card")))

    update, result, failed = audited(deployment, tmp_path / "audit.jsonl")

    assert (update["kind"], update["answer"], update["partial"]) == ("answer", "StepUpdate", {"progress": 50})
    assert (result["result"], result["event_id"], result["group"]) == ({"paid": True}, "wf-1:1#1", "g")
    assert (failed["workflow"], failed["step"]) == ("wf-1", "wf-1:2")
    assert failed["error"] == {"type": "ValueError", "message": "no card"}


def test_an_answer_in_json_is_a_line_like_any_other(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.producer.produce("afl.control", b'{"step_id": "wf-1:1", "result": {"paid": true}}', key=b"wf-1")

    (line,) = audited(deployment, tmp_path / "audit.jsonl")

    assert (line["workflow"], line["result"]) == ("wf-1", {"paid": True})


def test_commands_and_milestones_are_followed_when_asked_for(tmp_path: Path) -> None:
    deployment = Deployment()
    start = StartWorkflow(workflow_id="wf-1", workflow="shop.Checkout", inputs={"total": 5})
    milestone = Lifecycle(workflow_id="wf-1", kind="workflow.started", at=1)
    deployment.producer.produce("afl.commands", deployment.codec.encode(start), key=b"wf-1")
    deployment.producer.produce("afl.lifecycle", deployment.codec.encode(milestone), key=b"wf-1")

    assert audited(deployment, tmp_path / "without.jsonl", group="without") == []
    lines = audited(deployment, tmp_path / "with.jsonl", group="with", commands=True, lifecycle=True)

    by_kind = {line["kind"]: line for line in lines}
    assert (by_kind["command"]["name"], by_kind["command"]["inputs"]) == ("shop.Checkout", {"total": 5})
    assert by_kind["lifecycle"]["milestone"] == "workflow.started"


def test_a_record_that_cannot_be_read_becomes_a_line_with_the_reason(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    deployment.publish_bytes(PAY, b"junk", key=b"wf-2:\xff")
    deployment.publish(event(step=3))

    first, second, third = audited(deployment, tmp_path / "audit.jsonl")

    assert (first["kind"], third["kind"]) == ("event", "event")
    assert (second["kind"], second["reason"], second["key"]) == ("unreadable", "bad_magic", "wf-2:\\xff")
    assert (second["topic"], second["offset"], second["size_bytes"]) == (TOPIC, 1, 4)


def test_a_new_facets_topic_is_followed_from_its_first_record(tmp_path: Path) -> None:
    deployment = Deployment()
    bench = AuditBench(deployment, tmp_path / "audit.jsonl")
    bench.catch_up()

    deployment.create_topics(["billing.Void"])
    deployment.publish(event("billing.Void", 7))

    def seen() -> bool:
        bench.audit.turn(0)
        return [line["facet"] for line in lines_of(bench.path)] == ["billing.Void"]

    eventually(seen)
    bench.audit.close()


def test_dead_letters_are_not_events(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.producer.produce("afl.dlq.events.billing.Pay", b"junk")

    assert audited(deployment, tmp_path / "audit.jsonl") == []


def test_a_restart_continues_where_the_audit_stopped(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(event(step=1))
    audited(deployment, path)
    deployment.publish(event(step=2))

    assert [line["step"] for line in audited(deployment, path)] == ["wf-1:1", "wf-2:2"]


@pytest.mark.parametrize("passes", [0, 1])
@pytest.mark.parametrize("step", ["audit.polled", "audit.written", "audit.synced", "audit.committed"])
def test_a_crash_at_any_step_leaves_each_line_once(tmp_path: Path, step: str, passes: int) -> None:
    deployment, path, faults = Deployment(), tmp_path / "audit.jsonl", Faults()
    deployment.publish(*(event(step=n) for n in range(1, 5)))
    faults.fail_at(step, passes=passes)
    bench = AuditBench(deployment, path, faults, batch_records=2)
    with pytest.raises(Crash):
        bench.catch_up()
    bench.kill()

    audited(deployment, path)

    assert [line["offset"] for line in lines_of(path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("step", ["audit.polled", "audit.written", "audit.synced", "audit.committed"])
def test_an_audit_that_lost_its_partitions_at_any_step_and_got_them_back_writes_each_line_once(
    tmp_path: Path, step: str
) -> None:
    deployment, path, halfway = Deployment(), tmp_path / "audit.jsonl", Interruptions()
    deployment.publish(*(event(step=n) for n in range(1, 5)))
    bench = AuditBench(deployment, path, halfway, batch_records=2)
    halfway.happens_at(step, lambda: deployment.broker.expire(bench.own_consumer()))

    for _ in range(12):
        bench.audit.turn(0)
    bench.audit.close()

    assert [line["offset"] for line in lines_of(path)] == [0, 1, 2, 3]


class FullDisk(AuditFile):
    """A file for which there is no room."""

    def write(self, lines: Iterable[bytes]) -> None:
        raise OSError(errno.ENOSPC, "no space left")


def test_nothing_is_committed_for_lines_that_could_not_be_written(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(event(step=1), event(step=2))
    full = Audit(AuditConfig(stream=deployment.stream), EmbeddedTransport(deployment.broker), FullDisk(path))
    with pytest.raises(OSError, match="no space left"):
        full.run()

    assert [line["offset"] for line in audited(deployment, path)] == [0, 1]


def test_a_line_that_a_crash_has_torn_is_written_anew(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(event(step=1))
    audited(deployment, path)
    deployment.publish(event(step=2))
    with path.open("ab") as file:
        file.write(b'{"kind":"event","wor')

    assert [line["step"] for line in audited(deployment, path)] == ["wf-1:1", "wf-2:2"]


def test_reading_from_the_beginning_writes_everything_that_the_log_holds(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    audited(deployment, tmp_path / "first.jsonl")

    again = audited(deployment, tmp_path / "second.jsonl", from_beginning=True)

    assert [line["offset"] for line in again] == [0, 1]


def test_records_that_were_gone_before_they_were_read_are_an_error_or_a_line(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(event(step=1))
    audited(deployment, path)
    deployment.publish(*(event(step=n) for n in range(2, 6)))
    deployment.broker.truncate(TopicPartition(TOPIC, 0), 3)
    strict = AuditBench(deployment, path)
    with pytest.raises(OffsetOutOfRange):
        strict.audit.turn(0)
    strict.audit.close()

    _, lost, *rest = audited(deployment, path, lost_records=LostRecords.EARLIEST)

    del lost["chain"]
    place = {"topic": TOPIC, "partition": 0, "expected_offset": 1, "found_offset": 3}
    assert lost == {"kind": "lost", "reason": "retention", **place}
    assert [line["offset"] for line in rest] == [3, 4]


def test_a_topic_that_was_recreated_is_not_taken_for_what_was_written_before(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(event(step=1))
    before_ms = deployment.records(TOPIC)[0].timestamp_ms
    audited(deployment, path)
    deployment.admin.delete_topic(TOPIC)
    deployment.create_topics([PAY])
    eventually(lambda: deployment.broker.now_ms() > before_ms)
    deployment.publish(event(step=2))

    assert [line["step"] for line in audited(deployment, path)] == ["wf-1:1", "wf-2:2"]


def test_a_shorter_topic_that_was_recreated_is_followed_through_a_restart_whatever_its_records_times(
    tmp_path: Path,
) -> None:
    now_ms = [1_000]
    deployment, path = Deployment(broker=EmbeddedBroker(now_ms=lambda: now_ms[0])), tmp_path / "audit.jsonl"
    deployment.publish(*(event(step=n) for n in range(1, 4)))
    audited(deployment, path)
    deployment.admin.delete_topic(TOPIC)
    deployment.create_topics([PAY])
    now_ms[0] = 2_000
    deployment.publish(event(step=4))
    audited(deployment, path)
    # As told by another producer's clock, which is behind.
    now_ms[0] = 1_500
    deployment.publish(event(step=5))

    assert [line["step"] for line in audited(deployment, path)] == [f"wf-{n}:{n}" for n in range(1, 6)]


def test_a_file_whose_group_has_lost_its_offsets_gets_no_line_twice_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, path = Deployment(), tmp_path / "audit.jsonl"
    deployment.publish(*(event(step=n) for n in range(1, 4)))
    audited(deployment, path)
    # More than is looked at of a file's end, as when other partitions have had much to tell since.
    other = encode_line({"topic": "afl.control", "partition": 0, "offset": -1, "time_ms": 0})
    with path.open("ab") as file:
        file.write(b" " * (TAIL_BYTES + 1) + b"\n" + other)
    deployment.broker.forget_offsets("afl.audit")
    deployment.publish(event(step=4))

    with caplog.at_level(logging.WARNING):
        bench = AuditBench(deployment, path)
        bench.catch_up()
    bench.audit.close()

    steps = [json.loads(line)["step"] for line in path.read_text().splitlines() if '"step"' in line]
    assert steps == ["wf-1:1", "wf-2:2", "wf-3:3", "wf-4:4"]
    assert bench.audit.counts.repeated == 3
    assert f"group afl.audit has no committed offsets for {TOPIC}[0] 0 to 3: 4 records" in caplog.text


def test_a_schema_that_cannot_be_looked_up_now_is_waited_for(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    codec = MoodyCodec(deployment, SchemaUnavailable("00ff", "away"), times=2)
    bench = AuditBench(deployment, tmp_path / "audit.jsonl", codec=codec)

    def all_written() -> bool:
        bench.audit.turn(0)
        return len(lines_of(bench.path)) == 2

    eventually(all_written)
    bench.audit.close()


def test_a_schema_that_is_gone_holds_up_its_partition_and_is_reported_until_it_is_back(tmp_path: Path) -> None:
    deployment, now_s = Deployment(partitions=2), [0.0]
    deployment.publish(*(event(step=n) for n in range(1, 41)))
    one, other = (len([r for r in deployment.records(TOPIC) if r.partition == n]) for n in (0, 1))
    codec = MoodyCodec(deployment, SchemaGone("00ff", "afl.schemas is empty"), times=1)
    bench = AuditBench(deployment, tmp_path / "audit.jsonl", codec=codec, clock_s=lambda: now_s[0])

    for _ in range(5):
        bench.audit.turn(0)
    health, before = bench.audit.health(), len(lines_of(bench.path))
    now_s[0] = 1.0
    bench.audit.turn(0)
    after = len(lines_of(bench.path))

    assert before in (one, other)
    assert before < after == 40
    (reason,) = health.reasons
    assert "offset 0: schema 00ff is gone: it was announced, and afl.schemas is empty" in reason
    assert bench.audit.health().ready
    bench.audit.close()


def test_a_record_of_a_newer_format_halts_its_partition_and_is_reported(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    bench = AuditBench(
        deployment, tmp_path / "audit.jsonl", codec=MoodyCodec(deployment, NewerFormat("9.0", "1.0"), times=1)
    )

    bench.catch_up()
    problems = bench.audit.problems
    bench.audit.close()

    (problem,) = problems
    assert "afl.events.billing.Pay[0] offset 0" in problem
    assert lines_of(bench.path) == []


def test_lines_may_go_to_a_stream() -> None:
    deployment, stream = Deployment(), io.BytesIO()
    deployment.publish(event(step=1))
    audit = Audit(AuditConfig(stream=deployment.stream), EmbeddedTransport(deployment.broker), AuditStream(stream))

    audit.turn(0)
    audit.close()

    assert json.loads(stream.getvalue())["step"] == "wf-1:1"


def test_numbers_that_json_does_not_have_are_named() -> None:
    line = encode_line({"payload": {"values": [math.inf, -math.inf, math.nan, 1.5]}})

    assert json.loads(line) == {"payload": {"values": ["Infinity", "-Infinity", "NaN", 1.5]}}


def test_a_missing_topic_is_refused(tmp_path: Path) -> None:
    deployment = Deployment()
    deployment.admin.delete_topic("afl.control")
    bench = AuditBench(deployment, tmp_path / "audit.jsonl")

    with pytest.raises(TopicMissing, match=r"afl\.control"):
        bench.audit.start()
    bench.audit.close()


def test_an_audit_in_a_group_continues_without_a_facets_topic_that_is_gone_and_takes_it_up_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = Deployment()
    bench = AuditBench(deployment, tmp_path / "audit.jsonl")
    for step in (1, 3):
        caplog.clear()
        deployment.create_topics(["billing.Void"])
        deployment.publish(event("billing.Void", step))
        bench.catch_up()
        assert ("exist again and are read: afl.events.billing.Void" in caplog.text) is (step == 3)

        deployment.admin.delete_topic("afl.events.billing.Void")
        deployment.publish(event(step=step + 1))
        bench.catch_up()
        assert (
            "topic afl.events.billing.Void does not exist any more; the audit continues with the others" in caplog.text
        )
        assert bench.audit.health().ready
    bench.audit.close()

    assert [line["step"] for line in lines_of(bench.path)] == ["wf-1:1", "wf-2:2", "wf-3:3", "wf-4:4"]


def test_an_audit_in_a_group_ends_when_a_topic_that_it_cannot_do_without_is_gone(tmp_path: Path) -> None:
    deployment = Deployment()
    bench = AuditBench(deployment, tmp_path / "audit.jsonl")
    bench.catch_up()
    deployment.admin.delete_topic("afl.control")

    with pytest.raises(UnknownTopic, match=r"afl\.control"):
        bench.catch_up()
    bench.audit.close()


def test_an_audit_gives_up_when_an_outage_has_lasted_too_long(tmp_path: Path) -> None:
    now_s, deployment, faults = [0.0], Deployment(), Faults()
    transport = EmbeddedTransport(deployment.broker, probe=faults.probe)
    audit = Audit(
        AuditConfig(stream=deployment.stream), transport, AuditFile(tmp_path / "audit"), clock_s=lambda: now_s[0]
    )
    audit.turn(0)
    deployment.publish(event(step=1))
    faults.fail_at("poll.before_deliver", 1_000, error=BrokerUnavailable("no broker answers at 127.0.0.1:9092"))
    audit.turn(0)

    now_s[0] = 601
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9092; gave up after 600 s"):
        audit.turn(0)
    audit.close()


def test_an_audit_leaves_a_broker_that_is_away_alone_between_its_attempts(tmp_path: Path) -> None:
    deployment, faults = Deployment(), Faults()
    stream = replace(deployment.stream, kafka=replace(deployment.stream.kafka, outage_timeout_s=1))
    transport = EmbeddedTransport(deployment.broker, probe=faults.probe)
    audit = Audit(AuditConfig(stream=stream), transport, AuditFile(tmp_path / "audit"))
    audit.turn(0)
    deployment.publish(event(step=1))
    before = faults.reached("poll.before_deliver")
    faults.fail_at("poll.before_deliver", 1_000_000, error=BrokerUnavailable("no broker answers at 127.0.0.1:9092"))

    with pytest.raises(BrokerUnavailable, match="gave up after 1 s"):
        audit.run()

    # Waits of 0.05, 0.1, and then 0.2 s, which is its poll timeout, make eight attempts in a second.
    assert 2 <= faults.reached("poll.before_deliver") - before <= 10


# --- outside any group ------------------------------------------------------------------------------------------


class Watcher:
    """An audit outside any group, with what it has written."""

    def __init__(self, deployment: Deployment, start: Start = Start.EARLIEST, **settings: Any) -> None:
        self.stream = io.BytesIO()
        self.now_s = 0.0
        self.transport = TransportOfUntoldIds(deployment.broker)
        self.audit = Audit(
            AuditConfig(stream=deployment.stream, alone=start, lost_records=LostRecords.EARLIEST, **settings),
            self.transport,
            AuditStream(self.stream),
            clock_s=lambda: self.now_s,
        )

    def catch_up(self) -> None:
        while self.audit.turn(0):
            pass

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.catch_up()

    @property
    def steps(self) -> list[str]:
        return [line.get("step", line["kind"]) for line in self.lines]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_two_audits_outside_a_group_each_write_every_record_and_commit_nothing() -> None:
    deployment = Deployment()
    one, two = Watcher(deployment), Watcher(deployment)
    one.catch_up()
    two.catch_up()
    deployment.publish(*(event(step=n) for n in range(1, 10)))
    one.catch_up()
    two.catch_up()
    one.audit.close()
    two.audit.close()

    assert sorted(one.steps) == sorted(two.steps) == [f"wf-{n}:{n}" for n in range(1, 10)]
    assert deployment.broker._groups == {}  # no group has members, so nothing is committed


def test_an_audit_outside_a_group_takes_nothing_from_one_that_writes_a_file(tmp_path: Path) -> None:
    deployment = Deployment()
    bench, watcher = AuditBench(deployment, tmp_path / "audit.jsonl"), Watcher(deployment)
    bench.catch_up()
    watcher.catch_up()
    deployment.publish(*(event(step=n) for n in range(1, 10)))
    for _ in range(3):
        watcher.catch_up()
        bench.catch_up()
    bench.audit.close()
    watcher.audit.close()

    assert len(lines_of(bench.path)) == len(watcher.lines) == 9


def test_an_audit_from_the_end_writes_only_what_comes_then_and_all_of_topics_that_come_later() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    watcher = Watcher(deployment, Start.LATEST)
    watcher.catch_up()
    deployment.publish(event(step=2))
    watcher.catch_up()
    deployment.create_topics(["billing.Void"])
    deployment.publish(event("billing.Void", 3))
    watcher.wait(2)
    watcher.audit.close()

    assert watcher.steps == ["wf-2:2", "wf-3:3"]


def test_an_audit_outside_a_group_follows_a_topic_that_is_made_again_from_its_first_record() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    watcher = Watcher(deployment)
    watcher.catch_up()
    deployment.admin.delete_topic(TOPIC)
    deployment.create_topics([PAY])
    deployment.publish(event(step=3))
    watcher.wait(0.1)
    watcher.wait(10)
    watcher.audit.close()

    assert watcher.steps == ["wf-1:1", "wf-2:2", "wf-3:3"]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_an_audit_outside_a_group_takes_no_topic_for_another_whose_id_is_not_told_in_passing(
    is_made_again: bool,
) -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    watcher = Watcher(deployment)
    watcher.catch_up()
    watcher.transport.tells_ids = False
    watcher.wait(DESCRIPTIONS_INTERVAL_S)
    untold = watcher.steps
    if is_made_again:
        deployment.admin.delete_topic(TOPIC)
        deployment.create_topics([PAY])
        deployment.publish(event(step=3), event(step=4))
    watcher.transport.tells_ids = True
    watcher.wait(DESCRIPTIONS_INTERVAL_S)
    watcher.wait(DESCRIPTIONS_INTERVAL_S)
    watcher.audit.close()

    assert untold == ["wf-1:1", "wf-2:2"]
    assert watcher.steps == untold + ["wf-3:3", "wf-4:4"] * is_made_again


def test_an_audit_outside_a_group_continues_without_a_facets_topic_that_is_gone() -> None:
    deployment = Deployment()
    deployment.create_topics(["billing.Void"])
    deployment.publish(event("billing.Void", 1))
    watcher = Watcher(deployment)
    watcher.catch_up()
    deployment.admin.delete_topic("afl.events.billing.Void")
    watcher.wait(2)
    watcher.wait(2)
    deployment.publish(event(step=2))
    watcher.wait(2)
    watcher.audit.close()

    assert watcher.steps == ["wf-1:1", "wf-2:2"]


def test_an_audit_outside_a_group_ends_when_a_topic_that_it_cannot_do_without_is_gone() -> None:
    deployment = Deployment()
    watcher = Watcher(deployment)
    watcher.catch_up()
    deployment.admin.delete_topic("afl.control")
    watcher.now_s = 2
    watcher.audit.turn(0)
    watcher.now_s = 4

    with pytest.raises(TopicMissing, match=r"afl\.control"):
        watcher.audit.turn(0)
    watcher.audit.close()


def test_an_audit_outside_a_group_tells_in_a_line_what_left_the_log_before_it_was_read() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    watcher = Watcher(deployment)
    watcher.catch_up()
    deployment.publish(*(event(step=n) for n in range(2, 6)))
    deployment.broker.truncate(TopicPartition(TOPIC, 0), 3)
    watcher.catch_up()
    watcher.audit.close()

    assert watcher.steps == ["wf-1:1", "lost", "wf-4:4", "wf-5:5"]
    assert (watcher.lines[1]["expected_offset"], watcher.lines[1]["found_offset"]) == (1, 3)


# --- the group of a file ----------------------------------------------------------------------------------------


def test_each_file_has_a_group_of_its_own_that_is_kept_beside_it(tmp_path: Path) -> None:
    stream = StreamConfig()
    one, two = tmp_path / "a" / "audit.jsonl", tmp_path / "b" / "audit.jsonl"
    for file in (one, two):
        file.parent.mkdir()

    groups = [group_of(stream, file, None) for file in (one, two, one, two)]

    assert groups[:2] == groups[2:]
    assert groups[0] != groups[1]
    assert all(group.startswith("afl.audit.audit-") for group in groups)
    (beside,) = one.parent.iterdir()
    assert (beside.name, beside.stat().st_mode & 0o777) == ("audit.jsonl.group", 0o600)


def test_a_group_that_is_named_is_kept_for_the_next_time(tmp_path: Path) -> None:
    file, stream = tmp_path / "audit.jsonl", StreamConfig()
    own = group_of(stream, file, None)

    assert group_of(stream, file, "shared") == group_of(stream, file, None) == "shared" != own


def test_a_file_of_an_older_version_continues_in_the_group_it_was_written_in(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text('{"kind":"event"}\n')

    assert group_of(StreamConfig(prefix="shop."), file, None) == "shop.audit"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\n", b"a\nb\n", b"x" * 300 + b"\n"])
def test_a_group_file_that_holds_no_name_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    file, beside = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.group"
    beside.write_bytes(content)

    with pytest.raises(GroupNameUnreadable, match=r"audit\.jsonl\.group does not hold the name of a group"):
        group_of(StreamConfig(), file, None)
    assert group_of(StreamConfig(), file, "mended") == "mended"
