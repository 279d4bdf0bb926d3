"""Records that an earlier release wrote: their bytes are read for what they say, and written again to the byte."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from afl_stream.agent.agent import Agent, AgentConfig, HandlerContext
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.headers import HeaderForm, header
from afl_stream.wire.messages import Lifecycle, ProgramDefinition, ProgramPointer, StepContinue, StoreClaim
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.compatibility.dumps import headers_of_line, sql_of
from tests.compatibility.generations import (
    FIXTURES,
    comparable,
    differences,
    reopened,
    restored_log,
    text_of,
    with_schemas_of,
)
from tests.compatibility.messages import MESSAGES, TRACE, VALUES
from tests.compatibility.story import CLAIM, result_for
from tests.compatibility.world import HOST, LOCATION, MARK, STORE_ID, World, settings, sqlite_store
from tests.compatibility.write import Told, messages_text

STORED = [json.loads(line) for line in text_of("messages.jsonl").splitlines()]
#: The same records with two headers each, as this release writes them unless it is told otherwise.
COMPACT_TEXT = (FIXTURES / "compact_headers.jsonl").read_text(encoding="utf-8")
COMPACT = [json.loads(line) for line in COMPACT_TEXT.splitlines()]


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[World]:
    restored_log(tmp_path)
    earlier = reopened(tmp_path, sqlite_store)
    yield earlier
    earlier.close(kill=True)


def value_of(line: Mapping[str, Any]) -> bytes:
    return bytes.fromhex(line["value"]) if line["form"] == "avro" else str(line["value"]).encode()


# --- single records --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [*STORED, *COMPACT], ids=lambda line: f"{line['name']}, {line['form']}")
def test_a_stored_record_says_what_its_writer_said(codec: Codec, line: dict[str, Any]) -> None:
    headers = headers_of_line(line["headers"])

    assert codec.decode(value_of(line), headers, json_allowed=True) == MESSAGES[line["name"]]


def test_every_record_is_written_as_it_was() -> None:
    assert differences(messages_text(), text_of("messages.jsonl")) == []


def test_every_record_is_written_as_it_was_with_two_headers() -> None:
    assert differences(messages_text(HeaderForm.COMPACT), COMPACT_TEXT) == []


@pytest.mark.parametrize("number", range(len(STORED)))
def test_both_forms_of_headers_say_the_same(number: int) -> None:
    long, short = headers_of_line(STORED[number]["headers"]), headers_of_line(COMPACT[number]["headers"])

    assert {name: header(short, name) for name, _ in long} == {name: header(long, name) for name, _ in long}
    assert [name for name, _ in short if name not in ("traceparent", "tracestate")] == ["content-type", "afl"]


def test_values_of_every_kind_are_as_they_were() -> None:
    (text,) = [line["value"] for line in STORED if (line["name"], line["form"]) == ("continue", "json")]

    assert json.loads(text)["result"] == VALUES


def test_headers_tell_type_source_time_subject_and_trace() -> None:
    (line,) = [line for line in STORED if (line["name"], line["form"]) == ("continue of an agent", "avro")]

    assert dict(line["headers"]) == {
        "ce_specversion": "1.0",
        "ce_id": "wf:ab#2:StepContinue",
        "ce_type": "afl.StepContinue",
        "ce_source": "/fixtures",
        # 1,764,000,000 s after 1970.
        "ce_time": "2025-11-24T16:00:00.123Z",
        "ce_subject": "wf:ab",
        "afl_attempt": "2",
        "content-type": "application/avro",
        "afl_workflow_version": "1.0",
        "afl_step_schema_version": "1.0",
        "afl_runtime_version": "0.1.0",
        "traceparent": TRACE[0][1].decode(),
    }


# --- a whole log -----------------------------------------------------------------------------------------------------


def test_the_same_story_writes_the_same_log(told_again: Told) -> None:
    written, kept = (comparable(log) for log in (told_again.log, text_of("log.sql")))
    assert differences(with_schemas_of(written, kept), with_schemas_of(kept, kept)) == []
    assert told_again.answers == text_of("answers.jsonl")


def test_a_log_is_opened_with_all_of_its_records(earlier: World) -> None:
    found = {topic: len(earlier.records(topic)) for topic in earlier.broker.topics()}

    assert (found["afl.commands"], found["afl.control"]) == (24, 21)
    assert (found["afl.dlq.commands"], found["afl.dlq.control"]) == (2, 1)
    assert found["afl.events.claims.work.Assess"] == 4  # Two lines of each of two claims.


def test_a_log_keeps_the_offsets_that_its_group_has_committed(earlier: World) -> None:
    reader = earlier.transport.consumer(earlier.topology.evaluator_group)
    found = {
        (partition.topic, partition.partition): at.offset
        for partition, at in reader.committed(_evaluators_partitions()).items()
    }
    reader.close()

    # The start of the survey was stored, and the evaluator died before its offset followed.
    assert sum(found.values()) == 44


def _evaluators_partitions() -> list[TopicPartition]:
    return [TopicPartition(topic, n) for topic in ("afl.control", "afl.commands") for n in (0, 1)]


def test_events_carry_the_typed_payload_of_their_facet(earlier: World) -> None:
    kettle, *others = [e for e in earlier.events("claims.work.Assess") if e.payload["line"] == CLAIM["lines"][0]]  # type: ignore[index]  # a list

    assert not others
    assert (kettle.workflow_id, kettle.execution_id, kettle.attempt) == ("settle-waiting", "settle-waiting/1", 1)
    assert kettle.id == f"{kettle.step_id}#1"
    assert (kettle.state, kettle.deadline, kettle.answer_token) == ("Created", None, None)
    assert kettle.payload == {
        "line": {"text": "a kettle", "cents": 700},
        "tone": "brisk",
        "weights": [0.5, 1.0],
        "minutes": 2,
        "retry": {"times": 5, "policy": "retry-5"},
    }


def test_an_event_that_is_sent_again_has_another_attempt(earlier: World) -> None:
    attempts = [e.attempt for e in earlier.events("desk.Ask") if e.workflow_id == "report-retried"]

    assert sorted(attempts) == [1, 1, 2]


def test_events_begin_with_the_fingerprint_of_an_announced_schema(earlier: World) -> None:
    announced = {record.key: record.value for record in earlier.records("afl.schemas")}
    heads = {record.value[:10] for record in earlier.records("afl.events.desk.Ask") if record.value is not None}

    for key, text in announced.items():
        assert text is not None
        assert key == hashlib.sha256(text).hexdigest().encode()
    # By another implementation of Avro.
    known = {
        bytes.fromhex(fingerprint(_canonical(text), "CRC-64-AVRO")) for text in announced.values() if text is not None
    }
    assert {head[:2] for head in heads} == {b"\xc3\x01"}
    assert {head[2:] for head in heads} <= known


def _canonical(text: bytes) -> str:
    return to_parsing_canonical_form(json.loads(text))


def test_dead_letters_have_their_bytes_and_say_why(earlier: World) -> None:
    (letter,) = earlier.records("afl.dlq.control")
    refused, tombstone = earlier.records("afl.dlq.commands")

    assert (letter.key, letter.value) == (b"report-failed", b"garbage")
    headers = dict(letter.headers)
    assert headers["traceparent"] == b"00-1"
    assert (headers["afl_dlq_topic"], headers["afl_dlq_reason"]) == (b"afl.control", b"bad_magic")
    assert dict(refused.headers)["afl_dlq_reason"] == b"NothingToCancel"
    assert (tombstone.value, dict(tombstone.headers)["afl_dlq_reason"]) == (None, b"null_value")


def test_milestones_tell_how_the_runs_went(earlier: World) -> None:
    reported: dict[str, list[str]] = {}
    for record in earlier.records("afl.lifecycle"):
        message = earlier.codec.decode(record.value, record.headers)
        assert isinstance(message, Lifecycle)
        reported.setdefault(message.workflow_id, []).append(message.kind)

    assert reported["settle-finished"] == ["workflow.started", "command.applied", "workflow.completed", "answer.late"]
    assert reported["report-cancelled"] == ["workflow.started", "command.applied", "workflow.cancelled"]
    assert reported["report-retried"] == ["workflow.started", "workflow.retried", "workflow.described"]
    assert reported["report-failed"] == ["workflow.started", "workflow.error", "workflow.described"]
    assert reported["no-such-run"] == ["command.refused"]


def test_commands_that_ask_are_answered_under_their_ids(earlier: World) -> None:
    reported = [earlier.codec.decode(record.value, record.headers) for record in earlier.records("afl.lifecycle")]
    by_command = {m.command_id: m for m in reported if isinstance(m, Lifecycle) and m.command_id is not None}
    described, waiting = by_command["describe-1"], by_command["describe-2"]

    assert (described.status, described.outputs) == ("ERROR", {"waiting": [], "waiting_count": 0})
    assert waiting.outputs is not None
    assert (waiting.status, waiting.outputs["waiting_count"]) == ("PAUSED", 2)
    assert by_command["start-report-later"].kind == "workflow.started"
    assert by_command["answer-settle-finished"].kind == "command.applied"
    refused = by_command["cancel-2"].error
    assert refused is not None
    assert refused.type == "NothingToCancel"


def test_definitions_name_programs_by_what_they_say(earlier: World) -> None:
    programs: dict[str, str] = {}
    names: dict[str, str] = {}
    claims: list[StoreClaim] = []
    for record in earlier.records("afl.definitions"):
        message = earlier.codec.decode(record.value, record.headers)
        if isinstance(message, ProgramDefinition):
            programs[message.fingerprint] = message.program_json()
        elif isinstance(message, ProgramPointer):
            names[message.workflow] = message.fingerprint
        else:
            assert isinstance(message, StoreClaim)
            claims.append(message)

    assert all(hashlib.sha256(text.encode()).hexdigest() == found for found, text in programs.items())
    assert '"other"' in programs[names["desk.Report"]]
    assert set(names) == {
        *("claims.work.Settle", "scripted.Call"),
        *("desk.Report", "desk.Careful", "desk.Contract", "desk.Survey"),
    }
    assert {(claim.store, claim.mark, claim.location, claim.host) for claim in claims} == {
        (STORE_ID, MARK, LOCATION, HOST)
    }


def test_opening_a_log_changes_nothing_but_what_compaction_takes(tmp_path: Path) -> None:
    restored_log(tmp_path)
    path = settings(tmp_path).log_path

    reopened(tmp_path, sqlite_store).close()

    before, after = text_of("log.sql").splitlines(), sql_of(path).splitlines()
    gone = set(before) - set(after)
    assert set(after) <= set(before)
    with closing(sqlite3.connect(path)) as log:
        (definitions,) = log.execute("SELECT id FROM topics WHERE name = 'afl.definitions'").fetchone()
    assert all(line.startswith(f'INSERT INTO "records" VALUES({definitions}, 0, ') for line in gone)


def test_an_agent_answers_a_stored_event_as_agents_always_have(earlier: World) -> None:
    config = AgentConfig(stream=earlier.config, name="now", group="now", commit_interval_s=0.0, poll_timeout_s=0.0)
    agent = Agent(config, EmbeddedTransport(earlier.broker))

    def ask(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        return result_for("desk.Ask", payload)

    agent.register("desk.Ask", ask)
    agent.start()
    answers: list[Record] = []
    for _ in range(1_000):
        agent.run_once(0.01)
        answers = [r for r in earlier.records("afl.control") if r.key == b"report-later"]
        if len(answers) == 2:
            break
    agent.close()

    (event,) = [
        e for e in earlier.events("desk.Ask") if (e.workflow_id, e.payload["question"]) == ("report-later", "first")
    ]
    (answer,) = [r for r in answers if dict(r.headers)["ce_subject"] == event.step_id.encode()]
    said = StepContinue(
        step_id=event.step_id,
        result={"answer": "re: first", "length": 5},
        workflow_id="report-later",
        event_id=f"{event.step_id}#1",
        attempt=1,
        agent="now",
        group="now",
    )
    assert answer.value == earlier.codec.encode(said)
    assert [header for header in answer.headers if header[0] != "ce_time"] == [
        ("ce_specversion", b"1.0"),
        ("ce_id", f"{event.step_id}#1:StepContinue".encode()),
        ("ce_type", b"afl.StepContinue"),
        ("ce_source", b"/agents/now"),
        ("ce_subject", event.step_id.encode()),
        ("afl_attempt", b"1"),
        ("content-type", b"application/avro"),
        ("afl_workflow_version", b"1.0"),
        ("afl_step_schema_version", b"1.0"),
        ("afl_runtime_version", b"0.1.0"),
    ]
