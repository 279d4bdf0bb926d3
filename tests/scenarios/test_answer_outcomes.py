"""The outcomes of answers and commands: one outcome after the other, in the order of the outcomes' table."""

import pytest

from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, PAUSED
from afl.engine.states import EventState, StepState
from afl_stream.client.client import AttemptNeeded
from afl_stream.evaluator.outcomes import ANSWER_RULES, Outcome
from afl_stream.settings.answer_tokens import AnswerTokens, answer_tokens
from afl_stream.settings.config import AnswerSettings, EvaluatorSettings
from afl_stream.wire.messages import (
    CancelWorkflow,
    ExternalEvent,
    FailureReason,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
)
from tests.record_headers import headers_of
from tests.worlds.deployment import program_of
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, SECOND, THIRD, Desk, ask_again, step_id_of
from tests.worlds.world import World
from tests.worlds.worlds import EVERY_STORE_AND_KAFKA

WORLDS = EVERY_STORE_AND_KAFKA


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world.deployment(DESK))


def reason_of_only(desk: Desk, topic: str) -> tuple[str, str]:
    """Why the only dead letter of a topic is one: the reason, and the text for people."""
    (letter,) = desk.deployment.dead_letters(topic)
    headers = headers_of(letter)
    return headers["afl.dlq.reason"].decode(), headers["afl.dlq.error"].decode()


def test_applied_moves_the_step_on_and_what_waited_for_it(desk: Desk) -> None:
    desk.start()

    desk.answer(desk.step(FIRST).id, THIRD)

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert desk.step(FIRST).state == StepState.STATEMENT_COMPLETE
    assert desk.step(THIRD).event_state == EventState.CREATED
    assert desk.deployment.outcomes() == {"applied": 2}


def test_applied_also_to_an_answer_of_which_only_step_and_result_are_known(desk: Desk) -> None:
    desk.start()
    step_id = desk.step(FIRST).id

    answer = f'{{"step_id": "{step_id}", "result": {{"answer": "yes"}}}}'
    desk.deployment.put(desk.deployment.topology.control(), answer.encode())
    desk.deployment.settle()

    assert desk.step(FIRST).state == StepState.STATEMENT_COMPLETE


def test_applied_updates_show_in_the_step_which_continues_waiting(desk: Desk) -> None:
    desk.start()
    step = desk.step(FIRST)

    desk.send(StepUpdate(step_id=step.id, partial={"length": 3}))
    assert desk.step(FIRST).returns == {"length": 3}
    assert (desk.step(FIRST).state, desk.step(FIRST).event_state) == (step.state, EventState.PROCESSING)

    desk.answer(step.id, THIRD)
    assert desk.step(FIRST).returns == {"length": 3, "answer": THIRD}


def test_applied_failures_fail_the_run_by_their_own_words(desk: Desk) -> None:
    desk.start()

    desk.send(StepFailed(step_id=desk.step(FIRST).id, error=FailureReason(type="Busy", message="not today")))
    desk.answer(desk.step(SECOND).id, "late, but asked")

    row = desk.deployment.workflow("wf-1")
    assert row.status == ERROR
    assert row.error is not None
    assert (row.error.type, row.error.message, row.error.facet) == ("Busy", "not today", ASK)


def test_applied_cancellations_end_the_workflow_at_once(desk: Desk) -> None:
    desk.start()

    desk.send(CancelWorkflow(workflow_id="wf-1", reason="enough"))

    assert desk.deployment.workflow("wf-1").status == CANCELLED
    assert desk.told() == ["workflow.started", "workflow.cancelled"]


