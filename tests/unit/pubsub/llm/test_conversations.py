"""Conversations as the data of events: how they travel, and how those of several events become one."""

from __future__ import annotations

import json

import pytest

from afl_stream.pubsub.llm.conversations import (
    Conversation,
    calls_functions,
    conversations_of,
    is_answer,
    question_text,
)
from afl_stream.pubsub.llm.errors import ConversationInvalid
from afl_stream.pubsub.llm.language_model import ModelReply
from afl_stream.pubsub.llm.messages import Message, Role, ToolCall, ToolResult, Usage
from tests.unit.pubsub.llm.scripted_model import call


def asked(text: str) -> Conversation:
    return Conversation().asked(text)


def with_calls(conversation: Conversation, *calls: ToolCall) -> Conversation:
    message = Message(role=Role.ASSISTANT, text="let me see", tool_calls=calls)
    usage = Usage(requests=1, input_tokens=7, output_tokens=3, cache_read_tokens=2)
    return conversation.replied(ModelReply(message=message, usage=usage, model="m-1"))


def result(call_id: str, text: str = "done", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, name="f", text=text, is_error=is_error)


def found(*data: object) -> tuple[Conversation, ...]:
    return conversations_of(data, question_text)


def test_a_conversation_travels_as_json_and_is_the_same_again() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "let me see"}]
    replied = Message(role=Role.ASSISTANT, text="let me see", provider="anthropic", provider_content=thinking)
    conversation = with_calls(asked("Wie spät? 🕐"), call("clock", "a", zone="CET"), call("clock", "b")).answered(
        [result("a", "12:00"), result("b", "no zone", is_error=True)]
    )
    conversation = conversation.replied(ModelReply(message=replied))

    again = Conversation.from_data(json.loads(json.dumps(conversation.to_data())))

    assert again == conversation
    assert again.text == "let me see"
    assert again.usage.input_tokens == 7


def test_the_calls_of_the_last_reply_are_open_until_each_has_a_result() -> None:
    first = with_calls(asked("q"), call("f", "a"), call("f", "b"))

    assert [opened.id for opened in first.open_calls] == ["a", "b"]
    assert [opened.id for opened in first.answered([result("b")]).open_calls] == ["a"]
    assert first.answered([result("b")]).answered([result("a")]).open_calls == ()
    assert asked("q").open_calls == ()


def test_a_question_is_a_text_or_words_for_other_data() -> None:
    assert found("Who?") == (asked("Who?"),)
    assert found({"city": "Köln"}) == (asked('{"city": "Köln"}'),)
    assert conversations_of([{"city": "Ulm"}], lambda data: "Where is it?") == (asked("Where is it?"),)


def test_questions_that_come_together_are_one_conversation() -> None:
    assert found("Who?", "And where?") == (asked("Who?").asked("And where?"),)


def test_a_question_goes_on_with_the_conversation_that_comes_with_it() -> None:
    conversation = with_calls(asked("q"), call("f", "a")).answered([result("a")])

    assert found("And?", conversation.to_data()) == (conversation.asked("And?"),)


def test_a_question_beside_several_conversations_begins_one_of_its_own() -> None:
    one, other = asked("one"), asked("two")

    assert found(one.to_data(), other.to_data(), "And?") == (one, other, asked("And?"))


def test_results_stand_behind_the_reply_that_asked_for_them_whatever_came_meanwhile() -> None:
    conversation = with_calls(asked("q"), call("f", "a"), call("f", "b")).asked("And?")

    answered = conversation.answered([result("a")]).answered([result("b")])

    assert [message.role for message in answered.messages] == ["user", "assistant", "tool", "user"]
    assert [given.call_id for given in answered.messages[2].tool_results] == ["a", "b"]
    assert answered.open_calls == ()


def test_declined_calls_are_errors_for_the_model() -> None:
    reply = with_calls(asked("q"), call("f", "a"), call("f", "b")).answered([result("a")])

    declined = reply.declined("not today")

    assert [(given.text, given.is_error) for given in declined.messages[-1].tool_results] == [
        ("done", False),
        ("not today", True),
    ]


def test_results_from_several_nodes_are_results_of_one_reply() -> None:
    reply = with_calls(asked("q"), call("f", "a"), call("g", "b"), call("h", "c"))
    parts = [reply.answered([result("b", "from g")]), reply.answered([result("a", "from f")]), reply.answered([])]

    (joined,) = found(*(part.to_data() for part in parts))

    assert [given.text for given in joined.messages[-1].tool_results] == ["from g", "from f"]
    assert [opened.id for opened in joined.open_calls] == ["c"]
    assert joined.usage == reply.usage


def test_the_same_result_twice_is_one_result() -> None:
    answered = with_calls(asked("q"), call("f", "a")).answered([result("a")])

    assert found(answered.to_data(), answered.to_data()) == (answered,)


def test_equal_questions_of_two_events_are_two_conversations() -> None:
    assert len(found(asked("q").to_data(), asked("q").to_data())) == 2


def test_conditions_tell_answers_from_calls() -> None:
    calls = with_calls(asked("q"), call("f")).to_data()
    answer = asked("q").replied(ModelReply(message=Message(role=Role.ASSISTANT, text="42")))

    assert (calls_functions(calls), is_answer(calls)) == (True, False)
    assert (calls_functions(answer.to_data()), is_answer(answer.to_data())) == (False, True)
    assert not any(
        condition(data) for condition in (calls_functions, is_answer) for data in ("text", asked("q").to_data())
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"messages": "hello"}, "messages is a str; it is a list of messages"),
        ({"messages": ["hello"]}, "messages[0] is a str; it is an object"),
        ({"messages": [{"role": "robot"}]}, "messages[0].role is 'robot'; it is one of user, assistant, tool"),
        ({"messages": [{"role": "user", "text": 7}]}, "messages[0].text is 7; it is a text"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]},
            "messages[0].tool_calls[0].id is missing; it is a text",
        ),
        ({"messages": [{"role": "tool", "tool_results": {}}]}, "messages[0].tool_results is a dict; it is a list"),
        ({"messages": [], "stop_reason": "bored"}, "stop_reason is 'bored'; it is one of end, tool_calls"),
        ({"messages": [], "usage": {"input_tokens": "many"}}, "usage.input_tokens is 'many'; it is a number of tokens"),
    ],
)
def test_data_that_only_looks_like_a_conversation_is_refused_by_its_place(data: object, complaint: str) -> None:
    with pytest.raises(ConversationInvalid) as refused:
        found(data)

    assert str(refused.value).startswith(complaint)
