"""Spans and their attributes, as OpenTelemetry gets them, with names from OpenInference's own package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from openinference.semconv.trace import (
    MessageAttributes,
    OpenInferenceSpanKindValues,
    SpanAttributes,
    ToolAttributes,
    ToolCallAttributes,
)
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.llm.function_command import FunctionCallTool
from afl_stream.pubsub.llm.llm_command import LLMCommand
from afl_stream.pubsub.model import span_kinds
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.expressions import On
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.spans import NO_SPAN, NO_SPANS, Span, current_span, node_span
from afl_stream.pubsub.model.topics import InputTopic
from tests.unit.pubsub.llm.scripted_model import ScriptedModel, call
from tests.worlds.traces import Traces

AGENT = span_kinds.OpenInferenceSpanKindValues.AGENT
CHAIN = span_kinds.OpenInferenceSpanKindValues.CHAIN
CONTEXT = InvokeContext(assistant_request_id="r1", conversation_id="talk 5", user_id="kim", invoke_id="i7")


def started(traces: Traces, context: InvokeContext = CONTEXT) -> Span:
    """Start the span of a request."""
    return traces.tracing.request("Desk", "HelpDesk", AGENT, context)


def parent_of(traces: Traces, name: str) -> str | None:
    """Return the name of the span above a span; None for a root."""
    (path,) = [path for path in traces.tree() if path.rpartition("/")[2] == name]
    return path.split("/")[-2] if "/" in path else None


def attributes_of(traces: Traces, name: str) -> dict[str, Any]:
    """Return the attributes of the only span of a name."""
    (found,) = traces.attributes(name)
    return found


@pytest.fixture
def traces() -> Traces:
    return Traces()


def node_of(command: Command, name: str = "ask") -> Node:
    return Node(name=name, command=command, subscription=On(InputTopic("in")))


def run_node(request: Span, node: Node, *data: object) -> list[object]:
    """Run a node as a run of a workflow does: in a task of its own, with a span of its own."""

    async def run() -> list[object]:
        events = [ConsumeFromTopicEvent(f"e{n}", "r1", "in", n, item) for n, item in enumerate(data)]
        yielded = []
        with node_span(request, node, events) as span:
            async for item in node.invoke(CONTEXT, events):
                span.output(item)
                yielded.append(item)
        return yielded

    async def in_a_task() -> list[object]:
        return await asyncio.create_task(run())

    return asyncio.run(in_a_task())


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_the_kinds_of_spans_are_those_of_openinference() -> None:
    ours = span_kinds.OpenInferenceSpanKindValues

    assert {kind.name: kind.value for kind in ours} == {kind.name: kind.value for kind in OpenInferenceSpanKindValues}


def test_a_request_has_a_span_that_says_whose_it_is(traces: Traces) -> None:
    started(traces).end()

    assert attributes_of(traces, "Desk") == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: "AGENT",
        SpanAttributes.SESSION_ID: "talk 5",
        SpanAttributes.USER_ID: "kim",
        SpanAttributes.AGENT_NAME: "Desk",
        "afl.pubsub.workflow": "Desk",
        "afl.pubsub.workflow.type": "HelpDesk",
        "afl.pubsub.request_id": "r1",
        "afl.pubsub.invoke_id": "i7",
    }
    assert traces.span("Desk").parent is None


def test_model_and_functions_are_below_their_nodes_and_these_below_the_request(traces: Traces) -> None:
    functions = FunctionCallTool(add)
    model = ScriptedModel([call("add", "c1", a=1, b=2)])
    request = started(traces)

    (asked,) = run_node(request, node_of(LLMCommand(model, specs=functions.function_specs())), "1+2?")
    run_node(request, node_of(functions, "calculate"), asked)
    request.end()

    assert {span.name: parent_of(traces, span.name) for span in traces.ended} == {
        "scripted-1": "ask",
        "add": "calculate",
        "ask": "Desk",
        "calculate": "Desk",
        "Desk": None,
    }
    assert len({span.context.trace_id for span in traces.ended}) == 1
    assert {span.name: (span.attributes or {})[SpanAttributes.OPENINFERENCE_SPAN_KIND] for span in traces.ended} == {
        "scripted-1": "LLM",
        "add": "TOOL",
        "ask": "CHAIN",
        "calculate": "CHAIN",
        "Desk": "AGENT",
    }
    assert all((span.attributes or {})[SpanAttributes.SESSION_ID] == "talk 5" for span in traces.ended)


def test_calls_that_run_at_once_are_each_below_their_node(traces: Traces) -> None:
    def inner(place: str) -> None:
        with current_span().child(f"inner {place}", CHAIN, {}):
            assert threading.current_thread() is not threading.main_thread()

    functions = FunctionCallTool(inner)
    model = ScriptedModel([call("inner", place, place=place) for place in ("a", "b", "c")])
    data = run_node(NO_SPAN, node_of(LLMCommand(model, specs=functions.function_specs())), "q")

    with started(traces) as request:
        run_node(request, node_of(functions, "calculate"), *data)

    tools = {span.context.span_id: span for span in traces.ended if span.name == "inner"}
    calculate = traces.span("calculate").context.span_id
    assert [span.parent.span_id for span in tools.values() if span.parent] == [calculate] * 3
    for place in ("a", "b", "c"):
        above = traces.span(f"inner {place}").parent
        assert above is not None
        assert (tools[above.span_id].attributes or {})[SpanAttributes.TOOL_ID] == place


def test_a_request_to_a_model_tells_the_model_and_its_tokens(traces: Traces) -> None:
    with started(traces) as request:
        run_node(request, node_of(LLMCommand(ScriptedModel("ok"))), "q")

    attributes = attributes_of(traces, "scripted-1")
    assert attributes[SpanAttributes.LLM_MODEL_NAME] == "scripted-1"
    assert attributes[SpanAttributes.LLM_TOKEN_COUNT_PROMPT] == 20
    assert attributes[SpanAttributes.LLM_TOKEN_COUNT_COMPLETION] == 5
    assert attributes[SpanAttributes.LLM_TOKEN_COUNT_TOTAL] == 25
    assert attributes[SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ] == 0
    assert attributes[SpanAttributes.LLM_FINISH_REASON] == "end"


def test_a_node_tells_which_one_it_is_and_how_much_it_took(traces: Traces) -> None:
    with started(traces) as request:
        run_node(request, node_of(LLMCommand(ScriptedModel("ok"))), "q", "r")

    attributes = attributes_of(traces, "ask")
    assert attributes[SpanAttributes.GRAPH_NODE_ID] == attributes[SpanAttributes.GRAPH_NODE_NAME] == "ask"
    assert attributes["afl.pubsub.topics"] == ("in",)
    assert attributes["afl.pubsub.events"] == 2


def test_a_call_of_a_function_tells_the_function(traces: Traces) -> None:
    functions = FunctionCallTool(add)
    data = run_node(NO_SPAN, node_of(LLMCommand(ScriptedModel([call("add", "c9", a=1, b=2)]))), "q")
    with started(traces) as request:
        run_node(request, node_of(functions, "calculate"), *data)

    attributes = attributes_of(traces, "add")
    assert attributes[SpanAttributes.TOOL_NAME] == "add"
    assert attributes[SpanAttributes.TOOL_DESCRIPTION] == "Add two numbers."
    assert attributes[SpanAttributes.TOOL_ID] == "c9"
    assert json.loads(attributes[SpanAttributes.TOOL_PARAMETERS])["required"] == ["a", "b"]


@pytest.mark.parametrize("secret", ["my question", "my answer", "my argument", "my result", "my system"])
def test_payloads_stay_out_of_spans_unless_they_are_asked_for(secret: str) -> None:
    def tell(word: str) -> str:
        return "my result"

    functions = FunctionCallTool(tell)
    model = ScriptedModel(
        [call("tell", "c1", word="my argument"), call("tell", "c2", word=["my argument"])], "my answer"
    )
    llm = LLMCommand(model, specs=functions.function_specs(), system="my system")

    def run(traces: Traces) -> str:
        model.replies = [*script]
        with started(traces) as request:
            data = run_node(request, node_of(llm), "my question")
            run_node(request, node_of(llm), *run_node(request, node_of(functions), *data))
        return "".join(span.to_json() for span in traces.ended)

    script = [*model.replies]

    assert secret not in run(Traces())
    assert secret in run(Traces(record_payloads=True))


def test_recorded_payloads_are_messages_and_values_of_openinference() -> None:
    traces = Traces(record_payloads=True)
    functions = FunctionCallTool(add)
    model = ScriptedModel([call("add", "c1", a=1, b=2)], "3")
    llm = LLMCommand(model, specs=functions.function_specs(), system="Be short.")

    calls = run_node(NO_SPAN, node_of(llm), "1+2?")

    with started(traces) as request:
        request.input("1+2?")
        data = run_node(request, node_of(functions, "calculate"), *calls)
        (answer,) = run_node(request, node_of(llm), *data)
        request.output(answer)

    asked = attributes_of(traces, "scripted-1")
    inputs, outputs = SpanAttributes.LLM_INPUT_MESSAGES, SpanAttributes.LLM_OUTPUT_MESSAGES
    tool_call = f"{MessageAttributes.MESSAGE_TOOL_CALLS}.0"
    assert [asked[f"{inputs}.{n}.{MessageAttributes.MESSAGE_ROLE}"] for n in range(4)] == [
        "system", "user", "assistant", "tool",
    ]  # fmt: skip
    assert asked[f"{inputs}.0.{MessageAttributes.MESSAGE_CONTENT}"] == "Be short."
    assert asked[f"{inputs}.2.{tool_call}.{ToolCallAttributes.TOOL_CALL_ID}"] == "c1"
    assert asked[f"{inputs}.2.{tool_call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}"] == "add"
    assert asked[f"{inputs}.2.{tool_call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}"] == '{"a": 1, "b": 2}'
    assert asked[f"{inputs}.3.{MessageAttributes.MESSAGE_TOOL_CALL_ID}"] == "c1"
    assert asked[f"{inputs}.3.{MessageAttributes.MESSAGE_CONTENT}"] == "3"
    assert asked[f"{outputs}.0.{MessageAttributes.MESSAGE_CONTENT}"] == "3"
    spec = json.loads(asked[f"{SpanAttributes.LLM_TOOLS}.0.{ToolAttributes.TOOL_JSON_SCHEMA}"])
    assert spec["name"] == "add"
    assert attributes_of(traces, "add")[SpanAttributes.INPUT_VALUE] == '{"a": 1, "b": 2}'
    assert attributes_of(traces, "add")[SpanAttributes.INPUT_MIME_TYPE] == "application/json"
    assert attributes_of(traces, "add")[SpanAttributes.OUTPUT_VALUE] == "3"
    assert attributes_of(traces, "add")[SpanAttributes.OUTPUT_MIME_TYPE] == "text/plain"
    assert attributes_of(traces, "Desk")[SpanAttributes.INPUT_VALUE] == "1+2?"
    assert json.loads(attributes_of(traces, "Desk")[SpanAttributes.OUTPUT_VALUE])["text"] == "3"


def test_attributes_are_bounded_in_size_and_number() -> None:
    traces = Traces(record_payloads=True, max_attribute_chars=100)
    question = {"messages": [{"role": "user", "text": "x" * 1_000_000}] * 500}

    with started(traces) as request:
        run_node(request, node_of(LLMCommand(ScriptedModel("y" * 1_000_000))), question)

    for span in traces.ended:
        assert len(span.attributes or {}) < 128
        assert all(len(value) <= 100 for value in (span.attributes or {}).values() if isinstance(value, str))
    asked = attributes_of(traces, "scripted-1")
    assert asked[SpanAttributes.INPUT_VALUE].endswith("…")
    assert asked[SpanAttributes.INPUT_MIME_TYPE] == "text/plain"
    assert f"{SpanAttributes.LLM_INPUT_MESSAGES}.499.{MessageAttributes.MESSAGE_ROLE}" in asked
    assert asked[SpanAttributes.OPENINFERENCE_SPAN_KIND] == "LLM"


def test_several_outputs_are_a_list_and_only_the_first_ones_are_kept() -> None:
    traces = Traces(record_payloads=True, max_attribute_chars=100)
    some, many = (
        traces.tracing.request("some", "t", CHAIN, CONTEXT),
        traces.tracing.request("many", "t", CHAIN, CONTEXT),
    )

    for number in range(3):
        some.output({"n": number})
    for number in range(1_000):
        many.output({"n": number})
    some.end()
    many.end()

    assert json.loads(attributes_of(traces, "some")[SpanAttributes.OUTPUT_VALUE]) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len(attributes_of(traces, "many")[SpanAttributes.OUTPUT_VALUE]) == 100


def test_a_failure_is_that_of_its_span_and_names_the_error(traces: Traces) -> None:
    request = started(traces)

    with pytest.raises(Exception, match="the script is over"):
        run_node(request, node_of(LLMCommand(ScriptedModel())), "q")
    request.end()

    for name in ("scripted-1", "ask"):
        assert traces.span(name).status.status_code is StatusCode.ERROR
        assert traces.span(name).status.description == "model scripted-1: the script is over"
        assert attributes_of(traces, name)["error.type"] == "ModelUnavailable"
    assert traces.span("Desk").status.status_code is StatusCode.UNSET


def test_what_a_function_raises_fails_its_span_and_not_its_node(traces: Traces) -> None:
    def divide(a: int, b: int) -> float:
        return a / b

    calls = [call("divide", "c1", a=1, b=0)]
    data = run_node(NO_SPAN, node_of(LLMCommand(ScriptedModel(calls))), "q")
    with started(traces) as request:
        run_node(request, node_of(FunctionCallTool(divide), "calculate"), *data)

    assert attributes_of(traces, "divide")["error.type"] == "ZeroDivisionError"
    assert traces.span("calculate").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(("record_payloads", "told"), [(False, None), (True, "no customer kim@example.com")])
def test_what_a_programs_own_error_says_is_payload(traces: Traces, record_payloads: bool, told: str | None) -> None:
    traces.tracing.record_payloads = record_payloads
    span = started(traces)
    span.fail(LookupError("no customer kim@example.com"))
    span.end()

    assert attributes_of(traces, "Desk")["error.type"] == "LookupError"
    assert (traces.span("Desk").status.description or None) == told


def test_a_failed_node_is_named_without_what_it_said(traces: Traces) -> None:
    failed = NodeFailed("Desk", "ask", "r1", "LookupError: no customer kim@example.com")
    failed.__cause__ = LookupError("no customer kim@example.com")
    traces.tracing.record_payloads = False
    span = started(traces)
    span.fail(failed)
    span.end()

    assert traces.span("Desk").status.description == "node ask failed: LookupError"


def test_a_cancelled_node_is_no_failed_one(traces: Traces) -> None:
    async def cancel() -> None:
        async def wait() -> None:
            with node_span(request, node_of(FunctionCallTool()), [ConsumeFromTopicEvent("e", "r1", "in", 0, "q")]):
                await asyncio.Event().wait()

        with started(traces) as request:
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(cancel())

    assert attributes_of(traces, "ask")["afl.pubsub.cancelled"] is True
    assert traces.span("ask").status.status_code is StatusCode.UNSET


def test_spans_of_other_libraries_are_below_the_work_that_they_are_part_of(traces: Traces) -> None:
    library = traces.provider.get_tracer("an HTTP client")

    def fetch() -> str:
        with library.start_as_current_span("GET"):
            return "page"

    data = run_node(NO_SPAN, node_of(LLMCommand(ScriptedModel([call("fetch")]))), "q")
    with library.start_as_current_span("handle request"), started(traces) as request:
        run_node(request, node_of(FunctionCallTool(fetch), "calculate"), *data)

    assert parent_of(traces, "GET") == "fetch"
    assert parent_of(traces, "Desk") == "handle request"


def test_a_request_goes_on_with_the_trace_that_its_context_carries(traces: Traces) -> None:
    with started(traces) as caller:
        carried = caller.traceparent
    # In another process, and by way of JSON.
    elsewhere = Traces()
    context = InvokeContext(assistant_request_id="r2", attributes=json.loads(json.dumps({"traceparent": carried})))
    started(elsewhere, context).end()

    desk, above = elsewhere.span("Desk"), traces.span("Desk").context
    assert desk.context.trace_id == above.trace_id
    assert desk.parent is not None
    assert desk.parent.span_id == above.span_id
    assert carried.startswith(f"00-{above.trace_id:032x}-{above.span_id:016x}-")


def test_a_context_carries_the_callers_span_unless_it_carries_one(traces: Traces) -> None:
    context = InvokeContext(assistant_request_id="r1", attributes={"tone": "calm"})

    assert traces.tracing.carried(context) is context
    with started(traces) as caller:
        carried = traces.tracing.carried(context)
        with started(traces):
            assert traces.tracing.carried(carried) is carried
    assert carried.attributes == {"tone": "calm", "traceparent": caller.traceparent}
    assert NO_SPANS.carried(context) is context


@pytest.mark.parametrize("carried", ["", "nonsense", "00-0-0-00", 17, None])
def test_a_traceparent_that_is_none_is_left_alone(traces: Traces, carried: object) -> None:
    started(traces, InvokeContext(assistant_request_id="r2", attributes={"traceparent": carried})).end()

    assert traces.span("Desk").parent is None


def test_a_request_that_is_not_sampled_makes_no_attributes_and_no_stray_spans() -> None:
    traces = Traces(ALWAYS_OFF, record_payloads=True)
    request = started(traces)

    run_node(request, node_of(LLMCommand(ScriptedModel("ok"))), "q")
    request.end()

    assert not request.is_recording
    assert not request.records_payloads
    assert traces.ended == ()


def test_a_span_ends_once_and_leaves_the_callers_own_current(traces: Traces) -> None:
    with started(traces) as request:
        assert current_span() is request
        assert trace.get_current_span().get_span_context().span_id
        request.end()
    request.end()

    assert current_span() is NO_SPAN
    assert not trace.get_current_span().get_span_context().is_valid
    assert len(traces.ended) == 1


def test_without_tracing_there_is_one_span_that_does_nothing() -> None:
    request = NO_SPANS.request("Desk", "t", AGENT, CONTEXT)

    with node_span(request, node_of(FunctionCallTool()), []) as span:
        assert span is request is NO_SPAN is span.child("x", CHAIN, {}) is current_span()


def test_workflows_and_their_models_load_no_opentelemetry() -> None:
    program = (
        "import sys\n"
        "import afl_stream.pubsub.llm.llm_command, afl_stream.pubsub.tracing.tracing\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"