def test_duplicate_answers_do_nothing_the_first_one_wins(desk: Desk) -> None:
    desk.start()
    step_id = desk.step(FIRST).id
    desk.answer(step_id, THIRD)
    before = desk.deployment.workflow("wf-1").revision

    desk.answer(step_id, "too late")
    desk.answer(step_id, "too late", event_id=f"{step_id}#1", attempt=1)
    desk.send(StepFailed(step_id=step_id, error=FailureReason(type="Busy", message="too late")))

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert desk.deployment.workflow("wf-1").revision == before
    assert desk.deployment.outcomes() == {"applied": 2, "duplicate": 3}
    assert desk.told() == ["workflow.started"]
    assert desk.deployment.dead_letters(desk.deployment.topology.control()) == []


def test_duplicate_starts_do_nothing(desk: Desk) -> None:
    desk.start()
    desk.start()

    assert desk.deployment.outcomes() == {"applied": 1, "duplicate": 1}
    assert len(desk.deployment.events(ASK)) == 2


def test_superseded_answers_are_recorded_and_the_current_attempt_continues_waiting(desk: Desk) -> None:
    desk.start()
    step = desk.step(SECOND)
    ask_again(desk.deployment, step)

    desk.answer(step.id, "of the first attempt", attempt=1)
    assert desk.step(SECOND).state == StepState.EVENT_TRANSMIT
    assert desk.told() == ["workflow.started", "answer.superseded"]

    desk.answer(step.id, "of the second", event_id=f"{step.id}#2")
    assert desk.step(SECOND).returns == {"answer": "of the second"}
    assert desk.deployment.outcomes() == {"applied": 2, "superseded": 1}


def test_late_answers_are_recorded(desk: Desk) -> None:
    desk.start()
    step = desk.step(FIRST)
    desk.send(CancelWorkflow(workflow_id="wf-1"))

    desk.answer(step.id, THIRD)
    desk.send(CancelWorkflow(workflow_id="wf-1"))

    assert desk.step(FIRST).returns == {}
    assert desk.told() == ["workflow.started", "workflow.cancelled", "answer.late"]
    assert desk.deployment.outcomes() == {"applied": 2, "late": 2}


def test_early_answers_are_parked_and_applied_when_their_step_asks(desk: Desk) -> None:
    desk.start()
    desk.answer(step_id_of(THIRD, "wf-1"), "known before it was asked")
    assert desk.deployment.outcomes() == {"applied": 1, "early": 1}
    assert len(desk.deployment.store.parked()) == 1

    desk.answer(desk.step(FIRST).id, THIRD)
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()

    assert desk.step(THIRD).returns == {"answer": "known before it was asked"}
    assert desk.deployment.store.parked() == []


def test_unknown_workflows_answers_are_parked_and_applied_when_it_is_started(desk: Desk) -> None:
    desk.answer(step_id_of(SECOND, "wf-1"), "known before it was asked")
    assert desk.deployment.outcomes() == {"unknown": 1}

    desk.start()
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()

    assert desk.step(SECOND).returns == {"answer": "known before it was asked"}
    assert desk.deployment.store.parked() == []


def test_unknown_answers_are_dead_lettered_when_they_expire(world: World) -> None:
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(parked_answer_expiry_ms=60_000)))
    desk.answer("wf-never:abc", "to nobody")
    desk.deployment.clock.advance(59_000)
    desk.deployment.settle()
    assert desk.deployment.dead_letters(desk.deployment.topology.control()) == []

    desk.deployment.clock.advance(2_000)
    desk.deployment.settle()

    reason, text = reason_of_only(desk, desk.deployment.topology.control())
    assert reason == "AnswerExpired"
    assert "wf-never:abc" in text
    assert desk.deployment.store.parked() == []


def test_surplus_answers_are_dead_lettered_when_so_many_of_their_workflow_are_parked(world: World) -> None:
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(max_parked_per_workflow=2)))
    for number in range(4):
        desk.answer("wf-1:0f", str(number))
    desk.answer("wf-2:0f", "of another run")

    assert len(desk.deployment.store.parked(workflow_id="wf-1")) == 2
    assert len(desk.deployment.store.parked(workflow_id="wf-2")) == 1
    assert desk.deployment.outcomes() == {"unknown": 3, "surplus": 2}
    letters = [headers_of(letter) for letter in desk.deployment.dead_letters(desk.deployment.topology.control())]
    assert [letter["afl.dlq.reason"] for letter in letters] == [b"TooManyParked"] * 2
    assert all(b"max_parked_per_workflow = 2" in letter["afl.dlq.error"] for letter in letters)


