"""A run is one trace: start request, event, handler and answer, whichever process does the work."""

from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from afl.core.handlers.context import HandlerContext
from afl.core.trace_context import derived_trace_id
from afl_stream.wire.headers import header, headers_for
from afl_stream.wire.messages import StartWorkflow, StepContinue
from tests.worlds.deployment import Deployment
from tests.worlds.run_traces import RunTraces, attributes_of, trace_of
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EACH_ONCE, in_worlds

WORLDS = EACH_ONCE

SOURCE = """
namespace shop {
    event facet Pay(x: Long) => (r: Long)
    workflow W(n: Long) => (r: Long) andThen {
        pay = Pay(x = $.n)
        again = Pay(x = pay.r)
        yield W(r = again.r)
    }
}
"""


def paid(payload: Mapping[str, object], context: HandlerContext) -> dict[str, object]:
    return {"r": 7}


def deployed(world: World, traces: RunTraces, handler: Any = paid) -> Deployment:
    deployment = world.deployment(SOURCE, tracer=traces.tracer)
    deployment.evaluator()
    deployment.worker({"shop.Pay": handler}).join()
    return deployment


def named(deployment: Deployment, path: str) -> str:
    """Return a path of spans with the deployment's own topics in place of {commands}, {control} and {pay}."""
    topology = deployment.topology
    return path.format(commands=topology.commands(), control=topology.control(), pay=topology.facet("shop.Pay"))


def test_a_run_is_one_trace_from_its_start_to_its_last_answer(world: World) -> None:
    traces = RunTraces()
    deployment = deployed(world, traces)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    (sent,) = traces.named(named(deployment, "send {commands}"))
    round_trip = "send {commands} > run shop.W > send {pay}"
    assert traces.tree(trace_of(sent)) == {
        named(deployment, path): count
        for path, count in {
            "send {commands}": 1,
            "send {commands} > process {commands}": 1,
            "send {commands} > run shop.W": 1,
            round_trip: 2,
            f"{round_trip} > process {{pay}}": 2,
            f"{round_trip} > process {{pay}} > send {{control}}": 2,
            f"{round_trip} > process {{pay}} > send {{control}} > process {{control}}": 2,
        }.items()
    }


def test_spans_say_what_opentelemetrys_conventions_for_kafka_ask(world: World) -> None:
    traces = RunTraces()
    deployment = deployed(world, traces)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    topic = deployment.topology.facet("shop.Pay")
    first, _ = deployment.records(topic)
    handled = traces.named(f"process {topic}")[0]
    assert handled.kind is SpanKind.CONSUMER
    assert first.key is not None
    assert attributes_of(handled) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(first.partition),
        "messaging.consumer.group.name": deployment.agent_group,
        "messaging.kafka.message.key": first.key.decode(),
        "messaging.kafka.offset": first.offset,
        "messaging.message.id": f"{first.key.decode()}#1",
        "messaging.message.conversation_id": "wf",
        "afl.facet": "shop.Pay",
    }
    sent = traces.named(f"send {topic}")[0]
    assert (sent.kind, attributes_of(sent)["messaging.operation.type"]) == (SpanKind.PRODUCER, "send")
    received = traces.named(f"poll {topic}")[0]
    assert (received.kind, attributes_of(received)["messaging.operation.type"]) == (SpanKind.CLIENT, "receive")
    settled = traces.named(f"commit {topic}")[0]
    assert (settled.kind, attributes_of(settled)["messaging.operation.type"]) == (SpanKind.CLIENT, "settle")


def links_of(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(link.context.trace_id, link.context.span_id) for link in span.links}


def test_a_batch_is_a_trace_of_its_own_with_a_link_to_each_sender(world: World) -> None:
    traces = RunTraces()
    deployment = deployed(world, traces)
    for number in range(3):
        deployment.client.start("shop.W", {"n": 1}, workflow_id=f"wf-{number}")
    deployment.settle()

    commands = deployment.topology.commands()
    starts = {(span.context.trace_id, span.context.span_id) for span in traces.named(f"send {commands}")}
    linked = set().union(*(links_of(span) for span in traces.named(f"commit {commands}")))
    assert len(starts) == 3
    assert linked == starts
    runs = {trace_id for trace_id, _ in starts}
    assert not runs & {span.context.trace_id for span in traces.named(f"commit {commands}")}


def test_a_start_within_a_span_continues_its_trace(world: World) -> None:
    traces = RunTraces()
    deployment = deployed(world, traces)
    with traces.provider.get_tracer("web").start_as_current_span("POST /orders") as request:
        deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    trace_id = f"{request.get_span_context().trace_id:032x}"
    assert trace_id != derived_trace_id("wf")
    assert traces.tree(trace_id)[named(deployment, "POST /orders > send {commands} > run shop.W > send {pay}")] == 2
    assert {trace_of(span) for span in traces.named(named(deployment, "process {control}"))} == {trace_id}


