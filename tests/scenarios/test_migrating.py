"""A waiting run moves to another version of its program: through the loop, twice, with crashes between any two steps.

Starts that are repeated across deploys are here too.
"""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from afl.compiled.program import CompiledProgram
from afl.engine.model.store import COMPLETED, PAUSED
from afl_stream.client.client import RefusedByEvaluator
from afl_stream.embedded.transport import Crash
from afl_stream.wire.headers import IF_EXISTS_HEADER, headers_for
from afl_stream.wire.messages import FailureReason, Lifecycle, MigrateWorkflow, StartWorkflow, StepContinue
from tests.worlds.deployment import program_of, unique_ids
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import (
    EVERY_STORE_AND_KAFKA,
    KAFKA,
    MEMORY,
    MONGO,
    SQLITE,
    STANDALONE_MONGO,
    Crashing,
    in_worlds,
    with_values,
)

#: What depends on the store or the broker is tried on all of them.
WORLDS = (MEMORY, SQLITE)

#: The third question waits for both answers, and there is a fourth.
NEXT = DESK.replace(
    """    c = Ask(question = a.answer)
    yield Report(answers = [a.answer, b.answer, c.answer])""",
    """    c = Ask(question = a.answer ++ "+" ++ b.answer)
    d = Ask(question = c.answer)
    yield Report(answers = [a.answer, b.answer, c.answer, d.answer])""",
)
RENAMED = DESK.replace("    b = Ask", "    other = Ask").replace("b.answer", "other.answer")
#: What the run gives by the next version, once each question is answered with itself.
ANSWERS = {"answers": [FIRST, SECOND, f"{FIRST}+{SECOND}", f"{FIRST}+{SECOND}"]}


FIRST_VERSION, NEXT_VERSION = program_of(DESK).fingerprint, program_of(NEXT).fingerprint


@pytest.fixture
def desk(world: World) -> Desk:
    return next_to_the_next_version(world)


def next_to_the_next_version(world: World) -> Desk:
    desk = Desk(world.deployment(DESK))
    deploy(desk, program_of(NEXT))
    return desk


def start(desk: Desk) -> None:
    """Start a run by the version before."""
    desk.deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1", program=FIRST_VERSION)
    desk.deployment.settle()


def hear_pauses(desk: Desk) -> None:
    desk.deployment.hear_pauses()
    desk.deployment.settle()


def deploy(desk: Desk, program: CompiledProgram) -> None:
    desk.deployment.client.deploy(program)


def command(program: str = NEXT_VERSION, workflow_id: str = "wf-1", command_id: str = "c-1") -> MigrateWorkflow:
    return MigrateWorkflow(workflow_id=workflow_id, program=program, reason="two at a time", command_id=command_id)


def answer_to(desk: Desk, sent: MigrateWorkflow | StartWorkflow) -> Lifecycle:
    with closing(desk.deployment.client.milestones(sent.workflow_id)) as milestones:
        desk.send(sent)
        return milestones.answer_to(sent.command_id or "", timeout_s=5)


def refusal_of(desk: Desk, sent: MigrateWorkflow | StartWorkflow) -> FailureReason:
    with pytest.raises(RefusedByEvaluator) as refused:
        answer_to(desk, sent)
    return refused.value.reason


# --- moving -----------------------------------------------------------------------------------------------------------


@in_worlds(EVERY_STORE_AND_KAFKA)
def test_a_run_moves_its_event_in_flight_is_answered_and_it_ends_as_the_new_version_says(desk: Desk) -> None:
    start(desk)
    desk.answer(desk.step(FIRST).id, FIRST)
    before = {step.id: step._replace(revision=0) for step in desk.steps()}

    told = answer_to(desk, command())

    row = desk.deployment.workflow("wf-1")
    assert (row.program, row.status) == (NEXT_VERSION, PAUSED)
    assert (told.kind, told.outputs) == (
        "workflow.migrated",
        {"from": FIRST_VERSION, "to": NEXT_VERSION},
    )
    # The third question was asked already, for the first answer alone.
    assert {step.id: step._replace(revision=0) for step in desk.steps()} == before
    desk.answer(desk.step(SECOND).id, SECOND)
    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == {"answers": [FIRST, SECOND, FIRST, FIRST]}
    assert desk.told() == ["workflow.started", "workflow.migrated", "workflow.completed"]
    (entry,) = [e for e in desk.deployment.store.get_logs_by_runner("wf-1") if e.details.get("action") == "migrate"]
    assert entry.details["reason"] == "two at a time"
    assert desk.letters() == []


