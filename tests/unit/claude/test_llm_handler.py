"""LLMHandler: Claude as a handler like any other, under pollers, runners and agents on a stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from afl.engine.model.store import WorkflowRow
from afl.runtime import AgentPoller, LLMHandler, LLMHandlerConfig, RegistryRunner, ToolDefinition, ToolRegistry
from afl.runtime.agent import ClaudeCutOff, ClaudeGaveNoAnswer, ClaudeUnavailable, tool_definitions
from afl.workers.polling_server import PollingServer
from tests.eventually import eventually
from tests.unit.claude.helpdesk import PROGRAM, Helpdesk, compiled
from tests.worlds.messages_api import Message, MessagesApi, messages_api, says, text, use
from tests.worlds.world import embedded

COLOUR = ToolDefinition(
    "paint",
    "Paints it.",
    {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
    ["thing"],
    ["colour"],
)


def named(*names: str) -> list[ToolDefinition]:
    return [tool for tool in tool_definitions(compiled()) if tool.name in names]


def test_the_payload_is_asked_about_and_the_tool_that_nobody_runs_answers() -> None:
    with messages_api(says(use("paint", colour="red"))) as api:
        handler = LLMHandler(api.client(), tool_definitions=[COLOUR])
        assert handler.handle({"thing": "door"}) == {"colour": "red"}

    (request,) = api.requests
    assert '"thing": "door"' in request["messages"][0]["content"]
    assert request["tools"][0]["input_schema"] == COLOUR.input_schema


PAINT: dict[str, Any] = {"name": "paint", "description": "Paints it.", "input_schema": COLOUR.input_schema}


def test_tools_may_be_plain_mappings_as_the_messages_api_takes_them() -> None:
    registry = ToolRegistry()
    registry.register("look", lambda payload: {"at": payload["thing"]})
    look = {"name": "look", "input_schema": {"type": "object", "properties": {"thing": {"type": "string"}}}}
    with messages_api(says(use("look", "u1", thing="door")), says(use("paint", "u2", colour="red"))) as api:
        handler = LLMHandler(api.client(), tool_definitions=[look, {**PAINT, "strict": True}], tool_registry=registry)
        assert handler.handle({"thing": "door"}) == {"colour": "red"}

    assert api.requests[0]["tools"] == [{**look, "description": ""}, PAINT]
    assert api.last_message(1)[0]["content"] == '{"at": "door"}'


def test_a_mapping_is_the_same_as_a_definition_and_what_a_model_gives_is_checked_by_either() -> None:
    fields = {"param_names": ["thing"], "prompt_block": {"template": "Paint {thing}"}, "facet_name": "art.Paint"}
    wrong, right = says(use("paint", "u1", colour=7)), says(use("paint", "u2", colour="red"))
    with messages_api(wrong, right) as api:
        handler = LLMHandler(api.client(), tool_definitions=[{**PAINT, **fields}])
        assert handler.handle({"_facet_name": "art.Paint", "thing": "door"}) == {"colour": "red"}

    assert api.requests[0]["messages"][0]["content"] == "Paint door"
    assert "colour: string wanted, found 7" in str(api.last_message(1))


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"description": "nameless"}, "a mapping with a name, found"),
        ("paint", "a mapping with a name, found 'paint'"),
        ({"name": "paint", "schema": {}}, "the tool paint has no input_schema, .* it has name, schema"),
        ({"name": "paint", "input_schema": "text"}, "the tool paint has no input_schema"),
    ],
)
def test_a_tool_that_is_none_is_refused_at_once(tool: Any, problem: str) -> None:
    with messages_api() as api, pytest.raises(ValueError, match=problem):
        LLMHandler(api.client(), tool_definitions=[tool])


def test_a_config_says_which_model_how_long_and_by_which_prompt() -> None:
    config = LLMHandlerConfig(model="mine", system_prompt="Paint {thing}", max_tokens=7)
    with messages_api(says(use("paint", colour="red"))) as api:
        handler = LLMHandler(
            api.client(), config, tool_definitions=[COLOUR], prompt_template="Which colour has {thing}? {{}}"
        )
        handler.handle({"thing": "the door"})

    request = api.requests[0]
    assert (request["model"], request["max_tokens"], request["system"]) == ("mine", 7, "Paint {thing}")
    assert request["messages"][0]["content"] == "Which colour has the door? {}"


def test_defaults_of_a_config() -> None:
    config = LLMHandlerConfig()

    assert (config.max_tokens, config.max_turns, config.max_retries) == (4096, 10, 2)
    assert config.model.startswith("claude-")
    assert config.system_prompt


def test_a_tool_with_a_handler_is_run_and_the_first_other_one_is_the_answer() -> None:
    registry = ToolRegistry()
    registry.register("Count", lambda payload: {"count": len(payload["words"])})
    with messages_api(says(use("Count", "u1", words=["a"])), says(use("Triage", "u2", queue="one"))) as api:
        handler = LLMHandler(api.client(), tool_definitions=named("Count", "Triage", "Find"), tool_registry=registry)
        assert handler.handle({"ticket": "t"}) == {"queue": "one"}

    assert api.last_message(1)[0]["content"] == '{"count": 1}'
    assert handler.usage.requests == 2


def test_without_definitions_whatever_claude_uses_is_the_answer_and_nothing_is_too() -> None:
    with messages_api(says(use("Anything", x=1)), says(text("Hm."))) as api:
        handler = LLMHandler(api.client(), LLMHandlerConfig(max_retries=0))

        assert handler.handle({}) == {"x": 1}
        assert handler.handle({}) == {}


def test_a_payload_that_names_its_facet_has_that_facets_tool_prompt_and_model() -> None:
    with messages_api(says(use("Triage", queue="fire"))) as api:
        handler = LLMHandler(api.client(), tool_definitions=named("Triage", "Count"))
        answer = handler.handle(
            {"ticket": "It burns", "tone": "loud", "_facet_name": "support.Triage", "_handler_metadata": {"m": 1}}
        )

    assert answer == {"queue": "fire"}
    assert api.requests[0]["system"] == "Answer with one queue name. Tone: loud"
    assert api.requests[0]["messages"][0]["content"] == "Ticket {1}:\nIt burns"
    assert api.requests[0]["model"] == "small-model"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (says(text("Hm.")), ClaudeGaveNoAnswer),
        (says(use("paint", colour=1)), ClaudeGaveNoAnswer),
        (says(stop_reason="max_tokens"), ClaudeCutOff),
        (None, ClaudeUnavailable),
    ],
)
def test_what_is_no_answer_is_raised(reply: Message | None, error: type[Exception]) -> None:
    with messages_api(*([] if reply is None else [reply])) as api:
        handler = LLMHandler(api.client(), LLMHandlerConfig(max_retries=0, max_turns=1), tool_definitions=[COLOUR])

        with pytest.raises(error):
            handler.handle({"thing": "door"})


def test_a_coroutine_may_use_either_kind_of_client() -> None:
    registry = ToolRegistry()

    async def count(payload: dict[str, Any], context: object) -> dict[str, Any]:
        return {"count": context}

    registry.register("Count", count)
    registry.register("Ping", lambda payload: {"pong": 1})
    script = [says(use("Count", "u1"), use("Ping", "u2")), says(use("Triage", queue="q"))]
    tools = named("Count", "Ping", "Triage")

    async def both(api: MessagesApi) -> list[dict[str, Any]]:
        asynchronous = api.async_client()
        async with asynchronous:
            return [
                await LLMHandler(client, tool_definitions=tools, tool_registry=registry).handle_async({}, "ctx")
                for client in (asynchronous, api.client())
            ]

    with messages_api(*script, *script) as api:
        assert asyncio.run(both(api)) == [{"queue": "q"}, {"queue": "q"}]

    for request in (1, 3):
        assert [block["content"] for block in api.last_message(request)] == ['{"count": "ctx"}', '{"pong": 1}']


def test_a_synchronous_call_says_that_it_cannot_use_an_asynchronous_client() -> None:
    async def calls(api: MessagesApi) -> None:
        async with api.async_client() as client:
            with pytest.raises(ClaudeUnavailable, match="handle_async"):
                LLMHandler(client, tool_definitions=[COLOUR]).handle({})

    with messages_api() as api:
        asyncio.run(calls(api))


# Under everything that calls handlers.


@pytest.mark.parametrize("server", [AgentPoller, RegistryRunner])
@pytest.mark.parametrize("is_async", [False, True])
def test_pollers_and_runners_call_it_as_any_other_handler(
    server: type[AgentPoller] | type[RegistryRunner], is_async: bool
) -> None:
    desk = Helpdesk()
    paused = desk.evaluator.execute("support.Sort", {"ticket": "It burns"}, desk.program)
    with messages_api(says(use("Triage", queue="fire"))) as api:
        handler = LLMHandler(api.client(), tool_definitions=named("Triage"))
        poller: PollingServer = server(desk.store, desk.evaluator)
        poller.register("support.Triage", handler.handle_async if is_async else handler.handle)  # type: ignore[attr-defined]  # both have it
        assert poller.poll_once() == 1

    row = desk.store.load_workflow(paused.workflow_id)
    assert row is not None
    assert (row.status, row.outputs) == ("COMPLETED", {"queue": "fire"})


def test_what_keeps_it_from_answering_fails_the_step_by_name() -> None:
    desk = Helpdesk()
    paused = desk.evaluator.execute("support.Sort", {"ticket": "It burns"}, desk.program)
    with messages_api(says(stop_reason="refusal")) as api:
        poller = AgentPoller(desk.store, desk.evaluator)
        poller.register("support.Triage", LLMHandler(api.client(), tool_definitions=named("Triage")).handle)
        poller.poll_once()

    row = desk.store.load_workflow(paused.workflow_id)
    assert row is not None
    assert row.error is not None
    assert (row.error.type, row.error.message) == ("ClaudeRefused", "Claude did not answer support.Triage: it refused")


def test_an_agent_on_a_stream_calls_it_as_any_other_handler() -> None:
    with messages_api(says(use("Triage", queue="fire")), says(stop_reason="refusal")) as api:
        handler = LLMHandler(api.client(), tool_definitions=named("Triage"))
        good, bad = (_through_the_loop(handler) for _ in range(2))

    assert (good.status, good.outputs) == ("COMPLETED", {"queue": "fire"})
    assert bad.status == "ERROR"
    assert bad.error is not None
    assert bad.error.type == "ClaudeRefused"


def _through_the_loop(handler: LLMHandler) -> WorkflowRow:
    """How a workflow ends whose events go to an agent on a stream."""
    deployment = embedded(None, PROGRAM)
    deployment.evaluator()
    worker = deployment.worker({"support.Triage": handler.handle})
    workflow_id = deployment.client.start("support.Sort", {"ticket": "It burns"})

    def has_ended() -> bool:
        deployment.round()
        row = deployment.store.load_workflow(workflow_id)
        return row is not None and row.status in ("COMPLETED", "ERROR")

    eventually(has_ended)
    deployment.remove(worker, killed=False)
    return deployment.workflow(workflow_id)
