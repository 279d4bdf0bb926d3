"""Records and rows that cannot be read, stored or delivered wait or are reported by name; the others continue."""

import json
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from afl.compiled.program import CompiledProgram, Node
from afl.engine.model.store import COMPLETED, ERROR, Batch, ParkedRecord, WorkflowChange, WorkflowRow
from afl.scripts.pool import ScriptResult
from afl_stream.embedded.transport import Faults
from afl_stream.errors import SchemaUnavailable
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import BrokerUnavailable, TopicPartition
from afl_stream.wire.messages import StepContinue
from tests.worlds.chain import CHAIN, start_chain
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.parties import Evaluator
from tests.worlds.press import Presses
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, FILES, SQLITE, in_worlds

AWAY = BrokerUnavailable("the broker is away")
#: Short to start and to end, with one question in between.
NOTE = """
namespace notes {
  event facet Write(text: String) => (id: Long)
  workflow Note(text: String) => (id: Long) andThen { w = Write(text = $.text) yield Note(id = w.id) }
}
"""
#: A value that gets a hundred lists deeper with each step after the first.
DEEP_STEPS = "\n".join(
    f"    v{number} = Keep(v = {'[' * 100}{'a.n' if number == 0 else f'v{number - 1}.v'}{']' * 100})"
    for number in range(12)
)
DEEP = f"""
namespace deep {{
  event facet Ask(n: Long) => (n: Long)
  facet Keep(v: Json)
  workflow Deepen(n: Long) => (n: Json) andThen {{
    a = Ask(n = $.n)
{DEEP_STEPS}
    yield Deepen(n = v11.v)
  }}
}}
"""


def answer_as_json(deployment: Deployment, step_id: str, result: Mapping[str, object]) -> None:
    """Send an answer that can be read without a schema."""
    value = json.dumps({"step_id": step_id, "result": result}).encode()
    deployment.put(deployment.topology.control(), value, key=step_id.partition(":")[0].encode())


def with_nothing_announced(deployment: Deployment, faults: Faults) -> Evaluator:
    """Return the next evaluator. It has to announce every schema that it writes: the schemas topic is recreated."""
    for evaluator in list(deployment.evaluators):
        deployment.remove(evaluator, killed=False)
    deployment.transport.admin().delete_topic(deployment.topology.schemas())
    deployment.client.apply_topics(deployment.programs)
    return deployment.evaluator(faults)


@in_worlds(EMBEDDED)
def test_a_schema_that_is_away_while_an_end_is_told_skips_no_record(world: World) -> None:
    deployment, faults = world.deployment(NOTE, control_partitions=1), Faults()
    deployment.evaluator()
    deployment.client.start("notes.Note", {"text": "x"}, workflow_id="wf-1")
    deployment.settle()
    step_id = deployment.step("wf-1", "notes.Write").id
    evaluator = with_nothing_announced(deployment, faults)
    answer_as_json(deployment, step_id, {"id": 7})
    # The event's schema can be announced, that of the milestone cannot, three times.
    faults.fail_at("produce.before_append", passes=1, times=3, error=AWAY)

    for _ in range(3):
        with pytest.raises(SchemaUnavailable):
            evaluator.turn()
        assert deployment.outcomes() == {}
    deployment.settle()

    assert deployment.outcomes() == {"applied": 1}
    assert (deployment.workflow("wf-1").status, deployment.workflow("wf-1").outputs) == (COMPLETED, {"id": 7})


@in_worlds(EMBEDDED)
def test_a_schema_that_is_away_while_a_runnable_workflow_has_its_turn_skips_no_record(world: World) -> None:
    budget = EvaluatorSettings(workflow_budget_steps=12)
    deployment, faults = world.deployment(CHAIN, NOTE, control_partitions=1, evaluator=budget), Faults()
    writer = deployment.evaluator()
    deployment.client.start("notes.Note", {"text": "x"}, workflow_id="wf-1")
    deployment.settle()
    start_chain(deployment, "chain-1")
    while not deployment.store.runnable_workflows():
        writer.turn()
    step_id = deployment.step("wf-1", "notes.Write").id
    evaluator = with_nothing_announced(deployment, faults)
    answer_as_json(deployment, step_id, {"id": 7})
    # The record's own schemas can be announced, those of the workflow whose turn it is cannot.
    faults.fail_at("produce.before_append", passes=1, times=2, error=AWAY)

    for _ in range(2):
        with pytest.raises(SchemaUnavailable):
            evaluator.turn()
    deployment.settle()

    assert deployment.workflow("wf-1").outputs == {"id": 7}
    assert deployment.store.runnable_workflows() == []