@in_worlds(EVERY_STORE_AND_KAFKA)
def test_the_same_command_twice_moves_once_and_one_that_comes_later_finds_it_done(desk: Desk) -> None:
    start(desk)
    sent = command()

    desk.deployment.send(sent)
    desk.send(sent)
    repeated = answer_to(desk, sent)

    assert repeated.kind == "command.repeated"
    assert desk.told().count("workflow.migrated") == 1
    assert desk.deployment.outcomes()["duplicate"] == 2
    assert refusal_of(desk, command(command_id="c-2")).type == "AlreadyOnVersion"
    # And back again: the events in flight are of both versions.
    desk.send(command(FIRST_VERSION, command_id="c-3"))
    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == {"answers": [FIRST, SECOND, FIRST]}


def test_a_command_among_answers_of_its_run_takes_its_place_in_their_order(desk: Desk) -> None:
    start(desk)
    desk.deployment.send(StepContinue(step_id=desk.step(FIRST).id, result={"answer": FIRST}))
    desk.deployment.send(command())
    desk.send(StepContinue(step_id=desk.step(SECOND).id, result={"answer": SECOND}))

    desk.finish()

    assert len(desk.deployment.workflow("wf-1").outputs["answers"]) == 4  # type: ignore[index, arg-type]  # it is a list
    assert desk.deployment.outcomes()["rejected"] == 0


def test_what_cannot_be_moved_is_refused_by_name_and_stays(desk: Desk) -> None:
    start(desk)
    deploy(desk, program_of(RENAMED))
    before = desk.deployment.workflow("wf-1")

    refused = refusal_of(desk, command(program_of(RENAMED).fingerprint))
    assert refused.type == "VersionDoesNotFit"
    assert (
        "desk.Report.b: the new version has no step b there; its new step other calls desk.Ask too" in refused.message
    )
    assert refusal_of(desk, command("f" * 64, command_id="c-2")).type == "UnknownProgram"
    nobody = refusal_of(desk, command(workflow_id="wf-0"))
    assert (nobody.type, nobody.message) == ("NothingToMigrate", "there is no workflow wf-0 to move to another version")
    assert desk.deployment.workflow("wf-1") == before
    desk.finish()
    ended = refusal_of(desk, command(command_id="c-4"))
    assert (ended.type, "has ended (COMPLETED)" in ended.message) == ("NothingToMove", True)
    assert [reason for reason, _ in desk.letters()] == [
        *("VersionDoesNotFit", "UnknownProgram", "NothingToMigrate", "NothingToMove")
    ]


def test_a_command_may_be_json_and_a_client_sends_it(desk: Desk) -> None:
    start(desk)
    topic, to = desk.deployment.topology.commands(), NEXT_VERSION

    text = json.dumps({"type": "MigrateWorkflow", "workflow_id": "wf-1", "program": to})
    desk.deployment.put(topic, text.encode(), key=b"wf-1")
    desk.deployment.settle()
    assert desk.deployment.workflow("wf-1").program == to
    desk.deployment.client.migrate("wf-1", FIRST_VERSION, reason="back")
    desk.deployment.settle()

    assert desk.deployment.workflow("wf-1").program == FIRST_VERSION


def test_a_paused_run_moves_and_does_its_work_by_the_new_version_when_it_is_resumed(desk: Desk) -> None:
    start(desk)
    desk.deployment.client.pause(workflow_id="wf-1", reason="a deploy")
    hear_pauses(desk)
    desk.answer(desk.step(FIRST).id, FIRST)
    desk.answer(desk.step(SECOND).id, SECOND)

    desk.send(command())
    desk.deployment.client.resume(workflow_id="wf-1")
    hear_pauses(desk)

    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == ANSWERS


#: Where an evaluator passes while it carries the command out.
POINTS = [
    *("control.read", "migrate.moved", "control.applied", "control.persisted", "control.published"),
    *("control.committed", "store.compared", "store.written", "store.committed", "outbox.published"),
]
CRASHES = [Crashing(point, 0) for point in POINTS]


