"""Where a request stands whose workflow answers an event facet: it has its result, or asks somebody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from afl.core.declared_returns import DeclaredReturns
from afl_stream.bridge.errors import NotOneResult
from afl_stream.bridge.payloads import result_of
from afl_stream.pubsub import EventDrivenWorkflow, InWorkflowOutputTopic, OutputTopic, OutputTopicEvent
from afl_stream.pubsub.event_stores.store import StoredRequest

#: Makes the result of a step of the output of a workflow, in the order in which it was stored; or names the return that
#: the data of its one output event is. None: that data says it by its own keys, or the facet has one return.
WorkflowResults: TypeAlias = str | Callable[[Sequence[OutputTopicEvent]], Mapping[str, object]] | None


@dataclass(frozen=True, slots=True)
class Standing:
    """The output of a request so far, and its open questions, each with the topic that the answer goes to."""

    outputs: tuple[OutputTopicEvent, ...]
    questions: tuple[tuple[OutputTopicEvent, str], ...]


def standing_of(workflow: EventDrivenWorkflow, stored: StoredRequest) -> Standing:
    """Return where a request stands, by its stored events."""
    topics = workflow.definition.topics
    outputs: list[OutputTopicEvent] = []
    asked: dict[str, list[OutputTopicEvent]] = {}
    answered: dict[str, int] = {}
    for event in stored.events:
        topic = topics.get(event.name)
        if isinstance(event, OutputTopicEvent):
            if isinstance(topic, OutputTopic):
                outputs.append(event)
            elif isinstance(topic, InWorkflowOutputTopic) and topic.reply_to:
                asked.setdefault(topic.reply_to, []).append(event)
        elif hasattr(event, "publisher_name"):
            answered[event.name] = answered.get(event.name, 0) + 1
    questions = [
        (question, reply_to) for reply_to, events in asked.items() for question in events[answered.get(reply_to, 0) :]
    ]
    return Standing(tuple(outputs), tuple(questions))


def result_of_outputs(
    facet: str,
    workflow: str,
    outputs: Sequence[OutputTopicEvent],
    results: WorkflowResults,
    returns: DeclaredReturns | None,
) -> dict[str, object]:
    """Return the result of a step. Raises NotOneResult and ResultRefused."""
    if callable(results):
        return dict(results(outputs))
    if len(outputs) != 1:
        found = f"{len(outputs)} events of output" if outputs else "no output, and asks nobody"
        raise NotOneResult(facet, f"workflow {workflow}", found)
    return result_of(facet, outputs[0].data, results, returns)
