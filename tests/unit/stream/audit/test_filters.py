"""An audit of some facets, runs or times: everything about them, whatever order the topics are read in."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from afl_stream.audit.audit import Audit, AuditConfig, AuditFile, AuditStream
from afl_stream.audit.filters import AuditFilter
from afl_stream.audit.verifying import verify
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.transport import Start
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import FailureReason, Lifecycle, Message, StartWorkflow, StepContinue, StepFailed
from tests.unit.stream.agent.agent_bench import Deployment, event

FACETS = ("billing.Pay", "billing.Void", "stock.Pay")


class Clocked:
    """A deployment whose broker stamps records with a time that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.deployment = Deployment(FACETS, broker=EmbeddedBroker(now_ms=lambda: self.now_ms))

    def send(self, topic: str, message: Message) -> None:
        deployment = self.deployment
        key = str(getattr(message, "workflow_id", None) or getattr(message, "step_id", "")).encode()
        headers = headers_for(message, source="/tests", at_ms=self.now_ms)
        deployment.producer.produce(topic, deployment.codec.encode(message, topic), key=key, headers=headers)
        deployment.producer.flush(10)

    def run(self, facet: str, step: int, *, fails: bool = False) -> None:
        """Write what a run of one step leaves behind, the answer before everything else of the run."""
        asked = event(facet, step)
        self.send("afl.commands", StartWorkflow(workflow_id=f"wf-{step}", workflow="w.W", inputs={}))
        self.deployment.publish(asked)
        if fails:
            self.send("afl.control", StepFailed(step_id=asked.step_id, error=FailureReason(type="E", message="no")))
        else:
            self.send("afl.control", StepContinue(step_id=asked.step_id, result={"ok": True}))
        self.send("afl.lifecycle", Lifecycle(workflow_id=f"wf-{step}", kind="workflow.completed", at=1))
        step_told = Lifecycle(workflow_id=f"wf-{step}", kind="step.completed", at=1, step_id=asked.step_id, facet=facet)
        self.send("afl.lifecycle", step_told)


def told(deployment: Deployment, wanted: AuditFilter, **settings: Any) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    config = AuditConfig(
        stream=deployment.stream, alone=Start.EARLIEST, wanted=wanted, commands=True, lifecycle=True, external=True,
        dead_letters=True, **settings,
    )  # fmt: skip
    audit = Audit(config, EmbeddedTransport(deployment.broker), AuditStream(stream))
    for _ in range(300):
        audit.turn(0)
    audit.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def about(lines: Sequence[dict[str, Any]]) -> set[tuple[str, str | None]]:
    return {(line["kind"], line.get("workflow")) for line in lines}


@pytest.mark.parametrize("batch_records", [1, 2, 500])
def test_a_facets_lines_are_its_events_their_answers_and_their_milestones(batch_records: int) -> None:
    bench = Clocked()
    for number in range(1, 13):
        bench.run(FACETS[number % 3], number, fails=number % 2 == 0)

    lines = told(bench.deployment, AuditFilter(facets=frozenset({"billing.Void"})), batch_records=batch_records)

    mine = {f"wf-{number}" for number in (1, 4, 7, 10)}
    assert about(lines) == {(kind, run) for run in mine for kind in ("event", "answer", "lifecycle")}
    assert len(lines) == 12


def test_a_facet_may_be_named_by_its_last_part() -> None:
    bench = Clocked()
    bench.run("billing.Pay", 1)
    bench.run("stock.Pay", 2)
    bench.run("billing.Void", 3)

    lines = told(bench.deployment, AuditFilter(facets=frozenset({"Pay"})))

    assert {line["workflow"] for line in lines} == {"wf-1", "wf-2"}


def test_a_runs_lines_are_all_that_names_it() -> None:
    bench = Clocked()
    bench.run("billing.Pay", 1)
    bench.run("billing.Pay", 2)

    lines = told(bench.deployment, AuditFilter(workflows=frozenset({"wf-2"})))

    assert about(lines) == {(kind, "wf-2") for kind in ("command", "event", "answer", "lifecycle")}


def test_only_records_of_the_time_that_is_asked_for_are_written() -> None:
    bench = Clocked()
    for number in (1, 2, 3, 4):
        bench.now_ms = number * 1_000
        bench.run("billing.Pay", number)

    lines = told(bench.deployment, AuditFilter(from_ms=2_000, to_ms=4_000))

    assert {line["workflow"] for line in lines} == {"wf-2", "wf-3"}
    assert {line["time_ms"] for line in lines} == {2_000, 3_000}


def test_dead_letters_are_written_with_their_reason_and_found_by_their_facet() -> None:
    bench = Clocked()
    letter = (
        ("afl.dlq.topic", b"afl.events.billing.Void"), ("afl.dlq.partition", b"0"), ("afl.dlq.offset", b"17"),
        ("afl.dlq.reason", b"bad_magic"), ("afl.dlq.error", b"no magic byte"),
    )  # fmt: skip
    producer = bench.deployment.producer
    producer.produce("afl.dlq.events.billing.Void", b"junk", key=b"wf-7:a1", headers=letter)
    producer.produce("afl.dlq.control", b"junk", key=b"wf-8", headers=(("afl.dlq.topic", b"afl.control"),))
    producer.flush(10)

    everything = told(bench.deployment, AuditFilter())
    of_facet = told(bench.deployment, AuditFilter(facets=frozenset({"billing.Void"})))

    assert [line["kind"] for line in everything] == ["dead_letter", "dead_letter"]
    (line,) = of_facet
    assert (line["reason"], line["detail"], line["workflow"], line["size_bytes"]) == (
        "bad_magic", "no magic byte", "wf-7", 4,
    )  # fmt: skip
    assert (line["original_topic"], line["original_partition"], line["original_offset"]) == (
        "afl.events.billing.Void", 0, 17,
    )  # fmt: skip


def audited(deployment: Deployment, path: Path, wanted: AuditFilter) -> list[dict[str, Any]]:
    config = AuditConfig(stream=deployment.stream, wanted=wanted)
    audit = Audit(config, EmbeddedTransport(deployment.broker), AuditFile(path))
    for _ in range(10):
        audit.turn(0)
    audit.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_answer_after_a_restart_is_known_by_the_event_in_the_file(tmp_path: Path) -> None:
    bench, path, wanted = Clocked(), tmp_path / "audit.jsonl", AuditFilter(facets=frozenset({"billing.Pay"}))
    for facet, step in (("billing.Pay", 1), ("billing.Void", 2)):
        bench.deployment.publish(event(facet, step))
    audited(bench.deployment, path, wanted)
    for step in (2, 1):
        bench.send("afl.control", StepContinue(step_id=f"wf-{step}:{step}", result={}))

    lines = audited(bench.deployment, path, wanted)

    assert [line["kind"] for line in lines] == ["filter", "event", "filter", "answer"]
    assert lines[-1]["workflow"] == "wf-1"
    found = verify(path)
    assert found.is_intact
    assert found.offsets.is_filtered