def test_a_runnable_workflow_that_cannot_be_read_is_logged_and_holds_up_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    orphan = WorkflowRow(
        id="orphan", revision=1, program="gone", name=REPORT, status="RUNNING", runnable=True, inputs={}
    )
    deployment.store.commit_batch(Batch(changes=[WorkflowChange(orphan, 0, ())]))

    desk = Desk(deployment)
    desk.start()
    desk.finish()

    assert deployment.workflow("wf-1").status == COMPLETED
    assert deployment.workflow("orphan") == orphan
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors
    assert all("orphan" in error and "gone" in error for error in errors)


def without_a_topic(world: World, caplog: pytest.LogCaptureFixture) -> Desk:
    """Return a workflow whose third question was committed when its facet's topic was gone."""
    desk = Desk(world.deployment(DESK, NOTE))
    desk.start()
    desk.deployment.transport.admin().delete_topic(desk.deployment.topology.facet(ASK))
    with caplog.at_level(logging.ERROR):
        desk.answer(desk.step(FIRST).id, THIRD)
    return desk


def assert_notes_are_taken(deployment: Deployment, workflow_id: str) -> None:
    deployment.client.start("notes.Note", {"text": "x"}, workflow_id=workflow_id)
    deployment.settle()
    deployment.send(StepContinue(step_id=deployment.step(workflow_id, "notes.Write").id, result={"id": 1}))
    deployment.settle()
    assert deployment.workflow(workflow_id).status == COMPLETED


