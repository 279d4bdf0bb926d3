"""A request that is run is a span, and each invocation of a node is one below it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from afl.core.handlers.retry import RetryPolicy
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node, NodeBuilder
from afl_stream.pubsub.model.spans import current_span
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import INPUT, OUTPUT, node, outputs, request, run, turns
from tests.worlds.traces import Traces

Events = Sequence[ConsumeFromTopicEvent]


def traced(traces: Traces, *nodes: Node) -> EventDrivenWorkflow:
    """Return a workflow whose requests are traced."""
    definition = WorkflowDefinition.of(name="test", nodes=nodes, spans=traces.tracing)
    return EventDrivenWorkflow(definition, event_store=MemoryEventStore())


async def two(_: InvokeContext, events: Events) -> AsyncIterator[Any]:
    for event in events:
        yield event.data
        yield event.data


@pytest.fixture
def traces() -> Traces:
    return Traces()


def attributes_of(traces: Traces, name: str) -> dict[str, Any]:
    """Return the attributes of the only span of a name."""
    (found,) = traces.attributes(name)
    return found


def test_a_request_and_its_nodes_are_spans(traces: Traces) -> None:
    run(outputs(traced(traces, node("two", two, INPUT, OUTPUT)), "x"))

    assert sorted(traces.tree()) == ["test", "test/two"]
    assert attributes_of(traces, "test")["afl.pubsub.status"] == "finished"
    assert attributes_of(traces, "two")["afl.pubsub.events"] == 1


def test_a_node_that_fails_fails_its_span_and_the_requests(traces: Traces) -> None:
    async def broken(_: InvokeContext, events: Events) -> None:
        raise ValueError("broken")

    with pytest.raises(NodeFailed):
        run(outputs(traced(traces, node("broken", broken, INPUT, OUTPUT)), "x"))

    assert traces.span("broken").status.status_code == StatusCode.ERROR
    assert traces.span("test").status.status_code == StatusCode.ERROR
    assert attributes_of(traces, "test")["afl.pubsub.status"] == "failed"


def test_a_reader_that_leaves_ends_the_span_of_the_request(traces: Traces) -> None:
    built = traced(traces, node("two", two, INPUT, OUTPUT))

    async def check() -> None:
        async with aclosing(built.invoke(request(), "x")) as events:
            await anext(events)
            await turns()

    run(check())

    assert sorted(traces.tree()) == ["test", "test/two"]


def test_every_try_of_an_invocation_is_in_one_span(traces: Traces) -> None:
    tries: list[object] = []

    async def second_time(_: InvokeContext, events: Events) -> str:
        tries.append(events)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "done"

    again = RetryPolicy(max_attempts=2, backoff_s=0)
    built = traced(
        traces, NodeBuilder().name("n").command(second_time).subscribe(INPUT).publish_to(OUTPUT).retry(again).build()
    )

    assert run(outputs(built, "x")) == ["done"]
    assert sorted(traces.tree()) == ["test", "test/n"]


def test_a_command_finds_the_span_of_its_invocation(traces: Traces) -> None:
    seen: list[str] = []

    async def looks(_: InvokeContext, events: Events) -> None:
        await asyncio.sleep(0)
        seen.append(current_span().traceparent)

    run(outputs(traced(traces, node("one", looks, INPUT, OUTPUT), node("other", looks, INPUT, OUTPUT)), "x"))

    assert len(set(seen)) == 2
    assert "" not in seen