def test_surplus_answers_are_dead_lettered_when_so_many_are_parked_in_all(world: World) -> None:
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(max_parked_answers=3)))
    for number in range(5):
        desk.answer(f"wf-{number}:0f", "of nobody")

    assert len(desk.deployment.store.parked()) == 3
    assert desk.deployment.outcomes() == {"unknown": 3, "surplus": 2}


def test_surplus_answers_are_dead_lettered_when_the_parked_ones_take_so_many_bytes(world: World) -> None:
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(max_parked_bytes=10_000)))
    for number in range(3):
        desk.answer(f"wf-{number}:0f", "x" * 4_000)

    assert len(desk.deployment.store.parked()) == 2
    assert desk.deployment.outcomes() == {"unknown": 2, "surplus": 1}


def test_surplus_answers_have_room_again_when_the_parked_ones_have_expired(world: World) -> None:
    settings = EvaluatorSettings(max_parked_answers=1, parked_answer_expiry_ms=60_000)
    desk = Desk(world.deployment(DESK, evaluator=settings))
    desk.answer("wf-1:0f", "of nobody")
    desk.deployment.clock.advance(61_000)
    desk.deployment.settle()

    desk.answer("wf-2:0f", "of nobody either")

    assert desk.deployment.outcomes() == {"unknown": 2}
    assert [parked.workflow_id for parked in desk.deployment.store.parked()] == ["wf-2"]


def test_early_answers_that_have_expired_are_applied_if_their_step_asks_by_now(world: World) -> None:
    # The evaluators were away when the time was up: what can be applied is not given up.
    desk = Desk(world.deployment(DESK, evaluator=EvaluatorSettings(parked_answer_expiry_ms=60_000)))
    desk.answer(step_id_of(SECOND, "wf-1"), "known before it was asked")
    desk.start()
    desk.deployment.remove(desk.evaluator, killed=True)
    desk.deployment.clock.advance(61_000)
    assert desk.step(SECOND).returns == {}

    desk.deployment.evaluator()
    desk.deployment.settle()

    assert desk.step(SECOND).returns == {"answer": "known before it was asked"}
    assert desk.deployment.dead_letters(desk.deployment.topology.control()) == []


def test_refused_answers_without_the_right_token_are_dead_lettered(world: World) -> None:
    desk = Desk(world.deployment(DESK, answers=AnswerSettings(token_secret="secret", token_key_id="k1")))
    desk.start()
    step_id = desk.step(FIRST).id
    (token,) = [event.answer_token for event in desk.deployment.events(ASK) if event.step_id == step_id]
    forged = AnswerTokens("k1", {"k1": "guessed"}).token_for(f"{step_id}#1", 1)

    for wrong in (None, "", "k1.", forged, "k2." + (token or "").partition(".")[2]):
        desk.answer(step_id, "not asked", answer_token=wrong)
    assert desk.step(FIRST).returns == {}
    desk.answer(step_id, THIRD, answer_token=token)

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert desk.deployment.outcomes() == {"applied": 2, "refused": 5}
    letters = desk.deployment.dead_letters(desk.deployment.topology.control())
    assert {headers_of(letter)["afl.dlq.reason"] for letter in letters} == {b"AnswerRefused"}


