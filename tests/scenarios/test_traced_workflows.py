"""The spans of whole requests: what is below what, whichever task did it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from afl_stream.pubsub import (
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    MemoryEventStore,
    NodeBuilder,
    OutputTopic,
    Topic,
)
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.llm import create_react_workflow
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.spans import current_span
from tests.unit.pubsub.llm.scripted_model import ScriptedModel, call
from tests.worlds.traces import Traces

CONTEXT = InvokeContext(assistant_request_id="r1", conversation_id="talk 5", user_id="kim")


async def outputs(workflow: EventDrivenWorkflow, given: object = None, context: InvokeContext = CONTEXT) -> list[Any]:
    return [event.data async for event in workflow.invoke(context, given)]


def double(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    return [event.data for event in events] * 2


def test_a_loop_of_calls_is_one_tree() -> None:
    traces = Traces(record_payloads=True)
    model = ScriptedModel([call("half", "c1", number=4), call("half", "c2", number=6)], "2 and 3")

    def half(number: int) -> float:
        with traces.provider.get_tracer("a library").start_as_current_span("SELECT"):
            return number / 2

    workflow = create_react_workflow(model, [half], name="Halves", spans=traces.tracing)

    asyncio.run(outputs(workflow, "Half of 4 and 6?"))

    assert traces.tree() == {
        "Halves": 1,
        "Halves/model": 2,
        "Halves/model/scripted-1": 2,
        "Halves/functions": 1,
        "Halves/functions/half": 2,
        "Halves/functions/half/SELECT": 2,
    }
    (request,) = traces.attributes("Halves")
    assert request["openinference.span.kind"] == "AGENT"
    assert request["input.value"] == "Half of 4 and 6?"
    assert json.loads(request["output.value"])["text"] == "2 and 3"
    assert request["afl.pubsub.status"] == "finished"
    ours = [dict(span.attributes or {}) for span in traces.ended if span.name != "SELECT"]
    assert {(own["session.id"], own["user.id"], own["afl.pubsub.request_id"]) for own in ours} == {
        ("talk 5", "kim", "r1")
    }


def test_requests_at_the_same_time_have_a_tree_each() -> None:
    traces = Traces(record_payloads=True)
    model = ScriptedModel(*["ok"] * 20)
    workflow = create_react_workflow(model, [], name="Many", spans=traces.tracing)

    async def run() -> None:
        contexts = [InvokeContext(assistant_request_id=f"r{number}") for number in range(20)]
        await asyncio.gather(*(outputs(workflow, "q", context) for context in contexts))

    asyncio.run(run())

    assert traces.tree() == {"Many": 20, "Many/model": 20, "Many/model/scripted-1": 20}
    assert len({span.context.trace_id for span in traces.ended}) == 20
    requests = {(span.attributes or {})["afl.pubsub.request_id"] for span in traces.ended}
    assert (
        len({(span.context.trace_id, (span.attributes or {})["afl.pubsub.request_id"]) for span in traces.ended}) == 20
    )
    assert len(requests) == 20


def test_the_callers_span_is_above_and_stays_the_current_one_between_outputs() -> None:
    traces = Traces(record_payloads=True)
    tracer = traces.provider.get_tracer("a server")
    workflow = create_react_workflow(ScriptedModel("ok"), [], name="Desk", spans=traces.tracing)

    async def serve() -> None:
        with tracer.start_as_current_span("POST /ask") as served:
            async for _ in workflow.invoke(CONTEXT, "q"):
                assert trace.get_current_span() is served
                with tracer.start_as_current_span("send"):
                    pass

    asyncio.run(serve())

    assert traces.tree() == {
        "POST /ask": 1,
        "POST /ask/send": 1,
        "POST /ask/Desk": 1,
        "POST /ask/Desk/model": 1,
        "POST /ask/Desk/model/scripted-1": 1,
    }


def test_a_node_that_another_one_wakes_is_not_below_it() -> None:
    traces = Traces(record_payloads=True)
    first, second = Topic("first"), OutputTopic("second")
    workflow = (
        EventDrivenWorkflow.builder()
        .name("Chain")
        .node(NodeBuilder().name("a").command(double).subscribe(InputTopic("in")).publish_to(first))
        .node(NodeBuilder().name("b").command(double).subscribe(first).publish_to(second))
        .spans(traces.tracing)
        .build()
    )

    asyncio.run(outputs(workflow, 1))

    assert traces.tree() == {"Chain": 1, "Chain/a": 1, "Chain/b": 1}
    assert traces.attributes("b")[0]["graph.node.id"] == "b"
    assert traces.attributes("b")[0]["afl.pubsub.topics"] == ("first",)
    assert traces.attributes("b")[0]["input.value"] == "[1, 1]"
    assert traces.attributes("b")[0]["output.value"] == "[[1, 1], [1, 1]]"


def test_a_failed_node_fails_its_request_in_the_trace_too() -> None:
    traces = Traces(record_payloads=True)
    workflow = create_react_workflow(ScriptedModel(), [], name="Desk", spans=traces.tracing)

    with pytest.raises(NodeFailed):
        asyncio.run(outputs(workflow, "q"))

    failed = {span.name: (span.attributes or {}).get("error.type") for span in traces.ended}
    assert failed == {"scripted-1": "ModelUnavailable", "model": "ModelUnavailable", "Desk": "NodeFailed"}
    assert {span.status.status_code for span in traces.ended} == {StatusCode.ERROR}
    assert traces.attributes("Desk")[0]["afl.pubsub.status"] == "failed"


def test_a_caller_that_goes_away_ends_all_spans_as_cancelled() -> None:
    traces = Traces(record_payloads=True)
    started = asyncio.Event()

    async def wait(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> None:
        started.set()
        await asyncio.Event().wait()

    workflow = (
        EventDrivenWorkflow.builder()
        .name("Slow")
        .node(NodeBuilder().name("wait").command(wait).subscribe(InputTopic("in")).publish_to(OutputTopic("out")))
        .spans(traces.tracing)
        .build()
    )

    async def go_away() -> None:
        task = asyncio.create_task(outputs(workflow, 1))
        await started.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(go_away())

    assert traces.tree() == {"Slow": 1, "Slow/wait": 1}
    assert [own["afl.pubsub.cancelled"] for own in (*traces.attributes("wait"), *traces.attributes("Slow"))] == [
        True
    ] * 2


def test_a_request_that_waits_for_a_person_is_a_span_before_and_one_after_in_the_same_trace() -> None:
    traces, store = Traces(record_payloads=True), MemoryEventStore()

    def workflow() -> EventDrivenWorkflow:
        return (
            EventDrivenWorkflow.builder()
            .name("Approval")
            .event_store(store)
            .node(
                NodeBuilder()
                .name("ask")
                .command(double)
                .subscribe(InputTopic("in"))
                .publish_to(InWorkflowOutputTopic("question", reply_to="reply"))
            )
            .node(
                NodeBuilder()
                .name("close")
                .command(double)
                .subscribe(InWorkflowInputTopic("reply"))
                .publish_to(OutputTopic("out"))
            )
            .spans(traces.tracing)
            .build()
        )

    with traces.provider.get_tracer("a server").start_as_current_span("conversation"):
        carried = traces.tracing.carried(CONTEXT)
    asyncio.run(outputs(workflow(), "buy?", carried))
    asyncio.run(outputs(workflow(), "yes", carried))

    waiting, finished = traces.attributes("Approval")
    assert (waiting["afl.pubsub.status"], waiting["input.value"]) == ("waiting", "buy?")
    assert (finished["afl.pubsub.status"], finished["input.value"]) == ("finished", "yes")
    assert traces.tree() == {
        "conversation": 1,
        "conversation/Approval": 2,
        "conversation/Approval/ask": 1,
        "conversation/Approval/close": 1,
    }


def test_a_node_can_tell_of_parts_of_its_work_and_pass_its_trace_on() -> None:
    traces = Traces(record_payloads=True)
    passed: list[str] = []

    async def work(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> str:
        with current_span().child("part", workflow.oi_span_type, {"part.number": 1}) as part:
            passed.append(part.traceparent)
        return "done"

    workflow = (
        EventDrivenWorkflow.builder()
        .name("Parts")
        .node(NodeBuilder().name("work").command(work).subscribe(InputTopic("in")).publish_to(OutputTopic("out")))
        .spans(traces.tracing)
        .build()
    )

    asyncio.run(outputs(workflow, 1))

    assert traces.tree() == {"Parts": 1, "Parts/work": 1, "Parts/work/part": 1}
    assert f"{next(span for span in traces.ended if span.name == 'part').context.span_id:016x}" in passed[0]