@in_worlds(DURABLE)
def test_the_trace_goes_on_after_all_processes_died(world: World) -> None:
    traces = RunTraces()
    deployment = world.deployment(SOURCE, tracer=traces.tracer)
    deployment.evaluator()
    with traces.provider.get_tracer("web").start_as_current_span("POST /orders") as request:
        deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()
    deployment.crash_and_restart()
    deployment.evaluator()
    # An agent that knows nothing of traces: its answer has no context, so the trace is the one that is stored.
    deployment.send(StepContinue(step_id=deployment.step("wf", "shop.Pay").id, result={"r": 2}))
    deployment.worker({"shop.Pay": paid}).join()
    deployment.settle()

    assert deployment.workflow("wf").status == "COMPLETED"
    trace_id = f"{request.get_span_context().trace_id:032x}"
    sent = traces.named(named(deployment, "send {pay}"))
    assert len({attributes_of(span)["messaging.kafka.message.key"] for span in sent}) == 2
    assert {trace_of(span) for span in sent} == {trace_id}
    assert {trace_of(span) for span in traces.named(named(deployment, "process {control}"))} == {trace_id}


def test_each_attempt_is_in_the_same_trace_and_says_what_went_wrong(world: World) -> None:
    traces = RunTraces()
    calls: list[str] = []

    def pay(payload: Mapping[str, object], context: HandlerContext) -> dict[str, object]:
        calls.append(context.traceparent)
        if len(calls) == 1:
            raise ConnectionError("the bank is away")
        return {"r": 7}

    deployment = deployed(world, traces, pay)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()
    deployment.client.retry("wf")
    deployment.settle()

    assert deployment.workflow("wf").status == "COMPLETED"
    first, second, third = traces.named(named(deployment, "process {pay}"))
    assert len({trace_of(span) for span in (first, second, third)}) == 1
    assert [attributes_of(span).get("afl.attempt", 1) for span in (first, second, third)] == [1, 2, 1]
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "the bank is away"
    assert attributes_of(first)["error.type"] == "ConnectionError"
    (raised,) = first.events
    assert (raised.name, dict(raised.attributes or {})["exception.type"]) == ("exception", "ConnectionError")
    assert second.status.status_code is StatusCode.UNSET
    assert calls[1] == f"00-{trace_of(second)}-{second.context.span_id:016x}-01"


def test_a_handlers_own_spans_are_below_its_run(world: World) -> None:
    traces = RunTraces()
    tracer = traces.provider.get_tracer("bank")

    def pay(payload: Mapping[str, object], context: HandlerContext) -> dict[str, object]:
        trace.get_current_span().set_attribute("bank.name", "first")
        with tracer.start_as_current_span("debit"):
            return {"r": 7}

    deployment = deployed(world, traces, pay)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    handled = {span.context.span_id: span for span in traces.named(named(deployment, "process {pay}"))}
    assert {span.parent and span.parent.span_id for span in traces.named("debit")} == set(handled)
    assert {attributes_of(span)["bank.name"] for span in handled.values()} == {"first"}
    assert not trace.get_current_span().get_span_context().is_valid


def test_an_unsampled_trace_is_passed_on_and_not_recorded(world: World) -> None:
    traces = RunTraces()
    seen: list[str] = []

    def pay(payload: Mapping[str, object], context: HandlerContext) -> dict[str, object]:
        seen.append(context.traceparent)
        return {"r": 7}

    deployment = deployed(world, traces, pay)
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    state = (("traceparent", parent), ("tracestate", b"shop=1,bank=2"))
    command = StartWorkflow(workflow_id="wf", workflow="shop.W", inputs={"n": 1})
    topic = deployment.topology.commands()
    headers = headers_for(command, source="/tests", caused_by=state)
    deployment.put(topic, deployment.codec.encode(command, topic), key=b"wf", headers=headers)
    deployment.settle()

    assert deployment.workflow("wf").status == "COMPLETED"
    assert {text[:36] + text[52:] for text in seen} == {"00-0af7651916cd43dd8448eb211c80319c--00"}
    answers = deployment.records(deployment.topology.control())
    assert {header(answer.headers, "tracestate") for answer in answers} == {"shop=1,bank=2"}
    assert [span.name for span in traces.spans() if not span.name.startswith("commit")] == []


def test_a_new_trace_is_recorded_by_its_share(world: World) -> None:
    traces = RunTraces(ratio=0.0)
    deployment = deployed(world, traces)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    (command,) = deployment.records(deployment.topology.commands())
    assert (header(command.headers, "traceparent") or "").endswith("-00")
    assert [span.name for span in traces.spans() if not span.name.startswith("commit")] == []


def test_an_evaluator_that_does_not_trace_passes_the_context_on(world: World) -> None:
    deployment = world.deployment(SOURCE)
    deployment.evaluator()
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    command = StartWorkflow(workflow_id="wf", workflow="shop.W", inputs={"n": 1})
    topic = deployment.topology.commands()
    headers = headers_for(command, source="/tests", caused_by=(("traceparent", parent),))
    deployment.put(topic, deployment.codec.encode(command, topic), key=b"wf", headers=headers)
    deployment.settle()

    (event,) = deployment.records(deployment.topology.facet("shop.Pay"))
    assert header(event.headers, "traceparent") == parent.decode()
