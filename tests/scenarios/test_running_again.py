"""Retry, re-run and reset as commands: through the loop, twice, with crashes anywhere, and among other records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, PAUSED
from afl.engine.states import EventState
from afl_stream.embedded.transport import Crash
from afl_stream.wire.messages import (
    FailureReason,
    Message,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StepContinue,
    StepFailed,
)
from tests.worlds.deployment import unique_ids
from tests.worlds.desk import ASK, DESK, FIRST, SECOND, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EVERY_STORE_AND_KAFKA, KAFKA, MONGO, SQLITE, STANDALONE_MONGO, Crashing, with_values

WORLDS = EVERY_STORE_AND_KAFKA


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world.deployment(DESK))


def test_a_retry_sends_the_event_again_and_the_run_ends_as_if_nothing_had_failed(desk: Desk) -> None:
    desk.start()
    desk.fail(FIRST)
    desk.answer(desk.step(SECOND).id, SECOND)
    assert desk.deployment.workflow("wf-1").status == ERROR
    step = desk.step(FIRST)

    desk.send(RetryStep(workflow_id="wf-1", step_id=step.id, reason="the line is back"))

    assert desk.deployment.workflow("wf-1").status == PAUSED
    assert (desk.step(FIRST).attempt, desk.step(FIRST).event_state) == (2, EventState.CREATED)
    desk.answer(step.id, THIRD, attempt=1)
    assert desk.step(FIRST).event_state == EventState.CREATED
    desk.answer(step.id, THIRD, event_id=f"{step.id}#2")
    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == {"answers": [THIRD, SECOND, THIRD]}
    ended = [*("workflow.started", "workflow.error", "workflow.retried", "answer.superseded"), "workflow.completed"]
    assert desk.told() == ended
    assert [event.attempt for event in desk.deployment.events(ASK) if event.step_id == step.id] == [1, 2]


def test_a_retry_without_a_step_does_all_that_failed_again_and_lets_a_cancelled_run_continue(desk: Desk) -> None:
    desk.start()
    desk.cancel("not now")
    assert desk.deployment.workflow("wf-1").status == CANCELLED

    desk.retry()

    assert {desk.step(question).attempt for question in (FIRST, SECOND)} == {2}
    desk.finish()
    assert desk.deployment.workflow("wf-1").status == COMPLETED


def test_a_rerun_asks_for_what_depends_on_the_step_and_older_answers_are_superseded(desk: Desk) -> None:
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    old, other = desk.step(THIRD), desk.step(SECOND)
    first = desk.step(FIRST)

    desk.send(RerunStep(workflow_id="wf-1", step_id=first.id))

    assert desk.step(FIRST).id != first.id
    assert desk.step(FIRST).attempt == 2
    assert desk.step(SECOND) == other
    desk.answer(old.id, "to nobody")
    desk.answer(first.id, "to nobody", attempt=1)
    assert desk.told()[1:] == ["workflow.rerun", "answer.superseded", "answer.superseded"]
    desk.answer(desk.step(FIRST).id, "again")
    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == {"answers": ["again", SECOND, "again"]}
    (event,) = [event for event in desk.deployment.events(ASK) if event.step_id == desk.step(FIRST).id]
    assert (event.attempt, event.execution_id) == (2, "wf-1/2")


def test_a_reset_begins_again_with_the_same_inputs(desk: Desk) -> None:
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    desk.finish()
    assert desk.deployment.workflow("wf-1").status == COMPLETED

    desk.reset("all of it")

    row = desk.deployment.workflow("wf-1")
    assert (row.status, row.execution, row.outputs) == (PAUSED, 2, None)
    assert {desk.step(question).attempt for question in (FIRST, SECOND)} == {2}
    desk.answer(desk.step(FIRST).id, THIRD)
    desk.finish()
    assert desk.deployment.workflow("wf-1").outputs == {"answers": [THIRD, SECOND, THIRD]}
    assert desk.told() == ["workflow.started", "workflow.completed", "workflow.reset", "workflow.completed"]


def commands(step_id: str, command_id: str | None) -> dict[str, Message]:
    return {
        "retry": RetryStep(workflow_id="wf-1", step_id=step_id, command_id=command_id),
        "rerun": RerunStep(workflow_id="wf-1", step_id=step_id, command_id=command_id),
        "reset": ResetWorkflow(workflow_id="wf-1", command_id=command_id),
    }


@pytest.mark.parametrize("kind", ["retry", "rerun", "reset"])
@pytest.mark.parametrize("together", [True, False])
def test_the_same_command_twice_is_done_once(desk: Desk, kind: str, together: bool) -> None:
    desk.start()
    desk.fail(FIRST)
    command = commands(desk.step(FIRST).id, "c-1")[kind]

    desk.deployment.send(command)
    if not together:
        desk.deployment.settle()
        desk.fail(FIRST)
    desk.send(command)
    desk.send(command)

    row = desk.deployment.workflow("wf-1")
    assert row.execution == (1 if kind == "retry" else 2)
    assert desk.step(FIRST).attempt == 2
    assert desk.deployment.outcomes()["duplicate"] == 2
    assert desk.letters() == []


def test_commands_without_an_id_are_carried_out_each_time(desk: Desk) -> None:
    desk.start()

    for _ in range(2):
        desk.send(ResetWorkflow(workflow_id="wf-1"))

    assert desk.deployment.workflow("wf-1").execution == 3
    assert desk.step(FIRST).attempt == 3


def test_a_command_among_other_records_of_its_workflow_takes_its_place_in_their_order(desk: Desk) -> None:
    desk.start()
    first, second = desk.step(FIRST).id, desk.step(SECOND).id
    control = desk.deployment.topology.control()
    failed = StepFailed(step_id=first, error=FailureReason(type="Busy", message="not today"))
    for answer in (failed, StepContinue(step_id=second, result={"answer": SECOND})):
        desk.deployment.put(control, desk.deployment.codec.encode(answer, control), key=b"wf-1")
    other = Desk.start(desk, "wf-2")

    desk.send(RetryStep(workflow_id="wf-1"))

    assert desk.deployment.workflow(other).status == PAUSED
    assert (desk.step(FIRST).attempt, desk.step(FIRST).event_state) == (2, EventState.CREATED)


@pytest.mark.parametrize(
    ("command", "reason", "text"),
    [
        (lambda step: RetryStep(workflow_id="wf-1", step_id=step), "StepNotFailed", "has not failed: it is at state"),
        (lambda _: RetryStep(workflow_id="wf-1"), "StepNotFailed", "wf-1"),
        (lambda step: RerunStep(workflow_id="wf-1", step_id=f"{step}00"), "UnknownStep", "not found"),
        (lambda _: ResetWorkflow(workflow_id="wf-0"), "NothingToRunAgain", "there is no workflow wf-0 to run again"),
        (lambda _: RetryStep(workflow_id="wf-0"), "NothingToRunAgain", "wf-0"),
    ],
)
def test_what_cannot_be_done_is_a_dead_letter_that_says_why_and_subscribers_are_told(
    desk: Desk, command: Callable[[str], Any], reason: str, text: str
) -> None:
    desk.start()
    before = desk.deployment.workflow("wf-1")

    desk.send(command(desk.step(FIRST).id))

    ((found, said),) = desk.letters()
    assert found == reason
    assert text in said
    assert desk.deployment.workflow("wf-1") == before
    (milestone,) = [m for n in ("wf-0", "wf-1") for m in desk.deployment.milestones(n) if m.kind == "command.refused"]
    assert milestone.error is not None
    assert milestone.error.type == reason
    assert desk.deployment.outcomes()["rejected"] == 1


def test_commands_may_be_json_with_the_type_alone_to_tell_what_they_are(desk: Desk) -> None:
    desk.start()
    desk.fail(FIRST)
    step = desk.step(FIRST).id
    topic = desk.deployment.topology.commands()

    desk.deployment.put(topic, b'{"type": "RetryStep", "workflow_id": "wf-1"}', key=b"wf-1")
    desk.deployment.settle()
    assert desk.step(FIRST).attempt == 2
    for entries in (
        {"type": "RerunStep", "workflow_id": "wf-1", "step_id": step},
        {"type": "ResetWorkflow", "workflow_id": "wf-1", "reason": "anew"},
    ):
        desk.deployment.put(topic, json.dumps(entries).encode(), key=b"wf-1")
        desk.deployment.settle()

    assert (desk.deployment.workflow("wf-1").execution, desk.step(FIRST).attempt) == (3, 4)


def test_a_step_of_another_workflow_makes_a_command_unreadable(desk: Desk) -> None:
    desk.start()
    topic = desk.deployment.topology.commands()

    desk.deployment.put(topic, b'{"type": "RerunStep", "workflow_id": "wf-2", "step_id": "wf-1:00"}', key=b"wf-2")
    desk.deployment.settle()

    ((reason, said),) = desk.letters()
    assert reason == "bad_id"
    assert "wf-1" in said


#: Where an evaluator passes while it carries a command out, and how often.
POINTS = {
    "control.read": 1,
    "control.applied": 2,
    "control.persisted": 2,
    "control.published": 2,
    "control.committed": 2,
    "store.compared": 2,
    "store.written": 2,
    "store.committed": 2,
    "outbox.published": 1,
}
CRASHES = [Crashing(point, n) for point, most in POINTS.items() for n in range(most)]


def is_quick_on_servers(crash: object) -> bool:
    return crash == Crashing("control.persisted", 0)


@pytest.mark.parametrize("kind", ["retry", "rerun", "reset"])
@pytest.mark.parametrize(
    ("world", "crash"),
    [
        *with_values(SQLITE, CRASHES),
        *with_values(MONGO, [crash for crash in CRASHES if crash.point != "store.compared"], is_quick_on_servers),
        *with_values(STANDALONE_MONGO, CRASHES),
        *with_values(KAFKA, [crash for crash in CRASHES if not crash.passes], is_quick_on_servers),
    ],
    indirect=["world"],
    ids=str,
)
def test_a_crash_anywhere_on_a_commands_way_loses_nothing_and_has_one_effect(
    world: World, kind: str, crash: Crashing
) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    desk.start()
    desk.fail(FIRST)
    desk.answer(desk.step(SECOND).id, SECOND)
    assert deployment.workflow("wf-1").status == ERROR
    command = commands(desk.step(FIRST).id, None)[kind]
    desk.evaluator.faults.fail_at(crash.point, passes=crash.passes)

    desk.deployment.send(command)
    with pytest.raises(Crash, match=crash.point):
        deployment.settle()
    deployment.crash_and_restart()
    desk = Desk(deployment)

    row = deployment.workflow("wf-1")
    assert (row.status, row.execution) == (PAUSED, 1 if kind == "retry" else 2)
    assert desk.step(FIRST).attempt == 2
    desk.answer(desk.step(FIRST).id, THIRD)
    desk.finish()
    assert deployment.workflow("wf-1").outputs == {"answers": [THIRD, SECOND, THIRD]}
    asked = unique_ids(deployment.records(deployment.topology.facet(ASK)))
    assert len(asked) == (5 if kind == "reset" else 4)
    assert desk.letters() == []