@pytest.mark.parametrize(
    ("world", "crash"),
    [
        *with_values(SQLITE, CRASHES),
        *with_values(MONGO, [Crashing("migrate.moved", 0), Crashing("store.written", 0)]),
        *with_values(STANDALONE_MONGO, [Crashing("migrate.moved", 0), Crashing("store.written", 0)]),
        *with_values(KAFKA, [Crashing("migrate.moved", 0), Crashing("control.persisted", 0)]),
    ],
    indirect=["world"],
    ids=str,
)
def test_a_crash_between_any_two_steps_leaves_the_run_on_one_version_and_it_moves_once(
    world: World, crash: Crashing
) -> None:
    desk = next_to_the_next_version(world)
    deployment = desk.deployment
    start(desk)
    desk.evaluator.faults.fail_at(crash.point, passes=crash.passes)

    deployment.send(command())
    with pytest.raises(Crash, match=crash.point):
        deployment.settle()
    deployment.crash_and_restart()
    row = deployment.workflow("wf-1")
    assert row.program in (FIRST_VERSION, NEXT_VERSION)
    desk = Desk(deployment)

    assert deployment.workflow("wf-1").program == NEXT_VERSION
    desk.finish()
    assert deployment.workflow("wf-1").outputs == ANSWERS
    assert desk.told() == ["workflow.started", "workflow.migrated", "workflow.completed"]
    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 4
    assert desk.letters() == []


# --- starting across deploys ------------------------------------------------------------------------------------------


def test_a_start_takes_the_run_that_exists_whatever_version_it_has_where_it_says_so(world: World) -> None:
    desk = Desk(world.deployment(DESK))
    desk.start()
    deploy(desk, program_of(NEXT))

    def again(headers: dict[str, str], **fields: str) -> Lifecycle:
        inputs = {"subject": fields.pop("subject", FIRST)}
        command = StartWorkflow(
            workflow_id="wf-1", workflow=REPORT, program=NEXT_VERSION, inputs=inputs, command_id=fields["id"]
        )
        topic = desk.deployment.topology.commands()
        sent = (*headers_for(command, source="/tests"), *((name, value.encode()) for name, value in headers.items()))
        with closing(desk.deployment.client.milestones("wf-1")) as milestones:
            desk.deployment.put(topic, desk.deployment.codec.encode(command, topic), key=b"wf-1", headers=sent)
            desk.deployment.settle()
            return milestones.answer_to(fields["id"], timeout_s=5)

    with pytest.raises(RefusedByEvaluator, match=f"it runs program {FIRST_VERSION[:12]}"):
        again({}, id="s-1")
    used = again({IF_EXISTS_HEADER: "use"}, id="s-2")
    assert (used.kind, used.status) == ("command.repeated", "RUNNING")
    assert again({IF_EXISTS_HEADER: "use"}, id="s-3", subject=THIRD).kind == "command.repeated"
    with pytest.raises(RefusedByEvaluator) as refused:
        again({IF_EXISTS_HEADER: "refuse"}, id="s-4")
    assert refused.value.reason.type == "IdInUse"
    with pytest.raises(RefusedByEvaluator) as unknown:
        again({IF_EXISTS_HEADER: "maybe"}, id="s-5")
    assert unknown.value.reason.type == "IfExistsUnknown"
    row = desk.deployment.workflow("wf-1")
    assert (row.program, row.revision) == (FIRST_VERSION, row.revision)
    desk.finish()
    ended = again({IF_EXISTS_HEADER: "use"}, id="s-6")
    assert (ended.status, ended.outputs) == (COMPLETED, {"answers": [FIRST, SECOND, FIRST]})


def test_a_start_by_the_client_says_it_and_a_new_id_is_started_either_way(desk: Desk) -> None:
    client = desk.deployment.client
    for workflow_id, if_exists in (("wf-2", "use"), ("wf-3", "refuse"), ("wf-2", "use"), ("wf-3", "refuse")):
        client.start(REPORT, {"subject": FIRST}, workflow_id=workflow_id, if_exists=if_exists)
    desk.deployment.settle()

    assert {desk.deployment.workflow(each).status for each in ("wf-2", "wf-3")} == {PAUSED}
    assert [reason for reason, _ in desk.letters()] == ["IdInUse"]
    with pytest.raises(ValueError, match="maybe"):
        client.start(REPORT, {"subject": FIRST}, if_exists="maybe")
