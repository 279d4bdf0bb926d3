"""The answers to commands on the lifecycle topic: the sender learns the outcome without the store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import CANCELLED, COMPLETED, PAUSED
from afl_stream.client.client import Client, NotAnswered, RefusedByEvaluator
from afl_stream.commands.following import RunFollower
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.unanswered import described_lines
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.headers import COMMAND_HEADER, headers_for
from afl_stream.wire.messages import (
    CancelWorkflow,
    Command,
    DescribeWorkflow,
    FailureReason,
    Lifecycle,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    workflow_of,
)
from tests.scenarios.command_lines import CommandLine
from tests.worlds.deployment import program_of
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, in_worlds

_STEP = "wf-1:5f3a"


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world.deployment(DESK))


def answer_to(desk: Desk, command: Command) -> Lifecycle:
    """Return the evaluator's answer to a command that is sent now. Raises RefusedByEvaluator."""
    with closing(desk.deployment.client.milestones(command.workflow_id)) as milestones:
        desk.send(command)
        return milestones.answer_to(command.command_id or "", timeout_s=5)


def refusal_of(desk: Desk, command: Command) -> FailureReason:
    with pytest.raises(RefusedByEvaluator) as refused:
        answer_to(desk, command)
    return refused.value.reason


def start_of(workflow_id: str = "wf-1", workflow: str = REPORT, **inputs: object) -> StartWorkflow:
    return StartWorkflow(workflow_id=workflow_id, workflow=workflow, inputs=inputs, command_id="c-1")


# --- refused ----------------------------------------------------------------------------------------------------


def test_a_start_whose_id_another_run_has_is_told_which_inputs_differ(desk: Desk) -> None:
    desk.start()

    refused = refusal_of(desk, start_of(subject="another", extra=3))

    assert refused.type == "AlreadyExists"
    assert 'input subject is "first", not "another"' in refused.message
    assert "input extra is left out, not 3" in refused.message
    assert desk.deployment.workflow("wf-1").inputs == {"subject": FIRST}


def test_values_that_differ_are_cut_and_secrets_among_them_masked(desk: Desk) -> None:
    desk.start()

    refused = refusal_of(desk, start_of(subject="x" * 5_000, password="hunter2-hunter2"))

    assert len(refused.message) < 400
    assert "password is left out, not ********" in refused.message
    assert "hunter2" not in refused.message


def test_a_start_of_another_program_under_the_id_is_refused_and_so_is_another_workflow(desk: Desk) -> None:
    desk.start()
    newer = program_of(DESK.replace('"second"', '"another second"'))
    desk.deployment.client.deploy(newer)
    other = StartWorkflow(
        workflow_id="wf-1", workflow=REPORT, program=newer.fingerprint, inputs={"subject": FIRST}, command_id="c-1"
    )

    program, workflow = refusal_of(desk, other), refusal_of(desk, start_of(workflow="desk.Other", subject=FIRST))

    assert (program.type, workflow.type) == ("AlreadyExists", "AlreadyExists")
    assert f"not {newer.fingerprint[:12]}" in program.message
    assert "it runs desk.Report, not desk.Other" in workflow.message


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (start_of("wf-2", "desk.Reprot"), "UnknownProgram"),
        (start_of("wf-2"), "MissingInput"),
        (start_of("wf-2", subject="x" * 200_000), "ValueTooLarge"),
        (CancelWorkflow(workflow_id="wf-2", command_id="c-1"), "NothingToCancel"),
        (RetryStep(workflow_id="wf-2", command_id="c-1"), "NothingToRunAgain"),
        (RetryStep(workflow_id="wf-1", step_id=_STEP, command_id="c-1"), "UnknownStep"),
        (RerunStep(workflow_id="wf-1", step_id=_STEP, command_id="c-1"), "UnknownStep"),
        (ResetWorkflow(workflow_id="wf-2", command_id="c-1"), "NothingToRunAgain"),
        (DescribeWorkflow(workflow_id="wf-2", command_id="c-1"), "NothingToDescribe"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_refusal_reaches_the_one_who_asked(world: World, command: Command, reason: str) -> None:
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(max_value_bytes=100_000)))
    desk.start()

    assert refusal_of(desk, command).type == reason


