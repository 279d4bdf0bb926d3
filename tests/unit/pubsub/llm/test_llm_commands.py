"""The commands of nodes that ask a model and of nodes that run its functions, one run at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from afl.core.values import plain_value
from afl_stream.pubsub.llm.conversations import Conversation
from afl_stream.pubsub.llm.errors import ConversationInvalid, FunctionUnusable, ModelUnavailable, TooManyReplies
from afl_stream.pubsub.llm.function_command import FunctionCallTool
from afl_stream.pubsub.llm.functions import FunctionTool
from afl_stream.pubsub.llm.language_model import FunctionSpec, LanguageModel, ModelReply
from afl_stream.pubsub.llm.llm_command import LLMCommand
from afl_stream.pubsub.llm.messages import Message, Role, ToolCall
from afl_stream.pubsub.llm.storable_messages import storable
from afl_stream.pubsub.model.commands import CallsFunctions, Command, RunsFunctions
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from tests.unit.pubsub.llm.scripted_model import ScriptedModel, call

CONTEXT = InvokeContext(assistant_request_id="r1")


def run(command: Command, *data: object) -> list[Any]:
    """Run a command with events of this data, and return what it yields, as it would be read from a store."""

    async def collect() -> list[object]:
        events = [ConsumeFromTopicEvent(f"e{n}", "r1", "t", n, item) for n, item in enumerate(data)]
        return [json.loads(json.dumps(item)) async for item in command.invoke(CONTEXT, events)]

    return asyncio.run(collect())


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shout(text: str) -> str:
    """Write in capitals."""
    return text.upper()


def results_in(data: Any) -> list[tuple[str, str, bool]]:
    """Return the results in the last message of event data: call, text, and whether it is an error."""
    return [
        (found.call_id, found.text, found.is_error) for found in Conversation.from_data(data).messages[-1].tool_results
    ]


def asked_by(model: ScriptedModel, question: str = "q", *tools: FunctionCallTool) -> Any:
    """Return the data with the model's first reply to a question."""
    command = LLMCommand(model, specs=[spec for tool in tools for spec in tool.function_specs()])
    return run(command, question)[0]


def test_the_commands_keep_the_ports_of_the_model() -> None:
    llm, functions = LLMCommand(ScriptedModel()), FunctionCallTool(add)

    assert isinstance(llm, Command)
    assert isinstance(llm, CallsFunctions)
    assert not isinstance(llm, RunsFunctions)
    assert isinstance(functions, Command)
    assert isinstance(functions, RunsFunctions)
    assert not isinstance(functions, CallsFunctions)
    assert isinstance(ScriptedModel(), LanguageModel)


def test_a_question_is_answered_with_the_conversation_so_far() -> None:
    model = ScriptedModel("It is Paris.")

    (answer,) = run(LLMCommand(model), "Capital of France?")

    assert answer == {
        "text": "It is Paris.",
        "messages": [{"role": "user", "text": "Capital of France?"}, {"role": "assistant", "text": "It is Paris."}],
        "stop_reason": "end",
        "usage": {
            "requests": 1,
            "input_tokens": 20,
            "output_tokens": 5,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
        },
    }


