"""Answers of an agent: results, failures, updates, deferred answers, timeouts and retries."""

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from afl.core.handlers.calling import Handler
from afl.core.process.crashes import Crash
from afl.core.text.exception_text import MAX_TRACEBACK_CHARS
from afl.core.text.warning_limits import MAX_LINES
from afl_stream.agent.agent import Deferred, HandlerContext, HandlerOver, HandlersStuck, NoHandlers, RetryPolicy
from afl_stream.agent.handlers import NoSuchFacet
from afl_stream.errors import ConfigError, TopicMissing
from afl_stream.wire.messages import StepContinue, StepFailed, StepUpdate
from tests.bad_values import nested
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event


def handled(deployment: Deployment, handler: Handler, **registration: Any) -> TestAgent:
    agent = deployment.agent()
    agent.register(PAY, handler, **registration)
    agent.run_once(1)
    return agent


def only_answer(deployment: Deployment) -> object:
    answers = deployment.answers()
    assert len(answers) == 1
    return answers[0]


def failure(deployment: Deployment) -> tuple[str, str]:
    answer = only_answer(deployment)
    assert isinstance(answer, StepFailed)
    return answer.error.type, answer.error.message


def test_a_result_is_answered_for_the_event_that_asked() -> None:
    deployment = Deployment()
    deployment.publish(event(step=7, attempt=2))

    handled(deployment, lambda payload: {"paid": payload["n"]})

    assert only_answer(deployment) == StepContinue(
        step_id="wf-7:7",
        result={"paid": 7},
        workflow_id="wf-7",
        event_id="wf-7:7#2",
        attempt=2,
        answer_token="token-7",
        agent="tester",
        group="afl.agent.billing.Pay",
    )
    assert deployment.records("afl.control")[0].key == b"wf-7"


def test_an_async_handler_is_awaited() -> None:
    deployment = Deployment()
    deployment.publish(event())

    async def handle(payload: dict[str, object]) -> dict[str, object]:
        await asyncio.sleep(0)
        return {"paid": True}

    handled(deployment, handle)
    assert deployment.results() == {"wf-1:1": {"paid": True}}


def test_the_payload_says_which_facet_and_which_registration() -> None:
    deployment = Deployment()
    deployment.publish(event(payload={"amount": 3}))
    payloads: list[object] = []

    handled(deployment, payloads.append, metadata={"region": "EU"})

    assert payloads == [{"amount": 3, "_facet_name": "billing.Pay", "_handler_metadata": {"region": "EU"}}]


def test_without_metadata_the_payload_has_none() -> None:
    deployment = Deployment()
    deployment.publish(event(payload={}))
    payloads: list[object] = []

    handled(deployment, payloads.append)

    assert payloads == [{"_facet_name": "billing.Pay"}]


def test_a_handler_may_see_its_context() -> None:
    deployment = Deployment()
    deployment.publish(event(step=5, attempt=3))
    contexts: list[HandlerContext] = []

    handled(deployment, lambda payload, context: contexts.append(context))

    (context,) = contexts
    assert (context.event_id, context.step_id, context.workflow_id) == ("wf-5:5#3", "wf-5:5", "wf-5")
    assert (context.attempt, context.deadline_ms, context.facet) == (3, None, PAY)
    assert context.headers["ce_id"] == b"wf-5:5#3"


def test_no_return_value_is_an_empty_result() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: None)

    assert deployment.results() == {"wf-1:1": {}}


@pytest.mark.parametrize(("value", "said"), [([1], "returned a list"), ("text", "returned a str")])
def test_a_return_value_that_is_no_dict_fails_the_step_and_says_so(value: object, said: str) -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: value)

    error_type, message = failure(deployment)
    assert error_type == "BadResult"
    assert said in message


def test_a_result_that_cannot_travel_fails_the_step_and_names_the_place() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: {"when": object()})

    error_type, message = failure(deployment)
    assert error_type == "ValueRefused"
    assert message == "result.when: a JSON value was expected, found a value of Python type object"


@pytest.mark.parametrize("value", [[1], {"when": object()}, {"text": "x" * 1_000_000}])
def test_a_result_that_fails_its_step_is_logged_for_the_author_of_the_handler(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: value)

    error_type, message = failure(deployment)
    (reported,) = [record.getMessage() for record in caplog.records]
    assert reported == f"the result of the handler of {PAY} fails step wf-1:1: {error_type}: {message}"