def test_a_cancel_of_a_run_that_has_ended_is_refused_and_no_dead_letter(desk: Desk) -> None:
    desk.start()
    desk.finish()

    refused = refusal_of(desk, CancelWorkflow(workflow_id="wf-1", command_id="c-1"))

    assert refused.type == "AlreadyEnded"
    assert "it is COMPLETED" in refused.message
    assert desk.deployment.dead_letters(desk.deployment.topology.commands()) == []


def test_a_refused_command_that_comes_twice_is_refused_twice_and_changes_nothing(desk: Desk) -> None:
    desk.start()
    before = desk.deployment.workflow("wf-1")
    command = start_of(subject="another")

    first, second = refusal_of(desk, command), refusal_of(desk, command)

    assert first == second
    assert desk.deployment.workflow("wf-1") == before


# --- carried out, or there already ------------------------------------------------------------------------------


def test_every_command_that_is_carried_out_has_an_answer_with_its_id(desk: Desk) -> None:
    kinds = [answer_to(desk, start_of(subject=FIRST)).kind]
    desk.deployment.client.fail_step(desk.step(FIRST).id, "no answer")
    desk.deployment.settle()
    kinds.append(answer_to(desk, RetryStep(workflow_id="wf-1", command_id="c-2")).kind)
    kinds.append(answer_to(desk, RerunStep(workflow_id="wf-1", step_id=desk.step(FIRST).id, command_id="c-3")).kind)
    kinds.append(answer_to(desk, ResetWorkflow(workflow_id="wf-1", command_id="c-4")).kind)
    kinds.append(answer_to(desk, CancelWorkflow(workflow_id="wf-1", command_id="c-5")).kind)

    assert kinds == [
        "workflow.started",
        "workflow.retried",
        "workflow.rerun",
        "workflow.reset",
        "command.applied",
    ]
    assert desk.deployment.workflow("wf-1").status == CANCELLED


def test_the_same_start_of_a_run_that_has_ended_is_answered_with_how_it_ended(desk: Desk) -> None:
    desk.start()
    running = answer_to(desk, start_of(subject=FIRST))
    desk.finish()
    ended = answer_to(desk, start_of(subject=FIRST))

    assert (running.kind, running.status, running.outputs) == ("command.repeated", "RUNNING", None)
    assert (ended.kind, ended.status) == ("command.repeated", COMPLETED)
    assert ended.outputs == desk.deployment.workflow("wf-1").outputs


def test_a_command_that_was_carried_out_is_not_again(desk: Desk) -> None:
    desk.start()
    cancel, reset = (
        CancelWorkflow(workflow_id="wf-1", command_id="c"),
        ResetWorkflow(workflow_id="wf-1", command_id="r"),
    )
    kinds = [answer_to(desk, command).kind for command in (cancel, cancel, reset, reset)]

    assert kinds == ["command.applied", "command.repeated", "workflow.reset", "command.repeated"]
    assert desk.deployment.workflow("wf-1").execution == 2


def test_a_start_that_nobody_listens_for_costs_no_answer(desk: Desk) -> None:
    desk.start()
    desk.start()

    assert [milestone.kind for milestone in desk.deployment.milestones("wf-1")] == ["workflow.started"]


def test_a_run_is_described_by_what_it_waits_for(desk: Desk) -> None:
    desk.start()
    (sent_at_ms,) = {step.created_at_ms for step in desk.deployment.steps("wf-1") if step.facet_name == ASK}

    answer = answer_to(desk, DescribeWorkflow(workflow_id="wf-1", command_id="c-1"))

    assert (answer.kind, answer.status, answer.workflow) == ("workflow.described", PAUSED, REPORT)
    assert answer.outputs is not None
    assert answer.outputs["waiting_count"] == 2
    waiting = answer.outputs["waiting"]
    assert isinstance(waiting, list)
    first = {"step_id": desk.step(FIRST).id, "facet": ASK, "attempt": 1, "since_ms": sent_at_ms}
    assert waiting[0] == first
    assert desk.deployment.workflow("wf-1").status == PAUSED


