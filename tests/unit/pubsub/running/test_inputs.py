"""Inputs, questions and answers: which call publishes what, by the rules of running/inputs.py."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.topics import InWorkflowInputTopic, InWorkflowOutputTopic
from afl_stream.pubsub.running.errors import (
    AmbiguousAnswer,
    BadContext,
    InputRefused,
    NoOpenQuestion,
    RequestUnfinished,
)
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import (
    INPUT,
    OUTPUT,
    listed,
    node,
    outputs,
    passed_on,
    request,
    run,
    status,
    stored,
    turns,
    workflow,
)

Events = Sequence[ConsumeFromTopicEvent]

APPROVAL = InWorkflowInputTopic("approval")
ASK = InWorkflowOutputTopic("ask", reply_to="approval")
ADDRESS = InWorkflowInputTopic("address")
WHERE = InWorkflowOutputTopic("where", reply_to="address")


def approving(store: EventStore | None = None) -> EventDrivenWorkflow:
    """Return a workflow that asks whether it may, and joins the answer with its input."""
    return workflow(
        node("ask", asks, INPUT, ASK),
        node("decide", listed, "input & approval", OUTPUT),
        topics=[INPUT, APPROVAL],
        store=store,
    )


def ordering(store: EventStore | None = None) -> EventDrivenWorkflow:
    """Return a workflow that asks two questions at once."""
    return workflow(
        node("ask", asks, INPUT, ASK, WHERE),
        node("decide", listed, "input & approval & address", OUTPUT),
        topics=[INPUT, APPROVAL, ADDRESS],
        store=store,
    )


async def asks(_: InvokeContext, events: Events) -> AsyncIterator[str]:
    for event in events:
        yield f"may I {event.data}?"


async def read(
    built: EventDrivenWorkflow, input: object = None, request_id: str = "r1", invoke_id: str = ""
) -> list[tuple[str, Any]]:
    """Invoke a request, and return topic and data of what it gives."""
    return [(event.name, event.data) async for event in built.invoke(request(request_id, invoke_id), input)]


async def inputs_of(built: EventDrivenWorkflow) -> list[tuple[str, Any]]:
    """Return what the caller has published, by the store."""
    return [
        (event.name, event.data)
        for event in (await stored(built)).events
        if not isinstance(event, ConsumeFromTopicEvent) and event.publisher_name == "test"
    ]


# --- a question in the middle ---------------------------------------------------------------------------------------


def test_a_question_pauses_the_request_until_it_is_answered() -> None:
    built = approving()

    async def check() -> None:
        assert await read(built, "pay") == [("ask", "may I pay?")]
        assert await status(built) == RequestStatus.WAITING
        assert await read(built, "yes") == [("output", ["pay", "yes"])]
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_another_process_with_the_same_store_takes_the_answer() -> None:
    store = MemoryEventStore()

    assert run(read(approving(store), "pay")) == [("ask", "may I pay?")]
    assert run(read(approving(store), "yes")) == [("output", ["pay", "yes"])]


def test_an_invoke_without_input_while_a_question_is_open_changes_nothing() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay")
        assert await read(built) == []
        assert await status(built) == RequestStatus.WAITING

    run(check())


def test_an_answer_may_name_its_topic() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay")
        assert await read(built, {"approval": "yes"}) == [("output", ["pay", "yes"])]

    run(check())


def test_a_dict_with_other_keys_is_an_answer_as_it_is() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay")
        assert await read(built, {"approval": "yes", "by": "Ada"}) == [
            ("output", ["pay", {"approval": "yes", "by": "Ada"}])
        ]

    run(check())


def test_a_question_that_was_read_halfway_can_be_answered() -> None:
    """The reader of a chat leaves as soon as it is asked."""
    built = approving()

    async def check() -> None:
        async with aclosing(built.invoke(request(), "pay")) as events:
            assert (await anext(events)).name == "ask"
        assert await read(built, "yes") == [("output", ["pay", "yes"])]

    run(check())


def test_two_open_questions_need_answers_that_name_their_topics() -> None:
    built = ordering()

    async def check() -> None:
        assert await read(built, "send") == [("ask", "may I send?"), ("where", "may I send?")]
        with pytest.raises(AmbiguousAnswer, match="questions are open for approval and address; answer with a dict"):
            await read(built, "yes")
        assert await inputs_of(built) == [("input", "send")]

    run(check())


def test_two_open_questions_are_answered_together() -> None:
    built = ordering()

    async def check() -> None:
        await read(built, "send")
        assert await read(built, {"address": "home", "approval": "yes"}) == [("output", ["send", "yes", "home"])]

    run(check())


def test_two_open_questions_are_answered_one_after_the_other_in_any_process() -> None:
    store = MemoryEventStore()

    async def check() -> None:
        await read(ordering(store), "send")
        assert await read(ordering(store), {"address": "home"}) == []
        assert await status(ordering(store)) == RequestStatus.WAITING
        # One question is open now: its answer needs no name.
        assert await read(ordering(store), "yes") == [("output", ["send", "yes", "home"])]

    run(check())


def test_an_answer_to_what_was_answered_is_refused_and_stores_nothing() -> None:
    built = ordering()

    async def check() -> None:
        await read(built, "send")
        await read(built, {"address": "home"})
        with pytest.raises(NoOpenQuestion, match=r"topic address: it was answered, or not asked yet; .* for approval"):
            await read(built, {"address": "elsewhere"})
        with pytest.raises(NoOpenQuestion):
            await read(built, {"address": "elsewhere", "approval": "yes"})
        assert await inputs_of(built) == [("input", "send"), ("address", "home")]

    run(check())


def test_an_answer_before_its_question_is_refused_by_invoke() -> None:
    built = approving()

    async def check() -> None:
        opened = await built.init_workflow(request(), "pay")
        await opened.close()
        with pytest.raises(NoOpenQuestion, match=r"topic approval: .*; no question is open"):
            await read(built, {"approval": "yes"})

    run(check())


def test_an_answer_from_outside_before_its_question_counts() -> None:
    """On a cluster an answer may come before its question is stored."""
    built = approving()

    async def check() -> None:
        opened = await built.init_workflow(request(), "pay")
        assert await opened.publish_external("approval", "yes", event_id="a1", publisher="person")
        await opened.drive()
        assert opened.status == RequestStatus.FINISHED
        await opened.close()
        assert [event.data for event in (await stored(built)).events if event.name == "output"] == [
            ["pay", "yes"],
            None,
        ]

    run(check())


def test_an_answer_is_repeated_without_effect_while_the_request_has_not_ended() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay")
        await (await built.init_workflow(request(), "yes")).close()
        assert await read(built, "yes") == [("output", ["pay", "yes"])]
        assert await inputs_of(built) == [("input", "pay"), ("approval", "yes")]

    run(check())


def test_an_answer_that_names_its_topic_is_repeated_without_effect_too() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay")
        await (await built.init_workflow(request(), {"approval": "yes"})).close()
        assert await read(built, {"approval": "yes"}) == [("output", ["pay", "yes"])]

    run(check())


def test_answers_to_two_questions_are_repeated_in_another_process_without_effect_too() -> None:
    store = MemoryEventStore()
    answers = {"approval": "yes", "address": "Kyoto"}

    async def check() -> None:
        await read(ordering(store), "x")
        await (await ordering(store).init_workflow(request(), answers)).close()
        assert await read(ordering(store), answers) == [("output", ["x", "yes", "Kyoto"])]
        assert await inputs_of(ordering(store)) == [("input", "x"), ("approval", "yes"), ("address", "Kyoto")]

    run(check())


def test_an_answer_that_its_topic_refuses_is_an_error() -> None:
    strict = InWorkflowInputTopic("approval", lambda data: data in ("yes", "no"))
    built = workflow(
        node("ask", asks, INPUT, ASK),
        node("decide", listed, "input & approval", OUTPUT),
        topics=[INPUT, strict],
    )

    async def check() -> None:
        await read(built, "pay")
        with pytest.raises(InputRefused, match="the condition of approval does not hold"):
            await read(built, "perhaps")
        assert await read(built, "no") == [("output", ["pay", "no"])]

    run(check())


# --- the same input again, and the next one -------------------------------------------------------------------------


def test_an_input_to_a_finished_request_is_its_next_one() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        for said in ("hello", "how are you", "how are you"):
            assert await outputs(built, said) == [said]
        assert await inputs_of(built) == [("input", "hello"), ("input", "how are you"), ("input", "how are you")]

    run(check())


def test_the_same_input_to_an_unfinished_request_goes_on_with_it() -> None:
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> Any:
        await gate.wait()
        return events[0].data

    built = workflow(node("gated", gated, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        reading.cancel()
        await asyncio.wait([reading])
        gate.set()
        assert await outputs(built, "x") == ["x"]
        assert await inputs_of(built) == [("input", "x")]

    run(check())


def test_another_input_to_an_unfinished_request_is_refused_and_stores_nothing() -> None:
    async def fails(_: InvokeContext, events: Events) -> None:
        raise ValueError("broken")

    built = workflow(node("fails", fails, INPUT, OUTPUT))

    async def check() -> None:
        with pytest.raises(NodeFailed):
            await outputs(built, "x")
        with pytest.raises(RequestUnfinished, match="request r1: it is not finished with its input"):
            await outputs(built, "y")
        assert await inputs_of(built) == [("input", "x")]
        assert await status(built) == RequestStatus.FAILED

    run(check())


def test_the_next_input_comes_after_output_that_was_not_read() -> None:
    async def two(_: InvokeContext, events: Events) -> AsyncIterator[Any]:
        for event in events:
            yield event.data
            yield event.data

    built = workflow(node("two", two, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "first")) as events:
            await anext(events)
            await turns()
        assert await outputs(built, "second") == ["first", "second", "second"]

    run(check())


def test_a_call_with_an_id_publishes_its_input_once_however_often_it_comes() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        assert await read(built, "x", invoke_id="i1") == [("output", "x")]
        assert await read(built, "x", invoke_id="i1") == []
        assert await read(built, "x", invoke_id="i2") == [("output", "x")]
        assert await inputs_of(built) == [("input", "x"), ("input", "x")]

    run(check())


def test_a_repeated_call_with_an_id_is_no_answer_to_the_question_that_it_led_to() -> None:
    built = approving()

    async def check() -> None:
        await read(built, "pay", invoke_id="i1")
        assert await read(built, "pay", invoke_id="i1") == []
        assert await status(built) == RequestStatus.WAITING
        assert await read(built, "yes", invoke_id="i2") == [("output", ["pay", "yes"])]
        assert await read(built, "yes", invoke_id="i2") == []

    run(check())


def test_requests_with_the_same_call_id_stay_apart() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        assert await read(built, "x", "r1", "i1") == [("output", "x")]
        assert await read(built, "x", "r2", "i1") == [("output", "x")]

    run(check())


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (InvokeContext(assistant_request_id=""), "assistant_request_id: a request needs a name, and this one is empty"),
        (InvokeContext(assistant_request_id=7), "assistant_request_id: a text was expected, found the integer 7"),  # type: ignore[arg-type]  # what the test is about
        (InvokeContext(assistant_request_id="\ud800"), "assistant_request_id: .*a lone surrogate at index 0"),
        (InvokeContext(assistant_request_id="r", invoke_id=None), "invoke_id: a text was expected, found null"),  # type: ignore[arg-type]  # what the test is about
        (InvokeContext(assistant_request_id="r", attributes={"a": {1}}), "attributes: attributes.a: a JSON value"),
    ],
)
def test_a_context_that_no_store_can_keep_is_refused(context: InvokeContext, reason: str) -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        with pytest.raises(BadContext, match=f"workflow test: InvokeContext.{reason}"):
            await built.init_workflow(context, "x")
        assert await built.event_store.requests("test") == []

    run(check())


# --- events from outside --------------------------------------------------------------------------------------------


def test_an_event_from_outside_with_a_known_id_is_known_in_every_process() -> None:
    store = MemoryEventStore()

    async def check() -> None:
        built = workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)
        opened = await built.init_workflow(request(), "x")
        assert await opened.publish_external("input", "y", event_id="e1", publisher="kcat")
        assert not await opened.publish_external("input", "y", event_id="e1", publisher="kcat")
        await opened.close()
        again = await workflow(node("pass", passed_on, INPUT, OUTPUT), store=store).init_workflow(request())
        assert not await again.publish_external("input", "y", event_id="e1", publisher="kcat")
        await again.close()

    run(check())


def test_events_from_outside_without_an_id_are_different_events() -> None:
    built = workflow(node("list", listed, INPUT, OUTPUT))

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        for _ in range(2):
            assert await opened.publish_external("input", "y")
        await opened.close()
        assert await outputs(built) == [["x", "y", "y"]]

    run(check())


def test_an_event_that_its_topic_refuses_is_left_out() -> None:
    strict = InWorkflowInputTopic("approval", lambda data: data == "yes")
    built = workflow(
        node("ask", asks, INPUT, ASK), node("decide", listed, "input & approval", OUTPUT), topics=[INPUT, strict]
    )

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        assert not await opened.publish_external("approval", "no", event_id="e1")
        assert await opened.publish_external("approval", "yes", event_id="e1")
        await opened.close()

    run(check())
