"""The loop of reasoning and acting: a model that calls functions until it has the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.pubsub.llm.conversations import calls_functions, is_answer
from afl_stream.pubsub.llm.function_command import FunctionCallTool
from afl_stream.pubsub.llm.functions import FunctionTool
from afl_stream.pubsub.llm.language_model import LanguageModel
from afl_stream.pubsub.llm.llm_command import MAX_REPLIES, LLMCommand
from afl_stream.pubsub.model.expressions import On
from afl_stream.pubsub.model.nodes import NodeBuilder
from afl_stream.pubsub.model.spans import NO_SPANS, Spans
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow

#: Names of topics. On a cluster they are part of Kafka's: never change them.
QUESTIONS: Final = "questions"
CALLS: Final = "calls"
RESULTS: Final = "results"
ANSWERS: Final = "answers"


def create_react_workflow(
    model: LanguageModel,
    functions: Sequence[Callable[..., object] | FunctionTool],
    *,
    name: str = "ReAct",
    system: str = "",
    max_replies: int = MAX_REPLIES,
    event_store: EventStore | None = None,
    spans: Spans = NO_SPANS,
) -> EventDrivenWorkflow:
    """Return a workflow of two nodes: one asks the model, the other runs the functions that it calls.

    A question, a text or a conversation, goes to the topic `questions`. A reply with calls goes to `calls`, the
    conversation with their results to `results` and so to the model again; a reply without calls is the output on
    `answers`: a conversation whose `text` is the answer.
    """
    calls, results = Topic(CALLS), Topic(RESULTS)
    ask = (
        NodeBuilder()
        .name("model")
        .command(LLMCommand(model, system=system, max_replies=max_replies))
        .subscribe(On(InputTopic(QUESTIONS)) | On(results))
        .publish_to(calls, when=calls_functions)
        .publish_to(OutputTopic(ANSWERS), when=is_answer)
    )
    act = NodeBuilder().name("functions").command(FunctionCallTool(*functions)).subscribe(calls).publish_to(results)
    builder = EventDrivenWorkflow.builder().name(name).node(ask).node(act).spans(spans)
    return (builder if event_store is None else builder.event_store(event_store)).build()
