"""Anthropic's models, against a server that speaks the Messages API."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from afl_stream.pubsub.llm.anthropic_model import AnthropicModel
from afl_stream.pubsub.llm.conversations import Conversation
from afl_stream.pubsub.llm.errors import ContextFull, ModelFailed, ModelRefused, ModelUnavailable, ReplyCutOff
from afl_stream.pubsub.llm.function_command import FunctionCallTool
from afl_stream.pubsub.llm.language_model import FunctionSpec, LanguageModel, ModelReply
from afl_stream.pubsub.llm.messages import Message, Role, StopReason, ToolCall, ToolResult, Usage
from tests.worlds.messages_api import API_KEY, HttpError, MessagesApi, messages_api, says, text, use

MODEL = "claude-test-1"


def convert(amount: float, unit: str = "km") -> float:
    """Convert a length to metres."""
    return amount * 1000


def generate(
    api: MessagesApi, *messages: Message, tools: Sequence[FunctionSpec] = (), system: str = "", **settings: Any
) -> ModelReply:
    """Ask the server's model, and go over JSON as messages between nodes do."""

    async def ask() -> ModelReply:
        async with api.async_client(settings.pop("max_retries", 0)) as client:
            return await AnthropicModel(MODEL, client=client, **settings).generate(messages, tools, system=system)

    travelled = tuple(Message.from_data(json.loads(json.dumps(message.to_data()))) for message in messages)
    assert travelled == messages
    return asyncio.run(ask())


def question(words: str = "How far?") -> Message:
    return Message(role=Role.USER, text=words)


def reply(words: str = "", *calls: ToolCall) -> Message:
    return Message(role=Role.ASSISTANT, text=words, tool_calls=calls)


def results(*given: ToolResult) -> Message:
    return Message(role=Role.TOOL, tool_results=given)


def test_it_is_a_language_model_with_the_environments_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_CLAUDE_MODEL", "claude-of-the-house")

    assert isinstance(AnthropicModel(), LanguageModel)
    assert AnthropicModel().model == "claude-of-the-house"


def test_an_answer_is_read_with_its_cost() -> None:
    with messages_api(says(text("12 km"), text(", by road"))) as api:
        given = generate(api, question(), system="Be short.")

    assert given == ModelReply(
        message=reply("12 km, by road"),
        usage=Usage(requests=1, input_tokens=100, output_tokens=10),
        model=MODEL,
    )
    assert api.requests[0] == {
        "model": MODEL,
        "max_tokens": 4096,
        "system": "Be short.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "How far?"}]}],
    }


def test_functions_are_tools_and_their_calls_are_read() -> None:
    tools = FunctionCallTool(convert).function_specs()
    with messages_api(says(text("Let me see."), use("convert", "t1", amount=3), use("convert", "t2", amount=4))) as api:
        given = generate(api, question(), tools=tools)

    assert given.stop_reason is StopReason.TOOL_CALLS
    assert given.message == reply(
        "Let me see.",
        ToolCall(id="t1", name="convert", arguments={"amount": 3}),
        ToolCall(id="t2", name="convert", arguments={"amount": 4}),
    )
    assert api.requests[0]["tools"] == [
        {"name": "convert", "description": "Convert a length to metres.", "input_schema": tools[0]["parameters"]}
    ]


def test_results_and_a_further_question_are_one_message_of_the_user() -> None:
    calls = (ToolCall(id="t1", name="convert", arguments={"amount": 3}), ToolCall(id="t2", name="gone"))
    with messages_api(says(text("3 km."))) as api:
        generate(
            api,
            question(),
            reply("", *calls),
            results(ToolResult(call_id="t1", name="convert", text="3000")),
            results(ToolResult(call_id="t2", name="gone", text="there is no function gone", is_error=True)),
            question("And back?"),
        )

    assert api.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "convert", "input": {"amount": 3}},
                {"type": "tool_use", "id": "t2", "name": "gone", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "3000"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": "there is no function gone",
                    "is_error": True,
                },
                {"type": "text", "text": "And back?"},
            ],
        },
    ]


def test_an_empty_reply_is_left_out_of_what_is_sent_again() -> None:
    with messages_api(says(), says(text("12 km"))) as api:
        silent = generate(api, question())
        spoken = generate(api, question(), silent.message, question("Well?"))

    assert (silent.message.text, silent.stop_reason) == ("", StopReason.END)
    assert spoken.message.text == "12 km"
    assert [block["text"] for block in api.last_message(1)] == ["How far?", "Well?"]


def test_a_call_with_arguments_of_another_provider_is_sent_as_an_object() -> None:
    broken = ToolCall(id="t1", name="convert", arguments='{"amount": ')
    with messages_api(says(text("ok"))) as api:
        generate(api, question(), reply("", broken), results(ToolResult(call_id="t1", name="convert", text="no JSON")))

    assert api.requests[0]["messages"][1]["content"][0]["input"] == {"arguments": '{"amount": '}


