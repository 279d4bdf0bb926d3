"""The bridge: AFL workflows publish to topics and wait for them; nodes and event-driven workflows answer facets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from afl.engine.model.store import COMPLETED, ERROR, WorkflowRow
from afl_stream.bridge.bridge import Bridge
from afl_stream.bridge.errors import BridgeInvalid
from afl_stream.bridge.topics import WorkflowTopic
from afl_stream.embedded.transport import Faults
from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    Node,
    NodeBuilder,
    OutputTopic,
)
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.topics import WorkflowTopics, apply_topics
from afl_stream.pubsub.hosting.worker import WorkflowWorker
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY, in_worlds

WORKFLOW_ID = "run-1"
NEWS = """
namespace news {
  event facet Summarise(text: String, words: Long = 2) => (summary: String)
  event facet Count(text: String) => (words: Long, letters: Long)
  workflow Digest(text: String) => (summary: String, words: Long) andThen {
    s = Summarise(text = $.text)
    c = Count(text = s.summary)
    yield Digest(summary = s.summary, words = c.words)
  }
}
"""
TEXT = "the first of many words"


@contextmanager
def bridged(deployment: Deployment, bridge: Bridge) -> Iterator[None]:
    """Run an evaluator, an agent with the handlers of a bridge, and the bridge."""
    deployment.evaluator()
    transport = deployment.cluster.transport(Faults())
    bridge.apply_topics(transport)
    if bridge.facets:
        worker = deployment.worker({})
        bridge.register_on(worker.agent)
        # A deployment that settles waits for the partitions of these.
        worker.facets = bridge.facets
    with bridge.running(transport):
        deployment.settle()
        yield


def ended(deployment: Deployment, workflow: str, inputs: Mapping[str, object]) -> WorkflowRow:
    deployment.client.start(workflow, inputs, workflow_id=WORKFLOW_ID)
    deployment.settle()
    return deployment.workflow(WORKFLOW_ID)


def node(function: Any, *topics: str, name: str = "worker") -> Node:
    return NodeBuilder().name(name).command(function).subscribe(" & ".join(topics or ("texts",))).build()


def summarised(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    (event,) = events
    assert isinstance(event.data, dict)
    return " ".join(event.data["text"].split()[: event.data["words"]])


async def counted(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> AsyncIterator[object]:
    assert isinstance(events[0].data, dict)
    text = events[0].data["text"]
    yield {"words": len(text.split()), "letters": len(text)}


def test_nodes_answer_the_event_facets_of_a_workflow(world: World) -> None:
    deployment = world.deployment(NEWS)
    bridge = Bridge(deployment.config)
    bridge.answer("news.Summarise", node(summarised))
    bridge.answer("news.Count", node(counted))

    with bridged(deployment, bridge):
        row = ended(deployment, "news.Digest", {"text": TEXT})

    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs == {"summary": "the first", "words": 2}


# --- a node as the agent of a facet -----------------------------------------------------------------------------------


def nothing(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> None:
    return None


def twice(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> Iterator[object]:
    yield "one"
    yield "two"


def broken(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> object:
    raise LookupError("no such dictionary")


def number(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> object:
    return 7


@pytest.mark.parametrize(
    ("function", "facet", "error_type", "said"),
    [
        (nothing, "news.Summarise", "NotOneResult", "node worker gave no data for facet news.Summarise"),
        (twice, "news.Summarise", "NotOneResult", "gave data more than once"),
        (broken, "news.Summarise", "LookupError", "no such dictionary"),
        (
            number,
            "news.Count",
            "ResultRefused",
            "found 7, expected a dict of returns; the returns of the facet are words,",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@in_worlds([MEMORY])
def test_a_node_that_gives_no_result_fails_its_step(
    world: World, function: Any, facet: str, error_type: str, said: str
) -> None:
    deployment = world.deployment(NEWS)
    bridge = Bridge(deployment.config)
    for each, usual in (("news.Summarise", summarised), ("news.Count", counted)):
        bridge.answer(each, node(function if each == facet else usual))

    with bridged(deployment, bridge):
        row = ended(deployment, "news.Digest", {"text": TEXT})

    assert row.status == ERROR
    assert row.error is not None
    assert row.error.type == error_type
    assert said in row.error.message


@in_worlds([MEMORY])
def test_the_result_may_be_named_or_made(world: World) -> None:
    deployment = world.deployment(NEWS)
    bridge = Bridge(deployment.config)
    bridge.answer("news.Summarise", node(summarised), results="summary")
    bridge.answer("news.Count", node(number), results=lambda words: {"words": words, "letters": 0})

    with bridged(deployment, bridge):
        row = ended(deployment, "news.Digest", {"text": TEXT})

    assert row.outputs == {"summary": "the first", "words": 7}


@in_worlds([MEMORY])
def test_a_command_sees_the_event_and_the_run_that_it_answers(world: World) -> None:
    seen: list[tuple[InvokeContext, ConsumeFromTopicEvent]] = []

    def look(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        seen.append((context, events[0]))
        return "seen"

    deployment = world.deployment(NEWS)
    bridge = Bridge(deployment.config)
    bridge.answer("news.Summarise", node(look, "texts", "others"), topic="texts")
    bridge.answer("news.Count", node(counted))

    with bridged(deployment, bridge):
        ended(deployment, "news.Digest", {"text": TEXT})

    ((context, event),) = seen
    (step,) = [step for step in deployment.steps(WORKFLOW_ID) if step.facet_name == "news.Summarise"]
    assert (event.name, event.data, event.consumer_name) == ("texts", {"text": TEXT, "words": 2}, "worker")
    assert event.event_id == context.invoke_id == f"{step.id}#1"
    assert event.assistant_request_id == context.assistant_request_id == context.conversation_id == WORKFLOW_ID
    assert context.attributes == {"facet": "news.Summarise", "step_id": step.id, "attempt": 1}


@in_worlds([MEMORY])
def test_a_node_of_several_topics_is_told_which_one_the_payload_is_from(world: World) -> None:
    bridge = Bridge(world.deployment().config)

    with pytest.raises(BridgeInvalid, match="it is subscribed to texts, others; topic=NAME says which"):
        bridge.answer("news.Summarise", node(summarised, "texts", "others"))
    with pytest.raises(BridgeInvalid, match="subscribed to texts; topic=NAME"):
        bridge.answer("news.Summarise", node(summarised), topic="others")


@in_worlds([MEMORY])
def test_a_facet_is_answered_once(world: World) -> None:
    bridge = Bridge(world.deployment().config)
    bridge.answer("news.Summarise", node(summarised))

    with pytest.raises(BridgeInvalid, match=r"facet news\.Summarise: the bridge answers it already"):
        bridge.answer("news.Summarise", node(summarised))


# --- publishing -------------------------------------------------------------------------------------------------------

ORDERS = """
namespace orders {
  event facet Announce(order: String, euros: Long, note: String = "none") => (event_id: String, topic: String)
  event facet Remember(order: String)
  workflow Order(order: String, euros: Long) => (event_id: String, topic: String, approved: Json) andThen {
    told = Announce(order = $.order, euros = $.euros)
    kept = Remember(order = $.order)
    answer = afl.WaitForEvent(name = "approved")
    yield Order(event_id = told.event_id, topic = told.topic, approved = answer.data)
  }
}
"""
ORDER = {"order": "7", "euros": 12}


def test_an_event_facet_publishes_to_a_topic_and_the_workflow_waits_for_the_answer(world: World) -> None:
    deployment = world.deployment(ORDERS)
    announced, approvals = (f"{deployment.config.prefix}{name}" for name in ("announced", "approvals"))
    bridge = Bridge(deployment.config)
    bridge.publish("orders.Announce", to=announced, request_id="order")
    bridge.publish("orders.Remember", to=announced)
    bridge.raise_events(approvals, name="approved", workflow_id=lambda arrival: WORKFLOW_ID)

    with bridged(deployment, bridge):
        deployment.client.start("orders.Order", ORDER, workflow_id=WORKFLOW_ID)
        deployment.settle()
        published = deployment.records(announced)
        deployment.put(approvals, b'{"by": "ada"}', key=b"7")
        eventually(lambda: bridge.counts.raised == 1)
        deployment.settle()

    by_key = {record.key: record for record in published}
    assert by_key.keys() == {b"7", WORKFLOW_ID.encode()}
    assert json.loads(by_key[b"7"].value or b"") == {**ORDER, "note": "none"}
    headers = dict(by_key[b"7"].headers)
    assert headers["afl_workflow_id"] == WORKFLOW_ID.encode()
    row = deployment.workflow(WORKFLOW_ID)
    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs == {
        "event_id": (headers["ce_id"] or b"").decode(), "topic": announced, "approved": {"by": "ada"}
    }  # fmt: skip


# --- topics of a hosted workflow --------------------------------------------------------------------------------------

TRANSLATIONS = """
namespace texts {
  event facet Ask(text: String) => (event_id: String)
  workflow Translate(text: String) => (asked: String, answer: Json) andThen {
    asked = Ask(text = $.text)
    answer = afl.WaitForEvent(name = "translated")
    yield Translate(asked = asked.event_id, answer = answer.data)
  }
}
"""


@contextmanager
def hosted(deployment: Deployment, workflow: EventDrivenWorkflow) -> Iterator[None]:
    """Run a worker of a workflow on a thread."""
    transport = deployment.cluster.transport(Faults())
    apply_topics(WorkflowTopics(deployment.config, workflow.name, workflow.definition.topics), transport)
    worker = WorkflowWorker(workflow, transport, config=WorkerConfig(stream=deployment.config))
    thread = Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def test_a_hosted_workflow_takes_what_an_afl_workflow_publishes_and_its_output_is_waited_for(world: World) -> None:
    deployment = world.deployment(TRANSLATIONS)

    def upper(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        return {"text": events[0].data.upper(), "of": context.conversation_id}

    translate = NodeBuilder().name("translate").command(upper).subscribe(InputTopic("texts"))
    workflow = EventDrivenWorkflow.builder().name("Upper").node(translate.publish_to(OutputTopic("results"))).build()
    bridge = Bridge(deployment.config)
    bridge.publish("texts.Ask", to=WorkflowTopic("Upper", "texts"), data="text")
    bridge.raise_events(WorkflowTopic("Upper", "results"), name="translated")

    with hosted(deployment, workflow), bridged(deployment, bridge):
        deployment.client.start("texts.Translate", {"text": "tea"}, workflow_id=WORKFLOW_ID)
        deployment.settle()
        eventually(lambda: bridge.counts.raised == 1)
        deployment.settle()

    row = deployment.workflow(WORKFLOW_ID)
    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs is not None
    assert row.outputs["answer"] == {"text": "TEA", "of": WORKFLOW_ID}
    (result,) = deployment.records(deployment.topology.pubsub("Upper", "results"))
    assert result.key == WORKFLOW_ID.encode()
