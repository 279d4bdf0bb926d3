"""Nodes and their builder."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    InputTopic,
    InvokeContext,
    Node,
    NodeBuilder,
    OpenInferenceSpanKindValues,
    OutputTopic,
    SubscriptionBuilder,
    Topic,
)
from afl_stream.pubsub.model.function_command import FunctionCommand
from afl_stream.pubsub.model.names import BadTopicName
from afl_stream.pubsub.model.nodes import NodeInvalid

QUESTIONS, FACTS, ANSWERS = InputTopic("questions"), Topic("facts"), OutputTopic("answers")

#: How a node gets a name, at the end of the fault that it has none.
NAMED = "name(...) gives it one, a text of 1 to 249 characters on one line"


def echo(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    return [context.assistant_request_id, *(event.data for event in events)]


def event(data: object) -> ConsumeFromTopicEvent:
    return ConsumeFromTopicEvent("e1", "r1", "questions", 0, data)


def faults_of(builder: NodeBuilder) -> tuple[str, ...]:
    with pytest.raises(NodeInvalid) as raised:
        builder.build()
    assert all(fault in str(raised.value) for fault in raised.value.faults)
    return raised.value.faults


def test_a_builder_makes_a_node_of_all_that_it_was_told() -> None:
    node = (
        Node.builder()
        .name("answer")
        .type("Answerer")
        .oi_span_type(OpenInferenceSpanKindValues.LLM)
        .command(echo)
        .subscribe(SubscriptionBuilder().subscribed_to(QUESTIONS).and_().subscribed_to(FACTS))
        .publish_to(ANSWERS, when=bool)
        .publish_to(FACTS)
        .max_events(5)
        .build()
    )

    assert (node.name, node.type, node.oi_span_type, node.max_events) == ("answer", "Answerer", "LLM", 5)
    assert node.subscription == QUESTIONS & FACTS
    assert node.subscribed_topics == (QUESTIONS, FACTS)
    assert [(to.topic, to.is_conditional) for to in node.destinations] == [(ANSWERS, True), (FACTS, False)]
    assert [to.accepts("") for to in node.destinations] == [False, True]


def test_a_node_invokes_its_command() -> None:
    node = Node.builder().name("echo").command(echo).subscribe(QUESTIONS).build()

    async def run() -> list[object]:
        return [data async for data in node.invoke(InvokeContext(assistant_request_id="r1"), [event(7)])]

    assert asyncio.run(run()) == [["r1", 7]]


def test_a_node_can_be_invoked_when_its_subscription_is_met() -> None:
    node = Node.builder().name("echo").command(echo).subscribe(QUESTIONS & FACTS).build()

    assert node.can_invoke({"questions", "facts"})
    assert not node.can_invoke(["facts"])
    assert node.can_invoke(lambda name: True)


def test_several_subscriptions_are_joined_by_and() -> None:
    node = Node.builder().name("n").command(echo).subscribe(QUESTIONS).subscribe("facts | more").build()

    assert str(node.subscription) == "questions & (facts | more)"


def test_a_node_may_be_built_again_and_further() -> None:
    builder = Node.builder().name("n").command(echo).subscribe(QUESTIONS)
    first = builder.build()
    second = builder.publish_to(ANSWERS).build()

    assert first.destinations == ()
    assert [to.topic for to in second.destinations] == [ANSWERS]


def test_everything_that_is_missing_is_told_at_once() -> None:
    assert faults_of(Node.builder()) == (
        f"it has no name; {NAMED}",
        "it has no command; command(...) takes a function, or an object with invoke(context, events)",
        "it is subscribed to nothing; subscribe(...) takes a topic or an expression of topics",
    )


def test_everything_that_is_wrong_is_told_at_once() -> None:
    builder = Node.builder().name(" ").command("echo").subscribe("a &").publish_to("no topic").max_events(0)
    builder.publish_to(FACTS, when="yes")  # type: ignore[arg-type]  # as wrong as a program may be

    subscription, *others = faults_of(builder)

    assert subscription.startswith("a subscription cannot be read: a topic stands here, not the end")
    assert others == [
        "it publishes to 'no topic'; publish_to takes a topic, or the name of one",
        "max_events is 0; a run takes 1 event of each topic or more",
        "its condition for facts is a str; when=... takes a function of the data",
        f"its name is ' '; {NAMED}",
        "its command is a str; command(...) takes a function, or an object with invoke(context, events)",
    ]


def test_a_class_is_no_command() -> None:
    (fault,) = faults_of(Node.builder().name("n").command(FunctionCommand).subscribe(FACTS))

    assert fault.startswith("its command is the class FunctionCommand; command(...) takes")


def test_a_function_with_other_parameters_is_no_command() -> None:
    def lonely(events: object) -> object:
        return events

    (fault,) = faults_of(Node.builder().name("n").command(lonely).subscribe(FACTS))

    assert "lonely(events: object) -> object; it is called with two arguments, the context and the events" in fault


def test_a_node_is_told_as_json() -> None:
    node = Node.builder().name("n").command(echo).subscribe("a & b").publish_to(ANSWERS, when=bool).build()

    assert json.loads(json.dumps(node.to_dict())) == {
        "name": "n",
        "type": "Node",
        "oi_span_type": "CHAIN",
        "command": "echo",
        "subscription": {"text": "a & b", "topics": ["a", "b"]},
        "publish_to": [{"topic": "answers", "condition": "bool"}],
        "max_events": None,
        "retry": None,
    }


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a/b", "x" * 250, 7, None])
def test_a_topic_has_a_name_that_kafka_takes(name: object) -> None:
    with pytest.raises(BadTopicName, match="a topic's name has 1 to 249 letters"):
        Topic(name)  # type: ignore[arg-type]  # as wrong as a program may be


@pytest.mark.parametrize("name", ["two\nlines", "\x00", "\ud800", "x" * 250])
def test_a_node_has_a_name_that_can_be_shown(name: str) -> None:
    (fault,) = faults_of(Node.builder().name(name).command(echo).subscribe(FACTS))

    assert fault.startswith("its name is ")
    assert fault.endswith(NAMED)