def test_events_whose_topic_is_gone_wait_in_the_store_and_are_reported_once_while_the_rest_continues(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    desk = without_a_topic(world, caplog)
    deployment, topic = desk.deployment, desk.deployment.topology.facet(ASK)

    assert_notes_are_taken(deployment, "wf-2")
    for _ in range(3):
        deployment.clock.advance(2_000)
        deployment.settle()

    assert desk.evaluator.stats.undeliverable == {topic: 1}
    assert [row.record.topic for row in deployment.store.outbox()] == [topic]
    assert [topic in record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [True]


@in_worlds(EMBEDDED)
def test_an_evaluator_starts_beside_events_whose_topic_is_gone_and_sends_them_when_it_is_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    desk = without_a_topic(world, caplog)
    deployment, topic = desk.deployment, desk.deployment.topology.facet(ASK)
    deployment.remove(desk.evaluator, killed=True)
    successor = deployment.evaluator()

    assert_notes_are_taken(deployment, "wf-2")
    assert successor.stats.undeliverable == {topic: 1}
    deployment.client.apply_topics(deployment.programs)
    deployment.clock.advance(2_000)
    deployment.settle()

    assert [event.payload["question"] for event in deployment.events(ASK)] == [THIRD]
    assert successor.stats.undeliverable == {}
    assert deployment.store.outbox() == []


@pytest.mark.parametrize(
    "body",
    [
        {"type": "AndThenBlock", "steps": [{"type": "StepStmt", "name": "a"}]},
        {"type": "AndThenBlock", "foreach": {"variable": "x"}},
        7,
    ],
    ids=["a step without a call", "a foreach without a source", "a number"],
)
def test_a_deployed_program_that_is_malformed_is_rejected_when_it_is_started(world: World, body: object) -> None:
    tree: Node = {"type": "Program", "declarations": [{"type": "WorkflowDecl", "name": "Bad", "body": body}]}
    desk = Desk(world.deployment(DESK))
    deployment = desk.deployment
    deployment.client.deploy(CompiledProgram(tree))

    deployment.client.start("Bad", {}, workflow_id="bad-1")
    deployment.settle()

    assert deployment.store.load_workflow("bad-1") is None
    (milestone,) = deployment.milestones("bad-1")
    assert (milestone.kind, milestone.workflow) == ("workflow.rejected", "Bad")
    assert len(deployment.dead_letters(deployment.topology.commands())) == 1
    desk.start()


def test_a_value_that_is_nested_too_deep_fails_its_step_by_name_and_the_rest_of_the_batch_is_applied(
    world: World,
) -> None:
    deployment = world.deployment(DEEP, NOTE, control_partitions=1)
    deployment.evaluator()
    deployment.client.start("notes.Note", {"text": "x"}, workflow_id="before")
    deployment.client.start("deep.Deepen", {"n": 1}, workflow_id="deep")
    deployment.client.start("notes.Note", {"text": "x"}, workflow_id="behind")
    deployment.settle()
    before, behind = (deployment.step(name, "notes.Write").id for name in ("before", "behind"))
    deepest = deployment.step("deep", "deep.Ask").id

    deployment.send(StepContinue(step_id=before, result={"id": 1}))
    deployment.send(StepContinue(step_id=deepest, result={"n": 2}))
    deployment.send(StepContinue(step_id=behind, result={"id": 3}))
    deployment.settle()

    control = deployment.topology.control()
    row = deployment.workflow("deep")
    assert row.status == ERROR
    assert row.error is not None
    assert (row.error.type, "MAX_VALUE_DEPTH" in row.error.message) == ("ValueTooDeep", True)
    assert deployment.dead_letters(control) == []
    assert [deployment.workflow(name).outputs for name in ("before", "behind")] == [{"id": 1}, {"id": 3}]
    deployment.crash()


def test_a_run_whose_first_steps_are_nested_too_deep_fails_and_is_told_to_whoever_waits_for_it(world: World) -> None:
    at_once = DEEP.replace("a = Ask(n = $.n)", "a = Keep(v = $.n)").replace("a.n", "a.v")
    deployment = world.deployment(at_once)
    deployment.evaluator()

    deployment.client.start("deep.Deepen", {"n": 1}, workflow_id="deep")
    deployment.settle()

    reported = deployment.milestones("deep")[-1]
    assert reported.kind == "workflow.error"
    assert reported.error is not None
    assert reported.error.type == "ValueTooDeep"
    assert deployment.workflow("deep").status == ERROR
    assert deployment.dead_letters(deployment.topology.commands()) == []
    deployment.crash()


def with_document(deployment: Deployment, old: bytes | None, new: bytes) -> None:
    """Change the document of the only stored workflow, or a part of it, and continue with a new evaluator."""
    path = deployment.config.store_path
    deployment.crash()
    with closing(sqlite3.connect(path)) as connection, connection:
        ((document,),) = connection.execute("SELECT document FROM workflow").fetchall()
        changed = new if old is None else document.replace(old, new)
        assert changed != document
        connection.execute("UPDATE workflow SET document=?", (changed,))
    connection.close()
    deployment.restart()
    deployment.evaluator()


@in_worlds(FILES)
def test_a_workflow_of_a_newer_format_pauses_its_partition_and_nothing_is_dead_lettered(world: World) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    desk = Desk(deployment)
    desk.start()
    step_id = desk.step(FIRST).id
    with_document(deployment, b"1.0 1.0", b"2.0 2.0")

    deployment.send(StepContinue(step_id=step_id, result={"answer": THIRD}))
    deployment.client.cancel("wf-1", "no more")
    deployment.settle()

    control, commands = deployment.topology.control(), deployment.topology.commands()
    paused = deployment.evaluators[0].stats.paused
    assert sorted(paused) == [TopicPartition(commands, 0), TopicPartition(control, 0)]
    assert all("2.0" in why for why in paused.values())
    assert deployment.dead_letters(control) == deployment.dead_letters(commands) == []
    assert deployment.outcomes() == {}

    with_document(deployment, b"2.0 2.0", b"1.0 1.0")
    deployment.settle()

    assert deployment.evaluators[0].stats.paused == {}
    assert deployment.workflow("wf-1").status == "CANCELLED"
    assert sum(deployment.outcomes().values()) == 2
    assert deployment.dead_letters(control) == deployment.dead_letters(commands) == []
    deployment.crash()


@in_worlds(FILES)
def test_each_command_on_a_damaged_workflow_is_one_dead_letter(world: World) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    Desk(deployment).start()
    with_document(deployment, None, b"\x00")

    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.client.cancel("wf-1")
    deployment.settle()

    reasons = [dict(r.headers)["afl.dlq.reason"] for r in deployment.dead_letters(deployment.topology.commands())]
    assert reasons == [b"StoreCorrupt"] * 2
    assert deployment.outcomes() == {"rejected": 2}
    deployment.crash()


def test_a_parked_answer_of_a_newer_format_waits_and_the_service_continues(world: World) -> None:
    desk = Desk(world.deployment(DESK))
    deployment = desk.deployment
    desk.start()
    step_id = desk.step(SECOND).id
    newer = json.dumps({"step_id": step_id, "result": {}, "step_schema_version": "9.0"}).encode()
    parked = ParkedRecord(
        id="p/0/1", workflow_id="wf-1", step_id=step_id, topic=deployment.topology.control(), partition=0, offset=1,
        key=b"wf-1", value=newer, headers=(), parked_at_ms=1, expires_at_ms=2,
    )  # fmt: skip
    deployment.store.commit_batch(Batch(parked=[parked]))

    for _ in range(3):
        deployment.clock.advance(2_000)
        deployment.settle()
    desk.finish()

    assert deployment.workflow("wf-1").status == COMPLETED
    assert deployment.store.parked() == [parked]
    assert deployment.dead_letters(deployment.topology.control()) == []


def damage_step(deployment: Deployment, step_id: str) -> None:
    """Let a stored step begin as a step does, and end too early."""
    with closing(sqlite3.connect(deployment.config.store_path)) as connection, connection:
        ((content,),) = connection.execute("SELECT document FROM step WHERE id=?", (step_id,)).fetchall()
        # What is at its beginning says where the step is; its attributes are at the end.
        connection.execute("UPDATE step SET document=? WHERE id=?", (content[:-2], step_id))


#: Uses of the first answer that come after the last one: nothing of the run is decoded before.
LATE = {
    "in a yield": "yield Later(answer = a.answer ++ c.answer)",
    "where a catch stands": """
    k = Keep(text = a.answer ++ c.answer) catch { yield Later(answer = "caught") }
    yield Later(answer = k.text)""",
    "in a condition": """
    k = Keep(text = c.answer) andThen when {
      case a.answer == "no" => { yield Later(answer = "no") }
      case _ => { yield Later(answer = "otherwise") }
    }""",
}


@in_worlds([SQLITE])
@pytest.mark.parametrize("use", LATE)
def test_a_damaged_step_that_is_read_late_ends_its_workflow_and_no_other(world: World, use: str) -> None:
    program = f"""
    namespace late {{
      event facet Ask(question: String) => (answer: String)
      facet Keep(text: String)
      workflow Later() => (answer: String) andThen {{
        a = Ask(question = "first")
        c = Ask(question = "last")
        {LATE[use]}
      }}
    }}
    """
    deployment = world.deployment(program, control_partitions=1, evaluator=EvaluatorSettings(hot_steps=0))
    desk, runs = Desk(deployment), ["wf-1", "wf-2"]
    for run in runs:
        deployment.client.start("late.Later", {}, workflow_id=run)
        deployment.settle()
        desk.answer(desk.step("first", run).id, "x")
    waiting = [desk.step("last", run).id for run in runs]
    damage_step(deployment, desk.step("first").id)

    for step_id in waiting:
        desk.answer(step_id, "y")

    ended = deployment.workflow("wf-1")
    assert (ended.status, ended.outputs) == (ERROR, None)
    assert "StoreCorrupt" in str(ended.error)
    assert deployment.workflow("wf-2").status == COMPLETED
    (letter,) = deployment.dead_letters(deployment.topology.control())
    assert letter.key == b"wf-1"
    deployment.crash()


class LongTexts(Presses):
    """Runs scripts whose result is a text that brings a run near its limit of state."""

    def end_first(self) -> None:
        _, future = self.lying.popleft()
        future.set_result(ScriptResult(result={"text": "x" * 70_000}, printed="", duration_s=0.0))


@in_worlds([SQLITE])
def test_a_damaged_step_that_is_measured_when_a_script_ends_ends_its_workflow(world: World) -> None:
    program = """
    namespace late {
      event facet Ask(question: String) => (answer: String)
      facet Label(item: String) => (text: String) script { result["text"] = params["item"].upper() }
      workflow Later() => (answer: String) andThen {
        a = Ask(question = "first")
        c = Ask(question = "last")
        l = Label(item = c.answer)
        yield Later(answer = l.text)
      }
    }
    """
    texts = LongTexts(holds=True)
    settings = EvaluatorSettings(hot_steps=0, max_state_bytes=100_000)
    deployment = world.deployment(program, control_partitions=1, evaluator=settings, scripts=texts)
    desk = Desk(deployment)
    deployment.client.start("late.Later", {}, workflow_id="wf-1")
    deployment.settle()
    for question in ("first", "last"):
        deployment.send(StepContinue(step_id=desk.step(question).id, result={"answer": "x"}))
        deployment.round()
    damage_step(deployment, desk.step("first").id)

    texts.release()
    for _ in range(3):
        deployment.round()

    assert deployment.workflow("wf-1").status == ERROR
    assert "StoreCorrupt" in str(deployment.workflow("wf-1").error)
    deployment.crash()
