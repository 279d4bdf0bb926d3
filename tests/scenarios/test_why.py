"""What a run waits for, as `why` finds it out: each cause is made, on the embedded log and on a real broker."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest

from afl.core.clock import epoch_ms
from afl.engine.model.entities import HandlerRegistration
from afl_stream.agent.agent import Deferred, HandlerContext
from afl_stream.errors import AnswerRefused
from afl_stream.presence.records import FailedTry, Presence, encode
from afl_stream.settings.config import AnswerSettings, DispatchSettings
from afl_stream.visibility.waiting import CauseCode, UnknownRun, Wait, WaitReport, explain
from afl_stream.wire.dead_letters import dead_letter_headers
from afl_stream.wire.messages import StepContinue
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.press import PRESS, Presses, start_catalogue
from tests.worlds.world import World
from tests.worlds.worlds import KAFKA, MEMORY, in_worlds

WORLDS = (MEMORY, KAFKA)

SOURCE: Final = """namespace shop {
  event facet Charge(order: String) => (receipt: String)
  workflow Checkout(order: String) => (receipt: String) andThen {
    paid = Charge(order = $.order)
    yield Checkout(receipt = paid.receipt)
  }
  workflow Each(orders: [String]) => (receipts: [String] = []) andThen foreach o in $.orders {
    paid = Charge(order = $.o)
    yield Each(receipts = [paid.receipt])
  }
  workflow Patient() => (receipt: String) andThen {
    go = afl.WaitForEvent(name = "approval", timeout_ms = 60000)
    nap = afl.Sleep(seconds = 60)
    paid = Charge(order = "x") with afl.Timeout(seconds = 90) with afl.Retry(times = 3, delay_ms = 30000)
    yield Patient(receipt = paid.receipt)
  }
}
"""
FACET: Final = "shop.Charge"


def charge(payload: dict[str, str], _context: HandlerContext) -> dict[str, str]:
    return {"receipt": payload["order"]}


def declined(_payload: dict[str, str], _context: HandlerContext) -> dict[str, str]:
    raise ValueError("card declined")


@pytest.fixture
def deployment(world: World) -> Deployment:
    return shop_of(world)


def shop_of(world: World, **settings: object) -> Deployment:
    made = world.deployment(SOURCE, **settings)  # type: ignore[arg-type]  # settings of worlds
    # The group that `why` looks at is the facet's own.
    made.agent_group = made.config.agent_group(FACET)
    return made


def why(deployment: Deployment, workflow_id: str = "w1") -> WaitReport:
    return explain(deployment.config, workflow_id, store=deployment.store, transport=deployment.transport)


def the_wait(report: WaitReport, facet: str = FACET) -> Wait:
    (found,) = [wait for wait in report.waits if wait.facet == facet]
    return found


def text_of(report: WaitReport, code: CauseCode) -> str:
    """Return the text of the only cause of this code."""
    causes = [*report.causes, *(cause for wait in report.waits for cause in wait.causes)]
    (found,) = [cause.text for cause in causes if cause.code == code]
    return found


def started(deployment: Deployment, workflow: str = "shop.Checkout", workflow_id: str = "w1") -> None:
    inputs = {"shop.Patient": {}, "shop.Checkout": {"order": "17"}}[workflow]
    deployment.client.start(workflow, inputs, workflow_id=workflow_id)


def waiting(deployment: Deployment) -> Deployment:
    """With a run whose event is on its topic, and an evaluator."""
    deployment.evaluator()
    started(deployment)
    deployment.settle()
    return deployment


# --- evaluators, and starts ---------------------------------------------------------------------------------------


def test_a_start_that_no_evaluator_has_taken_is_found_on_its_topic(deployment: Deployment) -> None:
    started(deployment)

    report = why(deployment)

    assert report.codes() == {"start-pending", "no-evaluator"}
    assert f"{deployment.topology.commands()}[" in text_of(report, CauseCode.START_PENDING)
    assert "none has ever been" in text_of(report, CauseCode.NO_EVALUATOR)
    assert (report.status, report.workflow) == ("NOT STARTED", "shop.Checkout")


def test_a_start_that_was_refused_says_when_and_why(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.settle()
    deployment.transport.admin().delete_topic(deployment.topology.facet(FACET))
    started(deployment)
    deployment.settle()

    report = why(deployment)

    assert "start-refused" in report.codes()
    assert "TopicMissing" in text_of(report, CauseCode.START_REFUSED)


def test_a_run_that_nobody_knows_is_said_so(deployment: Deployment) -> None:
    with pytest.raises(UnknownRun, match="no run strange"):
        why(deployment, "strange")


def test_without_an_evaluator_that_is_said_beside_what_the_steps_wait_for(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.remove(deployment.evaluators[0], killed=False)

    report = why(deployment)

    assert "no-evaluator" in report.codes()
    assert "the last one was seen at" in text_of(report, CauseCode.NO_EVALUATOR)
    assert "afl-stream" not in text_of(report, CauseCode.NO_EVALUATOR)


def test_an_answer_that_no_evaluator_has_read_is_found_on_the_control_topic(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.remove(deployment.evaluators[0], killed=False)
    deployment.worker({FACET: charge})
    eventually(lambda: deployment.round() >= 0 and bool(deployment.records(deployment.topology.control())), 60)

    report = why(deployment)

    assert {"answer-unread", "no-evaluator"} <= report.codes()
    assert "1 of them of this run" in text_of(report, CauseCode.NO_EVALUATOR)


def test_an_answer_that_lies_unread_is_not_called_missing(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.worker({FACET: lambda _payload, _context: Deferred()})  # type: ignore[dict-item,return-value]  # answered elsewhere
    deployment.settle()
    assert "answer-missing" in why(deployment).codes()
    deployment.remove(deployment.evaluators[0], killed=False)
    step = deployment.step("w1", FACET)
    answer = deployment.codec.encode(_answer(step.id), deployment.topology.control())
    deployment.put(deployment.topology.control(), answer, key=b"w1")

    codes = why(deployment).codes()

    assert "answer-unread" in codes
    assert "answer-missing" not in codes


def test_an_evaluator_that_is_there_and_reads_nothing_is_behind(deployment: Deployment) -> None:
    waiting(deployment)
    worker = deployment.worker({FACET: charge})
    eventually(lambda: worker.turn() >= 0 and bool(deployment.records(deployment.topology.control())), 60)

    report = why(deployment)

    assert {"answer-unread", "evaluator-behind"} <= report.codes()
    assert "no-evaluator" not in report.codes()


# --- agents -------------------------------------------------------------------------------------------------------


def test_an_event_without_an_agent_is_told_with_its_place_its_group_and_its_line(deployment: Deployment) -> None:
    waiting(deployment)

    report = why(deployment)
    wait = the_wait(report)

    assert report.codes() == {"no-agent"}
    (record,) = deployment.records(deployment.topology.facet(FACET))
    assert (wait.topic, wait.partition, wait.offset) == (record.topic, record.partition, record.offset)
    assert (wait.group, wait.lag, wait.members) == (deployment.agent_group, 1, ())
    assert (wait.path, wait.line, wait.attempt) == ("shop.Checkout.paid", 4, 1)
    assert wait.causes[0].commands[0] == ("agent", "--handlers", "MODULE", "--facet", FACET)
    assert wait.causes[0].commands[1][:2] == ("continue", wait.step_id)


def test_the_path_of_a_step_in_a_foreach_has_its_index(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.client.start("shop.Each", {"orders": ["a", "b"]}, workflow_id="w1")
    deployment.settle()

    assert {wait.path for wait in why(deployment).waits} == {"shop.Each[0].paid", "shop.Each[1].paid"}


def test_a_facet_whose_handler_is_not_registered_while_others_are_is_told_apart(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.store.save_handler_registration(HandlerRegistration(facet_name="shop.Other", module_uri="m"))

    report = why(deployment)

    assert report.codes() == {"handler-unregistered"}
    assert the_wait(report).causes[0].commands[0][:2] == ("handlers", "register")


def test_an_agent_that_has_the_event_is_named(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.worker({FACET: charge})
    deployment.settle()
    started(deployment)
    evaluator = deployment.evaluators[0]
    eventually(lambda: evaluator.turn() >= 0 and bool(deployment.records(deployment.topology.facet(FACET))), 60)

    report = why(deployment)

    assert report.codes() == {"at-work"}
    (member,) = the_wait(report).members or ()
    assert "worker" in member


def test_the_last_failed_try_of_a_handler_is_told_with_the_next_one(deployment: Deployment) -> None:
    waiting(deployment)
    now_ms, step_id = epoch_ms(), the_wait(why(deployment)).step_id
    failed = FailedTry(
        step_id=step_id, attempt=1, tries=3, error="WebhookFailed: http://bank answered 503", failed_at=now_ms - 500,
        next_at=now_ms + 60_000,
    )  # fmt: skip
    of_another_attempt = replace(failed, attempt=2, failed_at=now_ms)
    announced = Presence(
        id="g-1", kind="agent", name="gateway-1", seen_at=now_ms, interval_s=10, retrying=(failed, of_another_attempt)
    )
    topic = deployment.topology.presence()
    with closing(deployment.transport.producer()) as producer:
        producer.produce(topic, encode(announced), key=b"g-1")
        assert producer.flush(10) == 0

    report = why(deployment)

    told = text_of(report, CauseCode.TRY_FAILED)
    assert told.startswith("try 3 of its handler failed at ")
    assert "WebhookFailed: http://bank answered 503; the next comes at " in told
    assert told.endswith("(gateway-1)")
    assert the_wait(report).next_retry_ms == failed.next_at


def test_events_that_come_before_in_the_partition_are_counted(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.worker({FACET: charge})
    deployment.settle()
    names = [f"w{number}" for number in range(20)]
    for name in names:
        started(deployment, workflow_id=name)
    evaluator, topic = deployment.evaluators[0], deployment.topology.facet(FACET)
    eventually(lambda: evaluator.turn() >= 0 and len(deployment.records(topic)) == len(names), 60)

    found = {name: the_wait(why(deployment, name)) for name in names}

    behind = [wait for wait in found.values() if wait.causes[0].code == CauseCode.AGENT_BEHIND]
    first = [wait for wait in found.values() if wait.causes[0].code == CauseCode.AT_WORK]
    assert len({wait.partition for wait in found.values()}) == len(first)
    assert len(behind) == len(names) - len(first)
    assert all(f"{(wait.offset or 0) - (wait.committed or 0):,} offset" in wait.causes[0].text for wait in behind)


def test_another_group_that_reads_the_topic_is_named(deployment: Deployment) -> None:
    deployment.agent_group = f"{deployment.config.prefix}others"
    deployment.worker({FACET: charge})
    deployment.settle()
    deployment.evaluator()
    started(deployment)
    evaluator = deployment.evaluators[0]
    eventually(lambda: evaluator.turn() >= 0 and bool(deployment.records(deployment.topology.facet(FACET))), 60)

    assert "others" in text_of(why(deployment), CauseCode.AT_WORK)


# --- events and answers that went wrong ---------------------------------------------------------------------------


def test_an_event_whose_topic_was_deleted_is_told(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.transport.admin().delete_topic(deployment.topology.facet(FACET))

    assert "topic-missing" in why(deployment).codes()


def test_an_event_that_is_gone_from_its_topic_is_told(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.recreate(deployment.topology.facet(FACET))

    assert "event-gone" in why(deployment).codes()


def test_an_event_that_became_a_dead_letter_is_told_with_the_reason(deployment: Deployment) -> None:
    waiting(deployment)
    topic = deployment.topology.facet(FACET)
    (record,) = deployment.records(topic)
    headers = dead_letter_headers(record, ValueError("the bank cannot read it"), at_ms=1)
    deployment.put(deployment.topology.dlq(topic), record.value, key=record.key, headers=headers)

    text = text_of(why(deployment), CauseCode.EVENT_DEAD_LETTERED)

    assert "ValueError: " in text
    assert "the bank cannot read it" in text


def test_an_event_that_is_finished_and_has_no_answer_is_told(deployment: Deployment) -> None:
    waiting(deployment)
    # The handler has ended, and says that the answer comes from elsewhere.
    deployment.worker({FACET: lambda _payload, _context: Deferred()})  # type: ignore[dict-item,return-value]  # answered elsewhere
    deployment.settle()

    report = why(deployment)

    assert "has finished its event (offset 0, next 1)" in text_of(report, CauseCode.ANSWER_MISSING)
    (cause,) = [cause for cause in the_wait(report).causes if cause.code == CauseCode.ANSWER_MISSING]
    step = deployment.step("w1", FACET)
    assert cause.commands == (("continue", step.id, "--result", '{"receipt": <String>}'),)


def test_an_answer_that_was_refused_is_told_with_the_time_and_the_reason(world: World) -> None:
    deployment = waiting(shop_of(world, answers=AnswerSettings(token_secret="a secret of thirty-two letters!!")))
    step = deployment.step("w1", FACET)
    stranger = deployment.codec.encode(_answer(step.id), deployment.topology.control())
    deployment.put(deployment.topology.control(), stranger, key=b"w1")
    deployment.settle()

    text = text_of(why(deployment), CauseCode.ANSWER_REFUSED)

    (letter,) = deployment.dead_letters(deployment.topology.control())
    assert AnswerRefused.__name__ in text
    assert f"{letter.topic}[{letter.partition}]@{letter.offset}" in text


def _answer(step_id: str) -> StepContinue:
    return StepContinue(step_id=step_id, workflow_id="w1", result={"receipt": "forged"}, attempt=1, group="strangers")


# --- what the runtime waits for itself ----------------------------------------------------------------------------


def test_external_events_timers_and_deadlines_are_told_apart(deployment: Deployment) -> None:
    deployment.evaluator()
    started(deployment, "shop.Patient")
    deployment.settle()

    report = why(deployment)

    event, nap, paid = (the_wait(report, facet) for facet in ("afl.WaitForEvent", "afl.Sleep", FACET))
    assert [cause.code for cause in event.causes] == [CauseCode.EXTERNAL_EVENT]
    assert event.event_name == "approval"
    assert event.causes[0].commands == (("raise", "w1", "approval", "DATA"),)
    assert [cause.code for cause in nap.causes] == [CauseCode.TIMER]
    assert None not in (event.deadline_ms, nap.deadline_ms, paid.deadline_ms)
    assert paid.deadline_ms == (paid.since_ms or 0) + 90_000


def test_a_further_attempt_says_when_it_comes_and_what_failed_before(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.worker({FACET: declined})
    started(deployment, "shop.Patient")
    deployment.settle()

    wait = the_wait(why(deployment))

    assert [cause.code for cause in wait.causes] == [CauseCode.RETRY]
    assert wait.next_retry_ms is not None
    assert "card declined" in wait.causes[0].text


def test_a_script_that_runs_is_told(world: World) -> None:
    deployment = world.deployment(PRESS, scripts=Presses(holds=True))
    evaluator = deployment.evaluator()
    start_catalogue(deployment)
    eventually(lambda: deployment.round() >= 0 and evaluator.stats.scripts == 1, 60)

    assert "script" in why(deployment, "wf-1").codes()


def test_a_task_of_a_poller_is_told(world: World) -> None:
    deployment = shop_of(world, dispatch=DispatchSettings(default="task"))
    deployment.evaluator()
    started(deployment)
    deployment.settle()

    assert why(deployment).codes() == {"task"}


# --- pauses, and the end ------------------------------------------------------------------------------------------


def test_a_paused_facet_and_an_event_that_the_pause_holds_back_are_told(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.settle()
    deployment.client.pause(facet=FACET, reason="the bank is down")
    deployment.hear_pauses()
    started(deployment)
    deployment.settle()

    report = why(deployment)

    assert {"facet-paused", "not-published", "no-agent"} <= report.codes()
    assert "(the bank is down)" in text_of(report, CauseCode.FACET_PAUSED)
    assert the_wait(report).causes[0].commands == (("resume", "--facet", FACET),)


def test_a_paused_workflow_is_told_and_one_that_was_resumed_is_runnable(deployment: Deployment) -> None:
    deployment.evaluator()
    deployment.settle()
    deployment.client.pause(workflow_id="w1")
    deployment.hear_pauses()
    started(deployment)
    deployment.settle()
    paused = why(deployment)
    deployment.client.resume(workflow_id="w1")

    assert paused.codes() == {"workflow-paused"}
    assert paused.causes[0].commands == (("resume", "--workflow", "w1"),)
    assert why(deployment).codes() == {"runnable"}


def test_a_run_that_has_ended_says_how(deployment: Deployment) -> None:
    waiting(deployment)
    deployment.worker({FACET: declined})
    deployment.settle()

    report = why(deployment)

    assert report.codes() == {"ended"}
    assert "it ended as ERROR at " in report.causes[0].text
    assert "shop.Checkout.paid: ValueError: card declined" in report.causes[0].text
    assert ("retry", "w1") in report.causes[0].commands


def test_without_a_broker_the_store_alone_is_told_and_what_is_not_known(deployment: Deployment) -> None:
    waiting(deployment)

    report = explain(deployment.config, "w1", store=deployment.store, transport=None, unknown=["the broker"])

    assert report.codes() == {"unanswered"}
    assert report.unknown == ("the broker",)


@in_worlds((KAFKA,))
def test_without_a_store_an_evaluator_is_asked_and_its_absence_is_told(world: World) -> None:
    deployment = waiting(shop_of(world))
    deployment.remove(deployment.evaluators[0], killed=False)

    report = explain(deployment.config, "w1", store=None, transport=deployment.transport)

    assert report.codes() == {"no-evaluator"}
    assert "the store of the evaluators" in report.unknown[0]