@pytest.mark.parametrize(("status", "shown"), [(PAUSED, "WAITING"), (COMPLETED, COMPLETED), (None, "at work")])
def test_how_a_run_stands_is_told_by_the_name_that_people_see(status: str | None, shown: str) -> None:
    reported = milestone("workflow.described", "c-1", status, outputs={"waiting": [], "waiting_count": 0})

    assert described_lines(Invocation(), reported) == [f"no event of it waits for an answer: it is {shown}"]


# On Kafka a start and what follows it may come in two batches.
@in_worlds(EMBEDDED)
def test_a_run_is_described_in_the_batch_that_starts_it(desk: Desk) -> None:
    with closing(desk.deployment.client.milestones("wf-1")) as milestones:
        desk.deployment.send(StartWorkflow(workflow_id="wf-1", workflow=REPORT, inputs={"subject": FIRST}))
        desk.send(DescribeWorkflow(workflow_id="wf-1", command_id="c-1"))
        answer = milestones.answer_to("c-1", timeout_s=5)

    assert (answer.kind, answer.status, answer.workflow) == ("workflow.described", "RUNNING", REPORT)
    assert answer.outputs == {"waiting": [], "waiting_count": 0}


def test_without_an_evaluator_a_command_is_not_answered_and_stays(world: World) -> None:
    deployment = world.deployment(DESK)
    client = deployment.client

    with pytest.raises(NotAnswered, match=r"StartWorkflow of wf-1 has not come in 0\.1 s"):
        client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1", answer_timeout_s=0.1)
    desk = Desk(deployment)

    assert desk.deployment.workflow("wf-1").status == PAUSED


# --- answers by hand --------------------------------------------------------------------------------------------


def reply_to(desk: Desk, answer: StepContinue) -> Lifecycle:
    """Return the evaluator's reply to an answer that a person gives. Raises RefusedByEvaluator."""
    deployment = desk.deployment
    topic, workflow_id = deployment.topology.control(), workflow_of(answer.step_id)
    headers = (*headers_for(answer, source="/tests"), (COMMAND_HEADER, b"c-1"))
    with closing(deployment.client.milestones(workflow_id)) as milestones:
        deployment.put(topic, deployment.codec.encode(answer, topic), key=workflow_id.encode(), headers=headers)
        deployment.settle()
        return milestones.answer_to("c-1", timeout_s=5)


def test_an_answer_by_hand_is_told_what_became_of_it(desk: Desk) -> None:
    desk.start()
    answer = StepContinue(step_id=desk.step(FIRST).id, result={"answer": "a"})

    applied = reply_to(desk, answer)
    with pytest.raises(RefusedByEvaluator, match="is duplicate: this attempt has been answered"):
        reply_to(desk, answer)
    parked = reply_to(desk, StepContinue(step_id="wf-7:5f3a", result={}))
    desk.finish()
    with pytest.raises(RefusedByEvaluator, match="is late: the workflow has ended") as late:
        reply_to(desk, StepContinue(step_id="wf-1:5f3a", result={}))

    assert (applied.kind, applied.step_id, parked.kind) == ("command.applied", answer.step_id, "answer.parked")
    assert late.value.reason.type == "AnswerNotTaken"


def test_an_agents_answer_is_told_nothing(desk: Desk) -> None:
    desk.start()

    desk.answer(desk.step(FIRST).id, "a", group="workers")

    assert [milestone.kind for milestone in desk.deployment.milestones("wf-1")] == ["workflow.started"]


# --- following a run --------------------------------------------------------------------------------------------


def milestone(kind: str, command_id: str | None = None, status: str | None = None, **fields: object) -> Lifecycle:
    return Lifecycle(workflow_id="wf-1", kind=kind, at=1, command_id=command_id, status=status, **fields)  # type: ignore[arg-type]