def test_refused_answers_that_replay_a_token_of_another_step_or_attempt_are_dead_lettered(world: World) -> None:
    desk = Desk(world.deployment(DESK, answers=AnswerSettings(token_secret="secret", token_key_id="k1")))
    desk.start()
    first, second = desk.step(FIRST), desk.step(SECOND)
    tokens = {event.step_id: event.answer_token for event in desk.deployment.events(ASK)}

    desk.answer(second.id, "of another step", answer_token=tokens[first.id])
    ask_again(desk.deployment, first)
    desk.answer(first.id, "of an earlier attempt", attempt=2, answer_token=tokens[first.id])
    desk.answer(second.id, "asked", answer_token=tokens[second.id])
    desk.answer(second.id, "replayed as it was", answer_token=tokens[second.id])

    assert desk.step(FIRST).returns == {}
    assert desk.step(SECOND).returns == {"answer": "asked"}
    assert desk.deployment.outcomes() == {"applied": 2, "refused": 2, "duplicate": 1}
    letters = desk.deployment.dead_letters(desk.deployment.topology.control())
    assert [headers_of(letter)["afl.dlq.reason"] for letter in letters] == [b"AnswerRefused"] * 2


def test_unreadable_records_are_dead_lettered(desk: Desk) -> None:
    desk.deployment.put(desk.deployment.topology.control(), b"junk", key=b"wf-1")
    desk.deployment.settle()

    assert reason_of_only(desk, desk.deployment.topology.control())[0] == "bad_magic"
    assert desk.deployment.outcomes() == {"unreadable": 1}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (StartWorkflow(workflow_id="wf-1", workflow=REPORT, inputs={"subject": "other"}), "AlreadyExists"),
        (StartWorkflow(workflow_id="wf-1", workflow="desk.Other", inputs={"subject": FIRST}), "AlreadyExists"),
        (StartWorkflow(workflow_id="wf-2", workflow="desk.Reprot"), "UnknownProgram"),
        (StartWorkflow(workflow_id="wf-2", workflow=REPORT, program="0" * 64), "UnknownProgram"),
        (StartWorkflow(workflow_id="wf-2", workflow=REPORT), "MissingInput"),
        (StartWorkflow(workflow_id="wf-2", workflow=REPORT, inputs={"subject": 3}), "InputTypeMismatch"),
        (StartWorkflow(workflow_id="wf-2", workflow=REPORT, inputs={"subject": "", "x": 1}), "UnknownInput"),
        (CancelWorkflow(workflow_id="wf-2"), "NothingToCancel"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_rejected_commands_are_dead_lettered(desk: Desk, command: StartWorkflow | CancelWorkflow, reason: str) -> None:
    desk.start()
    before = desk.deployment.workflow("wf-1")

    desk.send(command)

    found, text = reason_of_only(desk, desk.deployment.topology.commands())
    assert found == reason
    assert desk.deployment.outcomes() == {"applied": 1, "rejected": 1}
    assert desk.deployment.workflow("wf-1") == before
    assert desk.deployment.store.load_workflow("wf-2") is None
    if isinstance(command, StartWorkflow) and command.workflow_id == "wf-2":
        (milestone,) = desk.deployment.milestones("wf-2")
        assert milestone.kind == "workflow.rejected"
        assert milestone.error is not None
        assert (milestone.error.type, milestone.error.message) == (reason, text.removeprefix(f"{reason}: "))


def test_rejected_is_a_start_whose_event_facet_has_no_topic(desk: Desk) -> None:
    program = program_of(DESK.replace("desk", "attic"))
    desk.deployment.client.apply_topics([program])
    desk.deployment.client.deploy(program)
    topic = desk.deployment.topology.facet("attic.Ask")
    desk.deployment.transport.admin().delete_topic(topic)

    desk.send(StartWorkflow(workflow_id="wf-2", workflow="attic.Report", inputs={"subject": ""}))

    reason, text = reason_of_only(desk, desk.deployment.topology.commands())
    assert reason == "TopicMissing"
    assert topic in text
    assert "afl-stream topics apply" in text


def test_rejected_commands_tell_near_names(desk: Desk) -> None:
    desk.send(StartWorkflow(workflow_id="wf-2", workflow="desk.Reprot"))

    assert "desk.Report" in reason_of_only(desk, desk.deployment.topology.commands())[1]


def test_queued_is_an_external_event_that_no_step_waits_for(desk: Desk) -> None:
    desk.start()

    desk.send(ExternalEvent(workflow_id="wf-1", name="go", value=1))

    assert desk.deployment.outcomes() == {"applied": 1, "queued": 1}
    (row,) = desk.deployment.store.history("wf-1")
    assert (row.name, row.value, row.is_pending) == ("go", 1, True)


def test_a_workflow_that_met_every_outcome_still_completes(desk: Desk) -> None:
    desk.answer("wf-1:abc", "to a step that never comes")
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    desk.answer(desk.step(FIRST).id, "again")
    desk.start()
    assert desk.deployment.workflow("wf-1").status == PAUSED

    desk.finish()

    assert desk.deployment.workflow("wf-1").status == COMPLETED
    assert desk.deployment.workflow("wf-1").outputs == {"answers": [THIRD, SECOND, THIRD]}


def test_every_outcome_has_its_tests() -> None:
    tested = {name.split("_")[1] for name in globals() if name.startswith("test_")}

    # Only one of several evaluators, each with a file of its own, hands records on: test_processes_on_kafka.py.
    assert {str(outcome) for outcome in Outcome} - {"forwarded"} <= tested
    elsewhere = {Outcome.UNREADABLE, Outcome.REJECTED, Outcome.SURPLUS, Outcome.QUEUED, Outcome.FORWARDED}
    assert {rule.outcome for rule in ANSWER_RULES} | elsewhere == set(Outcome)


def test_an_answer_and_its_copy_in_one_batch_are_one_answer_and_one_duplicate(desk: Desk) -> None:
    desk.start()
    step_id = desk.step(FIRST).id
    for text in (THIRD, "copy"):
        desk.deployment.send(StepContinue(step_id=step_id, result={"answer": text}))

    desk.deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert desk.deployment.outcomes() == {"applied": 2, "duplicate": 1}


def test_two_groups_that_answer_one_facet_are_reported_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(world.deployment(DESK))
    desk.start()

    desk.answer(desk.step(FIRST).id, THIRD, group="one")
    for group in ("one", "other", "other"):
        desk.answer(desk.step(FIRST).id, THIRD, group=group)

    assert desk.deployment.outcomes() == {"applied": 2, "duplicate": 3}
    assert desk.evaluator.service.loop.stats().doubled == {(ASK, "one", "other")}
    assert [record.getMessage() for record in caplog.records if "done twice" in record.getMessage()] == [
        f"two groups answer the events of {ASK}, so all of its work is done twice: one and other"
    ]


def test_answers_to_a_key_that_was_rotated_out_are_taken_while_it_is_listed(world: World) -> None:
    desk = Desk(world.deployment(DESK, answers=AnswerSettings(token_secret="secret", token_key_id="k1")))
    desk.start()
    step_id = desk.step(FIRST).id
    (token,) = [event.answer_token for event in desk.deployment.events(ASK) if event.step_id == step_id]

    rotated = AnswerSettings(token_secret="newer", token_key_id="k2", older_secrets="k1=secret")
    tokens = answer_tokens(rotated)

    assert tokens is not None
    assert tokens.accepts(token, f"{step_id}#1", 1)
    assert not tokens.accepts(token, f"{step_id}#2", 2)


def test_a_client_of_a_deployment_with_tokens_answers_with_one(world: World) -> None:
    desk = Desk(world.deployment(DESK, answers=AnswerSettings(token_secret="secret", token_key_id="k1")))
    desk.start()
    step_id = desk.step(FIRST).id

    with pytest.raises(AttemptNeeded, match="give the attempt"):
        desk.deployment.client.continue_step(step_id, {"answer": THIRD})
    desk.deployment.client.continue_step(step_id, {"answer": THIRD}, attempt=1)
    desk.deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
