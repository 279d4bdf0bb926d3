"""The bridge of the tests on a broker: orders are reviewed by a workflow, announced, and wait for the announcement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from afl_stream.bridge import Bridge
from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    NodeBuilder,
    OutputTopic,
)
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore

ORDERS: Final = """
namespace orders {
  event facet Review(order: String) => (verdict: String)
  event facet Announce(order: String, verdict: String) => (event_id: String)
  workflow Order(order: String) => (verdict: String, event_id: String, approved: Json) andThen {
    reviewed = Review(order = $.order)
    told = Announce(order = $.order, verdict = reviewed.verdict)
    answer = afl.WaitForEvent(name = "announced")
    yield Order(verdict = reviewed.verdict, event_id = told.event_id, approved = answer.data)
  }
}
"""
#: Orders whose review asks a person begin so.
ASKS: Final = "large"


def topics_of(prefix: str) -> tuple[str, str, str]:
    """Return the topics of announcements, of questions and of replies."""
    return f"{prefix}announced", f"{prefix}questions", f"{prefix}replies"


def runs_file(folder: Path) -> Path:
    """Return the file that each run of a node adds a line to."""
    return folder / "runs.txt"


def declare(bridge: Bridge) -> None:
    folder = bridge.config.store_path.parent
    announced, questions, replies = topics_of(bridge.config.prefix)
    bridge.answer_with_workflow(
        "orders.Review", _reviews(folder), results="verdict", questions=questions, replies=replies
    )
    bridge.publish("orders.Announce", to=announced, request_id="order")
    bridge.raise_events(announced, name="announced", workflow_id=lambda arrival: arrival.header("afl_workflow_id"))


def _reviews(folder: Path) -> EventDrivenWorkflow:
    def note(node: str, context: InvokeContext) -> None:
        with runs_file(folder).open("a") as runs:
            runs.write(f"{node} {context.assistant_request_id}\n")

    def read(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        note("read", context)
        return events[0].data["order"]

    def judge(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        note("judge", context)
        return f"{events[0].data} is fine"

    def settle(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        note("settle", context)
        return events[0].data

    question = InWorkflowOutputTopic("questions", reply_to="answers")
    verdicts = OutputTopic("verdicts")
    return (
        EventDrivenWorkflow.builder()
        .name("Reviews")
        .event_store(SQLiteEventStore(folder / "requests.sqlite3"))
        .topic(InWorkflowInputTopic("answers"))
        .node(NodeBuilder().name("read").command(read).subscribe(InputTopic("orders")).publish_to("read"))
        .node(
            NodeBuilder()
            .name("judge")
            .command(judge)
            .subscribe("read")
            .publish_to(verdicts, when=lambda data: not data.startswith(ASKS))
            .publish_to(question, when=lambda data: data.startswith(ASKS))
        )
        .node(NodeBuilder().name("settle").command(settle).subscribe("answers").publish_to(verdicts))
        .build()
    )