def test_an_end_that_is_told_before_the_answer_is_not_taken_for_that_of_a_refused_start() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)
    error = FailureReason(type="AlreadyExists", message="it exists")

    before = follower.take(milestone("workflow.completed", outputs={"n": 1}))
    others = follower.take(milestone("command.refused", "c-of-another", error=error))
    refused = follower.take(milestone("command.refused", "c-1", error=error))

    assert (before, others) == (None, None)
    assert refused is not None
    assert refused.rejected == error


def test_an_end_that_is_told_before_the_answer_counts_once_the_answer_says_that_it_is_the_run() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)

    assert follower.take(milestone("workflow.completed", outputs={"n": 1})) is None
    ending = follower.take(milestone("command.repeated", "c-1", "RUNNING"))

    assert ending is not None
    assert ending.row is not None
    assert ending.row.outputs == {"n": 1}


def test_an_end_before_a_retry_is_none() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)

    taken = [
        follower.take(reported)
        for reported in (
            milestone("workflow.error", error=FailureReason(type="E", message="")),
            milestone("workflow.retried", "c-0"),
            milestone("command.repeated", "c-1", "RUNNING"),
            milestone("workflow.completed", outputs={}),
        )
    ]

    assert taken[:3] == [None] * 3
    assert taken[3] is not None
    assert taken[3].is_ended


def test_of_an_id_that_was_drawn_an_evaluator_without_answers_is_believed() -> None:
    ending = RunFollower("wf-1", "c-1", is_drawn=True).take(milestone("workflow.completed", outputs={}))

    assert ending is not None
    assert ending.is_ended


def test_a_start_of_a_chosen_id_by_an_evaluator_without_answers_is_the_answer() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)

    started = follower.take(milestone("workflow.started", workflow=REPORT))
    ending = follower.take(milestone("workflow.completed", outputs={"n": 1}))

    assert started is None
    assert ending is not None
    assert ending.row is not None
    assert ending.row.outputs == {"n": 1}


def test_a_start_that_answers_another_command_is_not_the_answer() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)

    taken = [
        follower.take(reported)
        for reported in (
            milestone("workflow.started", "c-of-another"),
            milestone("workflow.completed", outputs={"n": 1}),
        )
    ]

    assert taken == [None, None]


def test_the_end_of_an_earlier_run_is_not_that_of_the_one_that_such_an_evaluator_starts() -> None:
    follower = RunFollower("wf-1", "c-1", is_drawn=False)

    taken = [follower.take(milestone(kind)) for kind in ("workflow.completed", "workflow.started")]

    assert taken == [None, None]


# --- the command line, in one process ---------------------------------------------------------------------------


def test_a_start_behind_another_of_its_id_ends_with_2_and_not_with_the_others_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(tmp_path, capsys).deployed()
    wait = ("--wait", "--handlers", run.handlers)
    # No evaluator has run: no store knows of the first one yet.
    assert run("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1").code == 0

    other = run("start", "Watch", "--input", 'hosts=["bb"]', "--id", "w1", *wait)
    as_json = run("start", "Watch", "--input", 'hosts=["bb"]', "--id", "w1", *wait, "--json")
    same = run("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1", *wait)

    assert (other.code, as_json.code, same.code) == (2, 2, 0)
    assert "workflow w1 exists" in other.err
    assert 'input hosts is ["a"], not ["bb"]' in other.err
    assert "times" not in other.out
    assert as_json.document["error"]["type"] == "AlreadyExists"
    assert "times = [1]" in same.out


def test_a_client_whose_deployment_answers_returns_at_once(desk: Desk) -> None:
    # The answer to a command is found among others' milestones, which are of the same partition.
    command = start_of(subject=FIRST)
    client: Client = desk.deployment.client
    with closing(client.milestones()) as milestones:
        desk.start("wf-2")
        desk.send(command)
        desk.finish("wf-2")

        assert milestones.answer_to("c-1", timeout_s=5).workflow_id == "wf-1"