def test_a_result_as_deep_as_values_may_be_is_taken() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: {"order": nested(100)})

    assert deployment.results() == {"wf-1:1": {"order": nested(100)}}


def test_a_result_that_nests_deeper_than_values_may_is_refused_as_a_value() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: {"order": nested(101)})

    error_type, message = failure(deployment)
    assert error_type == "ValueRefused"
    assert "found a value nested deeper than 100 levels" in message


def test_a_result_that_is_too_large_fails_the_step() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: {"text": "x" * 1_000_000})

    error_type, message = failure(deployment)
    assert error_type == "BadResult"
    assert "max_event_bytes" in message


def raising(error: Exception) -> Callable[[object], None]:
    def handle(payload: object) -> None:
        raise error

    return handle


def test_an_exception_fails_the_step_with_its_class_and_message_and_is_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = Deployment()
    deployment.publish(event())

    agent = handled(deployment, raising(ValueError("no such card")))

    assert failure(deployment) == ("ValueError", "no such card")
    assert "the handler of billing.Pay failed for step wf-1:1" in caplog.text
    # Where, which the answer does not say.
    assert "Traceback" in caplog.text
    assert agent.counts.failed == 1
    assert agent.counts.retried == 0


def test_a_message_that_is_no_text_still_fails_the_step() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, raising(ValueError("\ud800")))

    assert failure(deployment) == ("ValueError", "\\ud800")


def test_a_deferred_answer_moves_the_offset_and_says_nothing() -> None:
    deployment = Deployment()
    deployment.publish(event())

    agent = handled(deployment, lambda payload: Deferred())

    assert deployment.answers() == []
    committed = deployment.committed()
    assert committed is not None
    assert committed.offset == 1
    assert agent.counts.deferred == 1


def test_updates_come_before_the_answer_and_are_for_the_same_event() -> None:
    deployment = Deployment()
    deployment.publish(event())

    def handle(payload: object, context: HandlerContext) -> dict[str, object]:
        context.update({"progress": 50})
        return {"paid": True}

    handled(deployment, handle)

    update, answer = deployment.answers()
    assert isinstance(update, StepUpdate)
    assert isinstance(answer, StepContinue)
    assert (update.step_id, update.event_id, update.partial) == ("wf-1:1", "wf-1:1#1", {"progress": 50})


def test_a_handler_may_not_update_after_its_answer() -> None:
    deployment = Deployment()
    deployment.publish(event())
    contexts: list[HandlerContext] = []

    handled(deployment, lambda payload, context: contexts.append(context))

    with pytest.raises(HandlerOver, match="wf-1:1"):
        contexts[0].update({"late": True})


def test_a_handler_that_takes_too_long_fails_its_step_and_its_late_result_is_ignored() -> None:
    deployment = Deployment(max_concurrent=1)
    deployment.publish(event(step=1), event(step=2))
    agent, release = deployment.agent(), Flag()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        if payload["n"] == 1:
            release.wait()
        return {"n": payload["n"]}

    agent.register(PAY, handle, timeout_ms=500)
    agent.run_once(1)
    release.set()
    agent.run_once(0)

    assert deployment.results() == {"wf-1:1": "Timeout", "wf-2:2": {"n": 2}}
    assert len(deployment.answers()) == 2
    assert agent.close() == 0


def flaky(failures: int) -> tuple[Handler, list[str]]:
    seen: list[str] = []

    def handle(payload: object, context: HandlerContext) -> dict[str, object]:
        seen.append(context.event_id)
        if len(seen) <= failures:
            raise ConnectionError("away")
        return {"tries": len(seen)}

    return handle, seen


def test_a_retry_policy_tries_again_with_the_same_event_id() -> None:
    deployment = Deployment()
    deployment.publish(event())
    handler, seen = flaky(failures=2)

    agent = handled(deployment, handler, retry=RetryPolicy(max_attempts=3, backoff_s=0))

    assert deployment.results() == {"wf-1:1": {"tries": 3}}
    assert seen == ["wf-1:1#1"] * 3
    assert agent.counts.retried == 2


def test_a_retry_policy_ends_with_the_last_error() -> None:
    deployment = Deployment()
    deployment.publish(event())
    handler, seen = flaky(failures=9)

    handled(deployment, handler, retry=RetryPolicy(max_attempts=2, backoff_s=0))

    assert failure(deployment) == ("ConnectionError", "away")
    assert len(seen) == 2


