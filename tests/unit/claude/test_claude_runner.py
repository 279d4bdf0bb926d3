"""ClaudeAgentRunner, against a server that speaks the Messages API: answers, turns, reminders, failures, limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic._data import DEPRECATED_MODELS
from anthropic.types import model as anthropic_models

from afl.core.process.crashes import Crash
from afl.engine.errors import StepFailure
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.runtime import ClaudeAgentRunner, SqliteStore, ToolRegistry
from afl.runtime.agent import DEFAULT_MODEL, claude_client, default_model
from tests.unit.claude.helpdesk import Helpdesk
from tests.worlds.messages_api import HttpError, Message, MessagesApi, messages_api, says, text, use


def run(
    api: MessagesApi | None,
    workflow: str,
    registry: ToolRegistry | None = None,
    desk: Helpdesk | None = None,
    max_http_retries: int = 0,
    **settings: Any,
) -> ExecutionResult:
    desk = desk or Helpdesk()
    inputs = settings.pop("inputs", {"ticket": "It burns"})
    description = settings.pop("task_description", None)
    runner = ClaudeAgentRunner(
        desk.evaluator,
        desk.store,
        anthropic_client=None if api is None else api.client(max_http_retries),
        tool_registry=registry,
        **settings,
    )
    return runner.run(f"support.{workflow}", inputs, desk.program, task_description=description)


def why(result: ExecutionResult) -> str:
    assert result.status == "ERROR"
    return str(result.error)


# What is asked.


def test_a_prompt_block_says_what_is_asked_of_which_model_and_the_tool_of_the_facet_answers() -> None:
    with messages_api(says(use("Triage", queue="fire"))) as api:
        result = run(api, "Sort", model="big-model", system_prompt="unused")

    assert (result.status, result.outputs) == ("COMPLETED", {"queue": "fire"})
    (request,) = api.requests
    assert request["system"] == "Answer with one queue name. Tone: calm"
    assert request["messages"] == [{"role": "user", "content": "Ticket {1}:\nIt burns"}]
    assert request["model"] == "small-model"
    assert [tool["name"] for tool in request["tools"]] == ["Triage", "Count", "Find", "Ping"]
    assert all("cache_control" not in tool for tool in request["tools"])


def test_without_a_prompt_block_claude_is_told_the_workflow_the_task_and_the_payload() -> None:
    with messages_api(says(use("Count", count=2, share=0.5))) as api:
        result = run(api, "Total", inputs={"words": ["a", "日本"]}, task_description="Count carefully")

    assert result.outputs == {"count": 2, "share": 0.5}
    question = api.last_message(0)
    assert "Total" in question
    assert "Count carefully" in question
    assert "support.Count" in question
    assert "日本" in question
    assert api.requests[0]["model"] == default_model() == DEFAULT_MODEL


def test_the_model_and_the_system_prompt_are_the_callers_where_no_prompt_block_has_them() -> None:
    with messages_api(says(use("Count", count=2, share=0.5))) as api:
        run(api, "Total", inputs={"words": []}, model="big-model", system_prompt="Be {brief}", max_tokens=99)

    assert api.requests[0]["model"] == "big-model"
    assert api.requests[0]["system"] == "Be {brief}"
    assert api.requests[0]["max_tokens"] == 99


def test_the_default_model_is_one_of_today_and_the_environment_may_name_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = str(anthropic_models.Model)

    assert f"'{DEFAULT_MODEL}'" in known
    assert DEFAULT_MODEL not in DEPRECATED_MODELS
    monkeypatch.setenv("AFL_CLAUDE_MODEL", "claude-of-mine")
    assert default_model() == "claude-of-mine"


def test_tools_may_be_kept_by_the_api_for_the_next_event_of_the_facet() -> None:
    with messages_api(says(use("Triage", queue="fire"))) as api:
        run(api, "Sort", cache_tools=True)

    assert [tool.get("cache_control") for tool in api.requests[0]["tools"]] == [None] * 3 + [{"type": "ephemeral"}]


# Who answers.


def test_a_handler_goes_before_claude_by_its_name_its_short_name_or_as_the_default() -> None:
    by_name, by_short_name, by_default = ToolRegistry(), ToolRegistry(), ToolRegistry()
    by_name.register("support.Triage", lambda payload: {"queue": "name"})
    by_short_name.register("Triage", lambda payload: {"queue": "short"})
    by_default.set_default_handler(lambda facet, payload: {"queue": f"default for {facet}"})

    with messages_api() as api:
        queues = [run(api, "Sort", registry).outputs["queue"] for registry in (by_name, by_short_name, by_default)]

    assert queues == ["name", "short", "default for support.Triage"]
    assert api.requests == []


def test_handlers_may_be_coroutines_and_may_take_their_context() -> None:
    desk, registry, seen = Helpdesk(), ToolRegistry(), []

    async def triage(payload: dict[str, object], context: Any) -> dict[str, object]:
        context.update({"queue": "guess"})
        seen.append((context.facet, context.attempt, context.is_stopping))
        return {"queue": "sure"}

    registry.register("Triage", triage)

    assert run(None, "Sort", registry, desk).outputs == {"queue": "sure"}
    assert seen == [("support.Triage", 1, False)]


def test_one_workflow_may_be_answered_by_both() -> None:
    registry = ToolRegistry()
    registry.register("Triage", lambda payload: {"queue": "fire"})
    with messages_api(says(use("Count", count=1, share=1))) as api:
        result = run(api, "Both", registry)

    assert result.outputs == {"queue": "fire", "count": 1}


def test_without_a_handler_and_a_client_it_is_an_error_of_the_caller() -> None:
    with pytest.raises(RuntimeError, match=r"No handler registered for event facet 'support\.Triage'"):
        run(None, "Sort")


def test_a_handler_that_answers_nothing_gives_an_empty_result() -> None:
    registry = ToolRegistry()
    registry.register("Ping", lambda payload: None)

    assert run(None, "Pinged", registry, inputs={}).status == "COMPLETED"


def test_a_handler_that_gives_other_names_fails_its_step() -> None:
    registry = ToolRegistry()
    registry.register("Triage", lambda payload: {"line": "fire"})

    result = run(None, "Sort", registry)

    assert isinstance(result.error, StepFailure)
    assert result.error.error_type == "ResultMismatch"
    assert "lacks queue and has line" in result.error.message


def test_a_handler_that_raises_fails_its_step_by_its_own_error() -> None:
    registry = ToolRegistry()

    def triage(payload: dict[str, object]) -> None:
        raise LookupError("no such queue")

    registry.register("Triage", triage)

    assert "LookupError: no such queue" in why(run(None, "Sort", registry))


def test_a_handler_that_gives_something_else_fails_its_step() -> None:
    registry = ToolRegistry()
    registry.register("Triage", lambda payload: ["fire"])

    assert "the handler returned a list" in why(run(None, "Sort", registry))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1: "fire"}, "ValueRefused: result[1]: a JSON value was expected, found a map key that is the integer 1"),
        ({"queue": {1, 2}}, "ValueRefused: result.queue: a JSON value was expected, found a value of Python type set"),
    ],
)
def test_a_result_that_cannot_be_stored_fails_its_step(value: object, said: str, tmp_path: Path) -> None:
    registry, desk = ToolRegistry(), Helpdesk()
    registry.register("Triage", lambda payload: value)
    with closing(SqliteStore(tmp_path / "desk.db")) as store:
        runner = ClaudeAgentRunner(Evaluator(store), store, tool_registry=registry)
        result = runner.run("support.Sort", {"ticket": "It burns"}, desk.program)

        assert said in why(result)


def test_an_answer_that_comes_later_leaves_the_workflow_paused() -> None:
    desk, registry = Helpdesk(), ToolRegistry()
    registry.register("Triage", lambda payload: SimpleNamespace(answers_later=True))
    result = run(None, "Sort", registry, desk)

    assert result.status == "PAUSED"
    desk.evaluator.continue_step(result.pending_events[0].step_id, {"queue": "late"})
    assert desk.evaluator.resume(result.workflow_id).outputs == {"queue": "late"}


# Turn by turn.


def test_other_tools_are_run_with_their_parameters_and_what_they_give_is_told_to_claude() -> None:
    registry = ToolRegistry()
    registry.register("Count", lambda payload: {"count": len(payload["words"])})
    with messages_api(
        says(text("Let me count."), use("Count", "u1", words=["a", "b"])), says(use("Triage", "u2", queue="two"))
    ) as api:
        result = run(api, "Sort", registry)

    assert result.outputs == {"queue": "two"}
    schemas = {tool["name"]: tool["input_schema"]["properties"] for tool in api.requests[0]["tools"]}
    assert set(schemas["Count"]) == {"words"}
    assert set(schemas["Triage"]) == {"queue"}
    assert [message["role"] for message in api.requests[1]["messages"]] == ["user", "assistant", "user"]
    (reported,) = api.last_message(1)
    assert reported == {"type": "tool_result", "tool_use_id": "u1", "content": '{"count": 2}'}


def test_a_tool_that_nobody_runs_gives_back_what_it_was_given() -> None:
    with messages_api(says(use("Count", count=7, share=0.1)), says(use("Triage", queue="seven"))) as api:
        assert run(api, "Sort").outputs == {"queue": "seven"}

    assert json.loads(api.last_message(1)[0]["content"]) == {"count": 7, "share": 0.1}


def test_a_tool_that_fails_is_told_to_claude_who_may_continue() -> None:
    registry = ToolRegistry()

    async def count(payload: dict[str, object]) -> None:
        raise KeyError("words")

    registry.register("Count", count)
    with messages_api(says(use("Count")), says(use("Triage", queue="fire"))) as api:
        assert run(api, "Sort", registry).status == "COMPLETED"

    (reported,) = api.last_message(1)
    assert reported["is_error"] is True
    assert "KeyError: 'words'" in reported["content"]


def test_several_tools_of_one_reply_have_their_results_in_one_message() -> None:
    with messages_api(
        says(use("Ping", "u1"), use("Count", "u2", count=1, share=1)), says(use("Triage", queue="q"))
    ) as api:
        run(api, "Sort")

    assert [block["tool_use_id"] for block in api.last_message(1)] == ["u1", "u2"]


def test_an_answer_that_does_not_fit_is_given_back_with_what_is_wrong() -> None:
    with messages_api(says(use("Triage", "u1", queue=3)), says(use("Triage", "u2", queue="three"))) as api:
        assert run(api, "Sort").outputs == {"queue": "three"}

    (reported,) = api.last_message(1)
    assert reported["tool_use_id"] == "u1"
    assert reported["is_error"] is True
    assert "queue: string wanted, found 3" in reported["content"]


def test_claude_is_reminded_of_the_facet_when_it_ends_without_an_answer() -> None:
    with messages_api(says(text("It is the fire queue.")), says(use("Triage", queue="fire"))) as api:
        assert run(api, "Sort").outputs == {"queue": "fire"}

    reminder = api.last_message(1)
    assert isinstance(reminder, str)
    assert "support.Triage" in reminder


def test_a_reply_without_content_may_be_reminded_too() -> None:
    with messages_api(says(stop_reason="end_turn"), says(use("Triage", queue="fire"))) as api:
        assert run(api, "Sort").status == "COMPLETED"

    assert len(api.requests[1]["messages"]) == 1


def test_without_an_answer_after_all_reminders_the_step_fails_by_the_return_that_is_missing() -> None:
    with messages_api(*[says(text("Hm."))] * 3) as api:
        error = why(run(api, "Sort", max_retries=2))

    assert "ClaudeGaveNoAnswer" in error
    assert "Claude did not answer support.Triage: the answer: queue missing" in error
    assert len(api.requests) == 3


def test_a_facet_that_declares_no_returns_needs_no_answer() -> None:
    with messages_api(says(text("pong"))) as api:
        assert run(api, "Pinged", inputs={}, max_retries=0).status == "COMPLETED"

    assert len(api.requests) == 1


def test_turns_are_bounded_and_a_reminder_follows_in_the_same_message_as_the_last_results() -> None:
    with messages_api(*[says(use("Ping"))] * 4) as api:
        assert "queue missing" in why(run(api, "Sort", max_turns=2, max_retries=1))

    assert len(api.requests) == 4
    result, reminder = api.last_message(2)
    assert result["type"] == "tool_result"
    assert "support.Triage" in reminder["text"]


def test_a_turn_that_the_api_has_paused_continues_from_where_it_was() -> None:
    with messages_api(says(text("I look it up"), stop_reason="pause_turn"), says(use("Triage", queue="q"))) as api:
        assert run(api, "Sort").outputs == {"queue": "q"}

    assert [message["role"] for message in api.requests[1]["messages"]] == ["user", "assistant"]


# What goes wrong.


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            says(text("I won't"), stop_reason="refusal"),
            "ClaudeRefused: Claude did not answer support.Triage: it refused",
        ),
        (
            says(stop_reason="refusal", details={"type": "refusal", "category": "bio", "explanation": "no germs"}),
            "it refused: no germs",
        ),
        (
            says(use("Triage", queue="fi"), stop_reason="max_tokens"),
            "ClaudeCutOff: Claude did not answer support.Triage: the reply is longer than 4096 tokens",
        ),
        (says(stop_reason="model_context_window_exceeded"), "longer than small-model can hold"),
    ],
)
def test_a_reply_that_is_no_answer_fails_the_step_at_once(reply: Message, error: str) -> None:
    with messages_api(reply) as api:
        assert error in why(run(api, "Sort"))

    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "name"),
    [
        (429, "rate_limit_error", "RateLimitError"),
        (529, "overloaded_error", "OverloadedError"),
        (500, "api_error", "InternalServerError"),
    ],
)
def test_what_passes_is_tried_again_and_what_lasts_fails_the_step(status: int, kind: str, name: str) -> None:
    busy = HttpError(status, kind, "busy", {"retry-after-ms": "1"})
    with messages_api(busy, busy, says(use("Triage", queue="fire"))) as api:
        assert run(api, "Sort", max_http_retries=2).outputs == {"queue": "fire"}
        assert len(api.requests) == 3
    with messages_api(busy, busy) as api:
        error = why(run(api, "Sort", max_http_retries=1))

    assert "ClaudeUnavailable: Claude did not answer support.Triage:" in error
    assert name in error
    assert "busy" in error


def test_a_request_that_is_refused_is_not_tried_again() -> None:
    with messages_api(HttpError(404, "not_found_error", "model: small-model")) as api:
        assert "NotFoundError" in why(run(api, "Sort", max_http_retries=2))

    assert len(api.requests) == 1


def test_a_server_that_is_away_fails_the_step() -> None:
    with messages_api() as api:
        client = claude_client(api_key="k", base_url=api.url, max_retries=0)
    desk = Helpdesk()
    with client:
        runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=client)
        result = runner.run("support.Sort", {"ticket": "t"}, desk.program)

    assert "APIConnectionError" in why(result)
    # Not only that it failed.
    assert "Connection refused" in why(result)


def test_without_a_key_it_is_said_where_one_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    # Where the library looks for other credentials.
    monkeypatch.setenv("HOME", str(tmp_path))
    desk = Helpdesk()
    with claude_client(base_url="http://127.0.0.1:9", max_retries=0) as client:
        runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=client)
        result = runner.run("support.Sort", {"ticket": "t"}, desk.program)

    assert "there is no API key: set ANTHROPIC_API_KEY" in why(result)


def test_a_failure_may_be_caught_by_the_program() -> None:
    with messages_api(says(stop_reason="refusal")) as api:
        assert run(api, "Careful", inputs={"words": []}).outputs == {"count": -1}


def test_another_client_will_do_and_what_it_raises_fails_the_step() -> None:
    def create(**request: object) -> object:
        raise ValueError("out of paper")

    desk = Helpdesk()
    runner = ClaudeAgentRunner(
        desk.evaluator, desk.store, anthropic_client=SimpleNamespace(messages=SimpleNamespace(create=create))
    )

    assert "ValueError: out of paper" in why(runner.run("support.Sort", {"ticket": "t"}, desk.program))


def test_a_reply_that_cannot_be_read_fails_the_step() -> None:
    def create(**request: object) -> object:
        return {"content": [{"type": "tool_use", "id": "u1", "name": "Triage", "input": 3}]}

    desk = Helpdesk()
    runner = ClaudeAgentRunner(
        desk.evaluator, desk.store, anthropic_client=SimpleNamespace(messages=SimpleNamespace(create=create))
    )

    assert "ClaudeUnavailable" in why(runner.run("support.Sort", {"ticket": "t"}, desk.program))


def test_a_client_that_gives_dictionaries_is_understood() -> None:
    def create(**request: object) -> object:
        return {"content": [use("Triage", queue="paper")], "stop_reason": "tool_use"}

    desk = Helpdesk()
    runner = ClaudeAgentRunner(
        desk.evaluator, desk.store, anthropic_client=SimpleNamespace(messages=SimpleNamespace(create=create))
    )

    assert runner.run("support.Sort", {"ticket": "t"}, desk.program).outputs == {"queue": "paper"}


def test_a_workflow_that_cannot_start_is_told_as_the_evaluator_tells_it() -> None:
    assert "no workflow named" in why(run(None, "Missing"))


@pytest.mark.parametrize("make", ["claude_client", "async_claude_client"])
def test_without_the_library_only_making_a_client_fails_and_names_the_extra(make: str) -> None:
    script = (
        "import sys; sys.modules['anthropic'] = None\n"
        "import afl.runtime.agent as agent\n"
        f"try: agent.{make}(api_key='k')\n"
        "except agent.ClaudeNotInstalled as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert "install afl-stream[claude]" in said


def test_the_library_is_loaded_when_a_client_is_made_and_no_sooner() -> None:
    script = "import sys, afl.runtime.agent; print('anthropic' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert said == "False\n"


@pytest.mark.parametrize(("point", "asked"), [("claude.answered", 4), ("claude.stored", 3)])
def test_a_run_whose_process_died_is_taken_up_where_its_store_has_it(point: str, asked: int) -> None:
    desk, passes = Helpdesk(), iter(["", point])

    def die(reached: str) -> None:
        if reached == point and next(passes) == point:
            raise Crash(reached)

    def create(**request: Any) -> object:
        questions.append(request["messages"][0]["content"])
        return {"content": [use("Triage", queue=questions[-1][-1])], "stop_reason": "tool_use"}

    questions: list[str] = []
    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=client, probe=die)
    with pytest.raises(Crash):
        runner.run("support.Each", {"tickets": ["a", "b", "c"]}, desk.program)
    (root,) = [step for step in desk.store.get_all_steps() if step.container_id is None]
    again = ClaudeAgentRunner(Evaluator(desk.store), desk.store, anthropic_client=client).resume(root.workflow_id)

    assert again.outputs == {"queues": ["a", "b", "c"]}
    assert len(questions) == asked


# How much.


def test_as_many_events_are_answered_as_it_may_and_the_rest_can_be_taken_up_later() -> None:
    desk, tickets = Helpdesk(), ["a", "b", "c"]
    with messages_api(*[says(use("Triage", queue=ticket)) for ticket in tickets]) as api:
        first = run(api, "Each", desk=desk, inputs={"tickets": tickets}, max_dispatches=2)
        assert (first.status, len(first.pending_events), len(api.requests)) == ("PAUSED", 1, 2)
        runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=api.client())
        second = runner.resume(first.workflow_id)

    assert second.outputs == {"queues": tickets}


def test_a_store_that_is_not_the_evaluators_is_an_error_of_the_caller() -> None:
    desk, registry = Helpdesk(), ToolRegistry()
    registry.register("Triage", lambda payload: {"queue": "fire"})
    runner = ClaudeAgentRunner(desk.evaluator, Helpdesk().store, tool_registry=registry)

    with pytest.raises(RuntimeError, match=r"support.Triage of step .* waits in the evaluator's store"):
        runner.run("support.Sort", {"ticket": "t"}, desk.program)


def test_nothing_is_answered_when_nothing_may_be() -> None:
    with messages_api() as api:
        result = run(api, "Sort", max_dispatches=0)

    assert (result.success, result.status, api.requests) == (True, "PAUSED", [])


def test_a_workflow_that_was_cancelled_meanwhile_is_not_asked_about_any_more() -> None:
    desk, registry = Helpdesk(), ToolRegistry()
    seen: list[tuple[bool, bool]] = []

    def triage(payload: dict[str, object], context: Any) -> dict[str, object]:
        assert not context.is_cancelled
        desk.evaluator.cancel(context.workflow_id, "enough")
        seen.append((context.is_cancelled, context.is_stopping))
        return {"queue": "late"}

    registry.register("Triage", triage)
    result = run(None, "Each", registry, desk, inputs={"tickets": ["a", "b", "c"]})

    assert "enough" in why(result)
    assert seen == [(True, True)]


def test_tokens_are_counted_and_told_to_telemetry() -> None:
    desk = Helpdesk()
    with messages_api(says(text("Hm.")), says(use("Triage", queue="fire"))) as api:
        runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=api.client())
        runner.run("support.Sort", {"ticket": "t"}, desk.program)

    assert (runner.usage.requests, runner.usage.input_tokens, runner.usage.output_tokens) == (2, 200, 20)
    (event,) = [event for event in desk.telemetry.get_events() if event["eventType"] == "claude.answer"]
    assert event["details"] == {
        "facetName": "support.Triage",
        "model": "small-model",
        "requests": 2,
        "inputTokens": 200,
        "outputTokens": 20,
    }