def test_a_loop_of_calls_goes_on_with_what_events_carry_and_counts_its_cost() -> None:
    model = ScriptedModel([call("add", "c1", a=1, b=2)], [call("add", "c2", a=3, b=4)], "7 it is")
    functions = FunctionCallTool(add)
    llm = LLMCommand(model, specs=functions.function_specs())

    data = run(llm, "1+2+4?")[0]
    while data["stop_reason"] == "tool_calls":
        data = run(llm, run(functions, data)[0])[0]

    assert data["text"] == "7 it is"
    assert data["usage"]["requests"] == 3
    assert [message["role"] for message in data["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert model.asked[2][4].tool_results[0].text == "7"


def test_every_call_of_a_reply_is_answered_in_its_order() -> None:
    functions = FunctionCallTool(add, shout)
    calls = [call("shout", "c1", text="a"), call("add", "c2", a=1, b="x"), call("shout", "c3", text="b")]
    data = asked_by(ScriptedModel(calls), "q", functions)

    results = results_in(run(functions, data)[0])

    assert [(call_id, is_error) for call_id, _, is_error in results] == [("c1", False), ("c2", True), ("c3", False)]
    assert results[0][1] == "A"
    assert "b: Input should be a valid integer" in results[1][1]


def test_the_calls_of_a_reply_run_at_once() -> None:
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    functions = FunctionCallTool(meet)
    data = asked_by(ScriptedModel([call("meet", "c1"), call("meet", "c2")]), "q", functions)

    assert [text for _, text, _ in results_in(run(functions, data)[0])] == ["met", "met"]


def test_a_call_of_an_unknown_function_is_an_error_that_names_the_known_ones() -> None:
    functions = FunctionCallTool(add, shout)
    model = ScriptedModel([call("divide", "c1", a=1), call("shout", "c2", text="a")], "sorry")
    llm = LLMCommand(model, specs=functions.function_specs())

    run(llm, run(functions, run(llm, "q")[0])[0])

    results = model.asked[1][-1].tool_results
    assert [(found.call_id, found.is_error) for found in results] == [("c2", False), ("c1", True)]
    assert results[1].text == "there is no function divide; there is add, shout"


def test_two_nodes_answer_their_own_calls_and_together_all_of_them() -> None:
    adder, shouter = FunctionCallTool(add), FunctionCallTool(shout)
    model = ScriptedModel([call("shout", "c1", text="a"), call("add", "c2", a=1, b=1)], "done")
    llm = LLMCommand(model, specs=[*adder.function_specs(), *shouter.function_specs()])
    data = run(llm, "q")[0]

    run(llm, run(adder, data)[0], run(shouter, data)[0])

    assert [found.text for found in model.asked[1][-1].tool_results] == ["2", "A"]


def test_a_node_without_a_call_of_its_own_still_hands_on_the_conversation() -> None:
    adder, shouter = FunctionCallTool(add), FunctionCallTool(shout)
    data = asked_by(ScriptedModel([call("add", "c1", a=1, b=1)]), "q", adder, shouter)

    (handed_on,) = run(shouter, data)

    assert Conversation.from_data(handed_on).open_calls == Conversation.from_data(data).open_calls
    assert "stop_reason" not in handed_on


def test_results_that_are_still_missing_are_no_question_to_the_model() -> None:
    adder, shouter = FunctionCallTool(add), FunctionCallTool(shout)
    model = ScriptedModel([call("shout", "c1", text="a"), call("add", "c2", a=1, b=1)], "never said")
    llm = LLMCommand(model, specs=[*adder.function_specs(), *shouter.function_specs()])

    with pytest.raises(ConversationInvalid, match=r"call c1 of function shout has no result .* subscribes with &"):
        run(llm, run(adder, run(llm, "q")[0])[0])

    assert len(model.asked) == 1


def test_a_consent_beside_the_calls_lets_them_run_and_is_no_part_of_the_conversation() -> None:
    functions = FunctionCallTool(add)
    data = asked_by(ScriptedModel([call("add", "c1", a=1, b=1)]), "q", functions)

    (answered,) = run(functions, data, "yes")

    assert [message["role"] for message in answered["messages"]] == ["user", "assistant", "tool"]
    with pytest.raises(ConversationInvalid, match="no event of t has a conversation with calls of functions"):
        run(functions, "yes")


def test_several_conversations_of_one_run_are_asked_at_once_and_yielded_in_order() -> None:
    class Echo:
        model = "echo"

        def __init__(self) -> None:
            self.all = asyncio.Barrier(3)

        async def generate(
            self, messages: Sequence[Message], tools: Sequence[FunctionSpec] = (), *, system: str = ""
        ) -> ModelReply:
            await self.all.wait()
            return await ScriptedModel(messages[-1].text).generate(messages)

    questions = [Conversation().asked(text).to_data() for text in ("a", "b", "c")]

    assert [data["text"] for data in run(LLMCommand(Echo()), *questions)] == ["a", "b", "c"]


def test_the_failure_of_one_conversation_is_the_models_own_error() -> None:
    questions = [Conversation().asked(text).to_data() for text in ("a", "b", "c")]

    with pytest.raises(ModelUnavailable, match="model scripted-1: the script is over"):
        run(LLMCommand(ScriptedModel("a", "b")), *questions)


def test_a_model_that_calls_again_and_again_is_stopped() -> None:
    functions = FunctionCallTool(add)
    model = ScriptedModel(*([call("add", "c", a=1, b=1)] for _ in range(10)))
    llm = LLMCommand(model, specs=functions.function_specs(), max_replies=3)

    def loop() -> None:
        data: object = "q"
        for _ in range(10):
            data = run(functions, run(llm, data)[0])[0]

    with pytest.raises(TooManyReplies, match="model scripted-1: gave no answer in 3 replies to one question"):
        loop()

    assert len(model.asked) == 3


def test_a_further_question_has_all_its_replies_again() -> None:
    model = ScriptedModel("one", "two")
    llm = LLMCommand(model, max_replies=1)

    first = Conversation.from_data(run(llm, "q")[0])

    assert run(llm, first.asked("and?").to_data())[0]["text"] == "two"


def test_a_model_is_told_of_the_functions_in_order_and_of_each_once() -> None:
    functions = FunctionCallTool(shout, add)
    model = ScriptedModel("ok")
    llm = LLMCommand(model)
    llm.add_function_specs(functions.function_specs())
    llm.add_function_specs(FunctionCallTool(shout, add).function_specs())

    run(llm, "q")

    assert [spec["name"] for spec in model.tools[0]] == ["shout", "add"]


def test_two_different_functions_of_one_name_are_refused() -> None:
    llm = LLMCommand(ScriptedModel())
    llm.add_function_specs(FunctionCallTool(add).function_specs())

    with pytest.raises(FunctionUnusable, match="function add: two nodes behind one LLM node"):
        llm.add_function_specs([FunctionTool(shout, name="add").spec])
    with pytest.raises(FunctionUnusable, match="function add: a function of this name is there already"):
        FunctionCallTool(add, FunctionTool(shout, name="add"))


def test_cancelling_a_node_ends_the_calls_that_it_runs() -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    functions = FunctionCallTool(wait)
    data = asked_by(ScriptedModel([call("wait", "c1", name="a"), call("wait", "c2", name="b")]), "q", functions)

    async def cancel() -> bool:
        async def consume() -> None:
            async for _ in functions.invoke(CONTEXT, [ConsumeFromTopicEvent("e", "r1", "t", 0, data)]):
                raise AssertionError

        task = asyncio.create_task(consume())
        while len(asyncio.all_tasks()) < 4:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled() and len(asyncio.all_tasks()) == 1

    assert asyncio.run(cancel())
    assert sorted(ended) == ["a", "b"]


def test_arguments_that_are_no_json_are_an_error_for_the_model() -> None:
    functions = FunctionCallTool(add)
    broken = ToolCall(id="c1", name="add", arguments='{"a": 1, "b"')
    data = asked_by(ScriptedModel([broken]), "q", functions)

    assert results_in(run(functions, data)[0]) == [
        ("c1", 'add was not called: the arguments are no JSON object: "{\\"a\\": 1, \\"b\\""', True)
    ]


def _nested(levels: int) -> object:
    value: object = "core"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "given",
    ["half \ud83d", 10**30, -(2**63) - 1, float("inf"), float("nan"), {"na\ud83dme": 1}, _nested(60), _nested(300)],
    ids=["surrogate", "huge", "low", "infinite", "nan", "name", "deep", "deeper"],
)
def test_what_no_event_can_hold_does_not_end_the_request(given: object) -> None:
    """A model may say anything; the function refuses it, and the model hears of that."""

    def take(value: int) -> int:
        return value

    functions = FunctionCallTool(take)
    strange = Message(
        role=Role.ASSISTANT,
        text="half \ud83d",
        tool_calls=(ToolCall(id="c\ud83d", name="take", arguments={"value": given}),),
        provider="other",
        provider_content=[given],
    )

    class Strange(ScriptedModel):
        async def generate(
            self, messages: Sequence[Message], tools: Sequence[FunctionSpec] = (), *, system: str = ""
        ) -> ModelReply:
            return ModelReply(message=strange)

    (data,) = run(LLMCommand(Strange(), specs=functions.function_specs()), "q")
    (answered,) = run(functions, plain_value(data, "data"))

    assert data["text"] == "half ?"
    ((call_id, text, is_error),) = results_in(plain_value(answered, "data"))
    assert (call_id, is_error) == ("c?", True)
    assert text.startswith("take was not called: ")


def test_what_an_event_can_hold_is_kept_as_it_is() -> None:
    message = Message(
        role=Role.ASSISTANT,
        text="ok",
        tool_calls=(call("f", "c1", deep=[{"a": [1, 2.5, None, True]}]),),
        provider="other",
        provider_content={"signature": "c2ln"},
    )

    assert storable(message) == message