def test_what_only_the_provider_understands_goes_back_to_it_as_it_was() -> None:
    thinking = {"type": "thinking", "thinking": "3 km are 3000 m", "signature": "c2lnbmVk"}
    with messages_api(says(thinking, use("convert", "t1", amount=3)), says(text("3000 m"))) as api:
        first = generate(api, question())
        generate(api, question(), first.message, results(ToolResult(call_id="t1", name="convert", text="3000")))

    assert first.message.tool_calls[0].name == "convert"
    assert api.requests[1]["messages"][1]["content"] == [thinking, use("convert", "t1", amount=3)]


def test_a_reply_that_the_api_pauses_is_one_reply() -> None:
    pause = says(text("First, "), stop_reason="pause_turn")
    with messages_api(pause, says(text("then."))) as api:
        given = generate(api, question())

    assert given.message == reply("First, then.")
    assert given.usage == Usage(requests=2, input_tokens=200, output_tokens=20)
    assert api.requests[1]["messages"][1] == {"role": "assistant", "content": [text("First, ")]}


def test_a_reply_that_the_api_pauses_for_ever_is_given_up() -> None:
    with (
        messages_api(*[says(text("..."), stop_reason="pause_turn")] * 20) as api,
        pytest.raises(ModelUnavailable) as up,
    ):
        generate(api, question())

    assert str(up.value) == f"model {MODEL}: the API paused one reply 11 times"


def test_options_and_the_mark_for_the_cache_are_part_of_the_request() -> None:
    with messages_api(says(text("ok"))) as api:
        generate(api, question(), max_tokens=99, cache_prompt=True, options={"stop_sequences": ["END"]})

    assert api.requests[0]["max_tokens"] == 99
    assert api.requests[0]["stop_sequences"] == ["END"]
    assert api.last_message(0)[-1]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        (says(text("I"), stop_reason="refusal"), ModelRefused, "it refused"),
        (
            says(text("I"), stop_reason="refusal", details={"type": "refusal", "explanation": "not this"}),
            ModelRefused,
            "it refused: not this",
        ),
        (says(text("I"), stop_reason="max_tokens"), ReplyCutOff, "the reply is longer than 4096 tokens; raise max"),
        (
            says(text("I"), stop_reason="model_context_window_exceeded"),
            ContextFull,
            "the conversation is longer than the model can hold",
        ),
        (
            HttpError(400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
            ContextFull,
            "the conversation is longer than the model can hold: BadRequestError",
        ),
        (HttpError(400, "invalid_request_error", "max_tokens: too many"), ModelUnavailable, "BadRequestError"),
        (HttpError(401, "authentication_error", "invalid x-api-key"), ModelUnavailable, "AuthenticationError"),
        (HttpError(404, "not_found_error", "model: claude-test-1"), ModelUnavailable, "NotFoundError"),
        (HttpError(529, "overloaded_error", "Overloaded"), ModelUnavailable, "OverloadedError"),
    ],
)
def test_each_way_to_fail_has_its_error_that_names_the_model(said: Any, kind: type[ModelFailed], reason: str) -> None:
    with messages_api(said) as api, pytest.raises(ModelFailed) as failed:
        generate(api, question())

    assert type(failed.value) is kind
    assert str(failed.value).startswith(f"model {MODEL}: {reason}")
    assert API_KEY not in str(failed.value)
    assert failed.value.__cause__ is None


def test_temporary_failures_are_tried_again() -> None:
    again = {"retry-after-ms": "1"}
    script = [HttpError(429, "rate_limit_error", headers=again), HttpError(529, "overloaded_error", headers=again)]
    with messages_api(*script, says(text("at last"))) as api:
        given = generate(api, question(), max_retries=2)

    assert given.message.text == "at last"
    assert len(api.requests) == 3


def test_without_a_client_one_is_made_of_the_environment_for_each_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AnthropicModel(MODEL)

    async def ask() -> list[str]:
        async with model:
            texts = [(await model.generate([question()])).message.text for _ in range(2)]
        await model.close()
        return texts

    with messages_api(*(says(text(word)) for word in ("one", "two", "three", "four"))) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", API_KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        assert asyncio.run(ask()) == ["one", "two"]
        assert asyncio.run(ask()) == ["three", "four"]


def test_the_conversation_of_another_model_is_understood() -> None:
    other = Message(role=Role.ASSISTANT, text="12 km", provider="other", provider_content={"opaque": True})
    with messages_api(says(text("Yes."))) as api:
        generate(api, *Conversation(messages=(question(), other)).asked("Really?").messages)

    assert api.requests[0]["messages"][1] == {"role": "assistant", "content": [text("12 km")]}


def test_it_loads_neither_the_engine_nor_compiled_programs() -> None:
    program = (
        "import sys\n"
        "import afl_stream.pubsub.llm.anthropic_model\n"
        "heavy = ('afl.engine', 'afl.compiled', 'anthropic', 'pydantic')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"
