"""A whole event-driven workflow answers an event facet: it resumes, asks people, and leaves the step waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Final

import pytest

from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.bridge import Bridge
from afl_stream.bridge.errors import RequestUnknown
from afl_stream.embedded.transport import Faults
from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    NodeBuilder,
    OutputTopic,
    OutputTopicEvent,
)
from afl_stream.settings.config import AnswerSettings
from afl_stream.wire.headers import header
from tests.eventually import eventually
from tests.scenarios.bridge_lives import Newsroom
from tests.scenarios.test_bridge import bridged
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY, in_worlds

WORKFLOW_ID: Final = "run-1"
REVIEWS: Final = """
namespace news {
  event facet Review(text: String) => (verdict: String, words: Long)
  workflow Publish(text: String) => (verdict: String, words: Long) andThen {
    r = Review(text = $.text)
    yield Publish(verdict = r.verdict, words = r.words)
  }
}
"""


def start(deployment: Deployment, text: str) -> None:
    deployment.client.start("news.Publish", {"text": text}, workflow_id=WORKFLOW_ID)
    deployment.settle()


def test_a_workflow_answers_an_event_facet(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow)

    with bridged(deployment, bridge):
        start(deployment, "a short text")

    row = deployment.workflow(WORKFLOW_ID)
    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs == {"verdict": "good", "words": 3}
    assert room.runs == {"count": 1, "spell": 1, "edit": 1}


def test_a_question_leaves_the_step_waiting_until_the_reply(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    questions, replies = (f"{deployment.config.prefix}{name}" for name in ("questions", "replies"))
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow, questions=questions, replies=replies)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        (question,) = deployment.records(questions)
        asked = json.loads(question.value or b"")
        step = deployment.step(WORKFLOW_ID, "news.Review")
        assert deployment.workflow(WORKFLOW_ID).status != COMPLETED
        assert asked == {
            "request_id": f"{step.id}#1",
            "workflow": "Newsroom",
            "topic": "questions",
            "reply_to": "answers",
            "question": {"verdict": "ask", "words": 5},
            "afl_workflow_id": WORKFLOW_ID,
        }
        assert question.key == asked["request_id"].encode()

        # Twice: a person who does not know whether it got through.
        for _ in range(2):
            deployment.put(replies, b'"shorten it"', key=question.key)
        eventually(lambda: bridge.counts.replies == 2)
        deployment.settle()

    row = deployment.workflow(WORKFLOW_ID)
    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs == {"verdict": "shorten it", "words": 99}
    assert room.runs == {"count": 1, "spell": 1, "edit": 1, "settle": 1}
    assert bridge.counts.skipped == 1


@in_worlds([MEMORY])
def test_a_reply_may_be_given_directly_and_counts_once(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        request_id = f"{deployment.step(WORKFLOW_ID, 'news.Review').id}#1"

        answered = [bridge.reply("news.Review", request_id, word, reply_id="1") for word in ("fine", "fine", "late")]
        with pytest.raises(RequestUnknown, match="workflow Newsroom has no request 'other'"):
            bridge.reply("news.Review", "other", "fine", reply_id="2")
        deployment.settle()

    assert answered == [True, True, True]
    assert deployment.workflow(WORKFLOW_ID).outputs == {"verdict": "fine", "words": 99}
    assert room.runs["settle"] == 1


@in_worlds([MEMORY])
def test_a_reply_that_nothing_can_be_made_of_is_a_dead_letter(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    replies = f"{deployment.config.prefix}replies"
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow, replies=replies)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        for key in (b"nobody", None):
            deployment.put(replies, b'"fine"', key=key)
        eventually(lambda: bridge.counts.dead_lettered == 2)

    reasons = {header(letter.headers, "afl.dlq.reason") for letter in deployment.dead_letters(replies)}
    assert reasons == {"RequestUnknown"}
    assert room.runs["settle"] == 0


@in_worlds([MEMORY])
def test_a_node_that_fails_fails_the_step_and_the_next_attempt_is_a_new_request(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow)

    with bridged(deployment, bridge):
        start(deployment, "boom")
        step = deployment.step(WORKFLOW_ID, "news.Review")
        failed = deployment.workflow(WORKFLOW_ID)
        deployment.client.retry(WORKFLOW_ID)
        deployment.settle()

    assert failed.status == ERROR
    assert failed.error is not None
    assert failed.error.type == "NodeFailed"
    assert "node spell failed: LookupError: no such word: boom" in failed.error.message
    assert room.runs["spell"] == 2
    requests = asyncio.run(room.workflow.event_store.requests("Newsroom"))
    assert [key.request_id for key in requests] == [f"{step.id}#1", f"{step.id}#2"]


@in_worlds([MEMORY])
def test_a_reply_whose_node_fails_fails_the_step(world: World) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        request_id = f"{deployment.step(WORKFLOW_ID, 'news.Review').id}#1"
        assert bridge.reply("news.Review", request_id, "boom", reply_id="1")
        deployment.settle()

    row = deployment.workflow(WORKFLOW_ID)
    assert row.error is not None
    assert (row.status, row.error.type) == (ERROR, "NodeFailed")


def no_verdict(outputs: Sequence[OutputTopicEvent]) -> dict[str, object]:
    raise LookupError(f"{len(outputs)} events and no verdict")


@in_worlds([MEMORY])
@pytest.mark.parametrize(
    ("results", "error_type"),
    [(no_verdict, "LookupError"), (lambda _outputs: {"verdict": object(), "words": 1}, "ValueRefused")],
    ids=["none can be made", "no record holds it"],
)
def test_a_reply_after_which_the_output_makes_no_result_fails_the_step(
    world: World, results: Any, error_type: str
) -> None:
    deployment, room = world.deployment(REVIEWS), Newsroom()
    replies = f"{deployment.config.prefix}replies"
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow, replies=replies, results=results)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        request_id = f"{deployment.step(WORKFLOW_ID, 'news.Review').id}#1"
        deployment.put(replies, b'"shorten it"', key=request_id.encode())
        eventually(lambda: bridge.counts.replies + bridge.counts.dead_lettered == 1)
        deployment.settle()

    row = deployment.workflow(WORKFLOW_ID)
    assert row.error is not None
    assert (row.status, row.error.type, bridge.counts.dead_lettered) == (ERROR, error_type, 0)


@in_worlds([MEMORY])
def test_answers_carry_the_token_of_their_event_also_after_a_question(world: World) -> None:
    deployment = world.deployment(REVIEWS, answers=AnswerSettings(token_secret="s" * 32))
    room, bridge = Newsroom(), Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", room.workflow)

    with bridged(deployment, bridge):
        start(deployment, "a text of many words")
        request_id = f"{deployment.step(WORKFLOW_ID, 'news.Review').id}#1"
        bridge.reply("news.Review", request_id, "fine", reply_id="1")
        deployment.settle()

    row = deployment.workflow(WORKFLOW_ID)
    assert (row.status, row.error) == (COMPLETED, None)


def several(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> Iterator[object]:
    yield {"verdict": "one", "words": 1}
    yield {"verdict": "two", "words": 2}


def words_of_all(outputs: Sequence[OutputTopicEvent]) -> dict[str, object]:
    words = [output.data["words"] for output in outputs]
    return {"verdict": f"{len(outputs)} notes", "words": sum(words)}


@pytest.mark.parametrize(
    ("function", "options", "outputs", "error"),
    [
        (several, {"results": words_of_all}, {"verdict": "2 notes", "words": 3}, ""),
        (several, {}, None, "workflow Notes gave 2 events of output for facet news.Review; exactly one result"),
        (lambda _c, _e: None, {}, None, "workflow Notes gave no output, and asks nobody for facet news.Review"),
        (lambda _c, _e: "text", {}, None, "found 'text', expected a dict of returns; the returns of the facet are"),
        (
            lambda _c, events: {"verdict": events[0].data, "words": 0},
            {"input": "text"},
            {"verdict": "a", "words": 0},
            "",
        ),
    ],
)
@in_worlds([MEMORY])
def test_the_outputs_of_a_workflow_become_one_result(
    world: World, function: Any, options: dict[str, Any], outputs: object, error: str
) -> None:
    deployment = world.deployment(REVIEWS)
    note = NodeBuilder().name("note").command(function).subscribe(InputTopic("drafts")).publish_to(OutputTopic("notes"))
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow(
        "news.Review", EventDrivenWorkflow.builder().name("Notes").node(note).build(), **options
    )

    with bridged(deployment, bridge):
        start(deployment, "a")

    row = deployment.workflow(WORKFLOW_ID)
    assert row.outputs == outputs
    assert error in ("" if row.error is None else row.error.message)
    assert (row.status == COMPLETED) == (not error)


@in_worlds([MEMORY])
def test_a_workflow_stops_when_the_run_that_asked_is_cancelled(world: World) -> None:
    deployment, is_at_work, was_cancelled = world.deployment(REVIEWS), Event(), Event()

    async def work(_context: InvokeContext, _events: Sequence[ConsumeFromTopicEvent]) -> None:
        is_at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    node = NodeBuilder().name("work").command(work).subscribe(InputTopic("drafts")).publish_to(OutputTopic("notes"))
    bridge = Bridge(deployment.config)
    bridge.answer_with_workflow("news.Review", EventDrivenWorkflow.builder().name("Slow").node(node).build())
    transport = deployment.cluster.transport(Faults())
    deployment.evaluator()

    with bridge.running(transport):
        deployment.client.start("news.Publish", {"text": "a"}, workflow_id=WORKFLOW_ID)
        deployment.settle()
        assert is_at_work.wait(10)
        deployment.client.cancel(WORKFLOW_ID)
        deployment.settle()
        assert was_cancelled.wait(10)