def test_a_retry_policy_leaves_alone_what_it_does_not_name() -> None:
    deployment = Deployment()
    deployment.publish(event())
    handler, seen = flaky(failures=9)

    handled(deployment, handler, retry=RetryPolicy(max_attempts=5, backoff_s=0, retry_on=(TimeoutError,)))

    assert len(seen) == 1


def test_a_record_that_waits_for_its_retry_holds_no_slot() -> None:
    deployment = Deployment(max_concurrent=1)
    deployment.publish(event(step=1), event(step=2))
    agent = deployment.agent()
    seen: list[object] = []

    def handle(payload: dict[str, object]) -> dict[str, object]:
        seen.append(payload["n"])
        if payload["n"] == 1:
            raise ConnectionError("away")
        return {}

    agent.register(PAY, handle, retry=RetryPolicy(max_attempts=2, backoff_s=3600))
    agent.run_once(1)

    assert seen == [1, 2]
    assert deployment.results() == {"wf-2:2": {}}
    committed = deployment.committed()
    assert committed is not None
    assert committed.offset == 0


def test_tries_count_on_in_the_next_process_and_the_answer_says_how_many_there_were() -> None:
    deployment = Deployment()
    deployment.publish(event())
    policy = RetryPolicy(max_attempts=4, backoff_s=3600)
    seen: list[int] = []

    def handle(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        seen.append(context.tries)
        raise ConnectionError("away")

    for _ in range(4):
        agent = deployment.agent()
        agent.register(PAY, handle, retry=policy)
        agent.run_once(1)
        agent.close()

    assert seen == [1, 2, 3, 4]
    assert failure(deployment) == ("ConnectionError", "away")
    (answer,) = deployment.records("afl.control")
    assert dict(answer.headers)["afl_tries"] == b"4"


def test_the_death_of_a_process_in_a_handler_counts_as_one_of_its_tries() -> None:
    deployment = Deployment()
    deployment.publish(event())
    seen: list[int] = []

    def handle(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        seen.append(context.tries)
        if context.tries == 1:
            raise Crash("dies in its handler")
        if context.tries == 2:
            raise ConnectionError("away")
        return {}

    first = deployment.agent()
    first.register(PAY, handle, retry=RetryPolicy(max_attempts=3, backoff_s=0))
    with pytest.raises(Crash):
        first.run_once(1)
    first.kill()
    handled(deployment, handle, retry=RetryPolicy(max_attempts=3, backoff_s=0))

    assert seen == [1, 2, 3]
    assert deployment.results() == {"wf-1:1": {}}


def test_a_first_result_says_nothing_about_tries() -> None:
    deployment = Deployment()
    deployment.publish(event())

    handled(deployment, lambda payload: {})

    (answer,) = deployment.records("afl.control")
    assert "afl_tries" not in dict(answer.headers)


def test_the_agents_own_policy_holds_for_handlers_that_are_registered_without_one() -> None:
    deployment = Deployment()
    deployment.settings(retry="attempts=3, backoff=0")
    deployment.publish(event(step=1), event(step=2))
    seen: list[object] = []

    def handle(payload: dict[str, object]) -> dict[str, object]:
        seen.append(payload["n"])
        raise ConnectionError("away")

    handled(deployment, handle).close()
    assert sorted(seen, key=str) == [1, 1, 1, 2, 2, 2]

    deployment.publish(event(step=3))
    handled(deployment, handle, retry=RetryPolicy(max_attempts=1))
    assert seen.count(3) == 1, "a policy of its own is its own"


def test_a_policy_in_the_settings_that_is_none_is_refused_before_anything_starts() -> None:
    deployment = Deployment()
    deployment.settings(retry="attempts=often")

    with pytest.raises(ConfigError, match=r"agent\.retry: found 'attempts=often', expected attempts: a number"):
        deployment.agent()


@pytest.mark.parametrize(("tries", "wait_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (5, None)])
def test_the_wait_grows_up_to_its_limit(tries: int, wait_s: float | None) -> None:
    policy = RetryPolicy(max_attempts=5, backoff_s=1, factor=2, max_backoff_s=5)

    assert policy.wait_s(tries, ConnectionError()) == wait_s


def test_a_handler_of_a_short_name_gets_each_facet_of_that_name() -> None:
    deployment = Deployment(["billing.Pay", "salary.Pay", "billing.Void"])
    deployment.publish(event("billing.Pay", 1), event("salary.Pay", 2), event("billing.Void", 3))
    agent = deployment.agent()

    agent.register("Pay", lambda payload: {"facet": payload["_facet_name"]})
    agent.run_once(1)

    assert deployment.results() == {"wf-1:1": {"facet": "billing.Pay"}, "wf-2:2": {"facet": "salary.Pay"}}
    assert agent.groups == ["afl.agent.billing.Pay", "afl.agent.salary.Pay"]


def test_the_exact_name_wins_over_the_short_one() -> None:
    deployment = Deployment(["billing.Pay", "salary.Pay"])
    deployment.publish(event("billing.Pay", 1), event("salary.Pay", 2))
    agent = deployment.agent()

    agent.register("Pay", lambda payload: {"by": "short"})
    agent.register("billing.Pay", lambda payload: {"by": "exact"})
    agent.run_once(1)

    assert deployment.results() == {"wf-1:1": {"by": "exact"}, "wf-2:2": {"by": "short"}}


def test_a_short_name_of_no_facet_is_refused_with_a_near_name() -> None:
    agent = Deployment().agent()
    agent.register("Pya", lambda payload: {})

    with pytest.raises(NoSuchFacet, match="did you mean Pay"):
        agent.start()


@pytest.mark.parametrize("others", [[], [PAY]], ids=["alone", "beside one that is there"])
def test_a_topic_that_is_missing_at_start_is_refused_with_the_command_that_creates_it(others: list[str]) -> None:
    agent = Deployment().agent()
    for facet in (*others, "billing.Void"):
        agent.register(facet, lambda payload: {})

    with pytest.raises(TopicMissing, match=r"afl.events.billing.Void .* afl-stream topics apply"):
        agent.start()


def test_a_facet_that_is_misspelt_is_asked_about_before_a_topic_is_advised() -> None:
    agent = Deployment(["orders.Charge", "orders.Refund"]).agent()
    agent.register("orders.Chrage", lambda payload: {})

    with pytest.raises(TopicMissing) as refused:
        agent.start()

    assert refused.value.near == ("orders.Charge",)
    question, _, advice = str(refused.value).partition("did you mean orders.Charge?")
    assert "orders.Chrage" in question
    assert advice == " If the name is right, create the topic with: afl-stream topics apply"


def test_a_facet_that_the_agent_handles_anyway_is_not_what_another_name_was_meant_for() -> None:
    agent = Deployment(["orders.Charge"]).agent()
    for facet in ("orders.Charge", "orders.Charges"):
        agent.register(facet, lambda payload: {})

    with pytest.raises(TopicMissing) as refused:
        agent.start()

    assert refused.value.near == ()


def test_one_group_may_serve_all_facets() -> None:
    deployment = Deployment(["billing.Pay", "billing.Void"])
    deployment.publish(event("billing.Pay", 1), event("billing.Void", 2))
    agent = deployment.agent(config={"group": "cashiers"})
    agent.register("billing.Pay", lambda payload: {})
    agent.register("billing.Void", lambda payload: {})

    agent.run_once(1)
    agent.run_once(0)

    assert agent.groups == ["cashiers"]
    assert set(deployment.results()) == {"wf-1:1", "wf-2:2"}


def test_an_event_of_a_facet_without_a_handler_fails_its_step_where_the_topic_is_one_facets_own() -> None:
    deployment = Deployment()
    stray = event("billing.Void")
    deployment.publish_bytes(PAY, deployment.codec.encode(stray), key=stray.step_id.encode())

    handled(deployment, lambda payload: {})

    assert failure(deployment) == ("NoHandler", "no handler for facet billing.Void")


def test_groups_of_a_shared_topic_leave_each_others_events_alone() -> None:
    shared = {"billing.Pay": "afl.billing", "billing.Void": "afl.billing", "billing.Audit": "afl.billing"}
    deployment = Deployment(list(shared), shared=shared)
    deployment.publish(event("billing.Pay", 1), event("billing.Void", 2), event("billing.Audit", 3))
    agent = deployment.agent()
    agent.register("billing.Pay", lambda payload: {"by": "pay"})
    agent.register("billing.Void", lambda payload: {"by": "void"})

    agent.run_once(1)

    assert deployment.results() == {"wf-1:1": {"by": "pay"}, "wf-2:2": {"by": "void"}}
    assert agent.counts.skipped == 4
    for facet in ("billing.Pay", "billing.Void"):
        committed = deployment.committed(facet)
        assert committed is not None
        assert committed.offset == 3


def test_handlers_come_from_a_module_that_registers_them(tmp_path: Path) -> None:
    module = tmp_path / "cashier.py"
    module.write_text(
        "async def pay(payload):\n"
        "    return {'by': payload['_handler_metadata']['till']}\n"
        "def void(payload, context):\n"
        "    return {'by': context.step_id}\n"
        "def register_handlers(runner):\n"
        "    runner.register_handler('billing.Pay', __file__, 'pay', metadata={'till': 4}, timeout_ms=9000)\n"
        "    runner.register('billing.Void', void)\n"
    )
    deployment = Deployment(["billing.Pay", "billing.Void"])
    deployment.publish(event("billing.Pay", 1), event("billing.Void", 2))
    agent = deployment.agent()

    agent.load_handlers(str(module))
    agent.run_once(1)

    assert agent.registered_names() == ["billing.Pay", "billing.Void"]
    assert deployment.results() == {"wf-1:1": {"by": 4}, "wf-2:2": {"by": "wf-2:2"}}


def test_a_plain_handler_module_takes_the_facets_of_the_config(tmp_path: Path) -> None:
    module = tmp_path / "plain.py"
    module.write_text("def handle(payload):\n    return {'facet': payload['_facet_name']}\n")
    deployment = Deployment()
    deployment.publish(event())
    agent = deployment.agent(config={"facets": (PAY,)})

    agent.load_handlers(str(module))
    agent.run_once(1)

    assert deployment.results() == {"wf-1:1": {"facet": PAY}}


def test_an_agent_without_handlers_does_not_start() -> None:
    with pytest.raises(NoHandlers, match="--handlers MODULE"):
        Deployment().agent().start()


def test_another_record_of_an_event_that_was_seen_is_counted_and_answered_again() -> None:
    deployment = Deployment()
    deployment.publish(event(), event())

    agent = handled(deployment, lambda payload: {})

    assert agent.counts.duplicates == 1
    assert len(deployment.answers()) == 2


def test_a_handler_learns_that_its_agent_is_stopping() -> None:
    deployment = Deployment()
    deployment.publish(event())
    agent, seen = deployment.agent(), Flag()

    def handle(payload: object, context: HandlerContext) -> dict[str, object]:
        seen.set()
        eventually(lambda: context.is_stopping)
        return {"ended": "early"}

    agent.register(PAY, handle)
    agent.turn(1)
    assert seen.wait(10)
    assert agent.close() == 0

    assert deployment.results() == {"wf-1:1": {"ended": "early"}}


@pytest.mark.parametrize("way", ["run", "turn"])
def test_an_agent_with_too_many_stuck_handlers_answers_names_them_and_ends(way: str) -> None:
    deployment = Deployment(max_concurrent=2)
    deployment.stream = dataclasses.replace(
        deployment.stream, agent=dataclasses.replace(deployment.stream.agent, max_stuck_handlers=2)
    )
    deployment.publish(*(event(step=number) for number in range(1, 6)))
    release = Flag()
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"late": release.wait()}, timeout_ms=20)

    works: Callable[[], object] = agent.run if way == "run" else lambda: eventually(lambda: agent.turn(0.01) and False)
    with pytest.raises(HandlersStuck, match=r"3 handlers still run .* max_stuck_handlers is 2: billing\.Pay \(3\)"):
        works()
    if way == "turn":
        with pytest.raises(HandlersStuck):
            agent.close()

    # What had timed out is answered, and the rest is left to the next agent.
    assert 3 <= len(deployment.answers()) < 5
    assert "max_stuck_handlers is 2" in agent.health().reasons[0]
    release.set()
    heir = deployment.agent()
    heir.register(PAY, lambda payload: {"n": payload["n"]})
    eventually(lambda: heir.run_once(0.01) or len(deployment.results()) == 5)
    heir.close()


def test_a_handler_that_fails_again_and_again_is_logged_a_few_times_and_answered_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = Deployment()
    deployment.publish(*(event(step=number) for number in range(1, 101)))

    handled(deployment, raising(ValueError("x" * 100_000)))

    assert len(deployment.answers()) == 100
    lines = [record.getMessage() for record in caplog.records if "failed for step" in record.getMessage()]
    assert len(lines) == MAX_LINES
    assert sum(map(len, lines)) < MAX_LINES * (MAX_TRACEBACK_CHARS + 200)
