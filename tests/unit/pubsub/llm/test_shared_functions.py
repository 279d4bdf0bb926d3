"""Functions of nodes behind one LLM node: each call is run by one of them."""

from __future__ import annotations

import pytest

from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, NodeBuilder, NodeInvalid, OutputTopic
from afl_stream.pubsub.llm import FunctionCallTool, LLMCommand, calls_functions, is_answer
from tests.unit.pubsub.llm.scripted_model import ScriptedModel


def find(text: str) -> str:
    return text


def workflow_with(first: str, second: str) -> EventDrivenWorkflow:
    """Return a workflow of a model and two nodes that run the same function, on these topics of calls."""
    ask = NodeBuilder().name("ask").command(LLMCommand(ScriptedModel())).subscribe(InputTopic("questions"))
    for topic in dict.fromkeys((first, second)):
        ask.publish_to(topic, when=calls_functions)
    builder = EventDrivenWorkflow.builder().node(ask.publish_to(OutputTopic("answers"), when=is_answer))
    for name, topic in (("one", first), ("other", second)):
        node = NodeBuilder().name(name).command(FunctionCallTool(find)).subscribe(topic)
        builder.node(node.publish_to(OutputTopic(f"found-{name}")))
    return builder.build()


def test_two_nodes_that_would_run_one_call_are_refused() -> None:
    with pytest.raises(
        NodeInvalid, match="node ask: nodes one and other both run function find for each call on topic"
    ):
        workflow_with("calls", "calls")


def test_nodes_with_calls_of_their_own_may_have_the_same_function() -> None:
    assert set(workflow_with("cheap", "dear").nodes) == {"ask", "one", "other"}
