"""Small workflows for tests of how requests run: nodes from functions, and what is read of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import Node, NodeBuilder
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow

T = TypeVar("T")

INPUT: Final = InputTopic("input")
OUTPUT: Final = OutputTopic("output")

#: A guard against a hang: nothing here waits for time to pass.
DEADLINE_S: Final = 30.0


def node(
    name: str,
    function: Callable[[InvokeContext, Sequence[ConsumeFromTopicEvent]], object],
    subscription: Topic | str,
    *targets: Topic,
    max_events: int | None = None,
) -> Node:
    """Return a node with a function as its command."""
    builder = NodeBuilder().name(name).command(function).subscribe(subscription)
    for topic in targets:
        builder.publish_to(topic)
    return (builder if max_events is None else builder.max_events(max_events)).build()


def workflow(
    *nodes: Node, store: EventStore | None = None, topics: Sequence[Topic] = (), max_buffered: int = 1_000
) -> EventDrivenWorkflow:
    """Return a workflow of these nodes, with the name `test`."""
    definition = WorkflowDefinition.of(name="test", nodes=nodes, topics=topics, max_buffered_events=max_buffered)
    return EventDrivenWorkflow(definition, event_store=MemoryEventStore() if store is None else store)


def request(request_id: str = "r1", invoke_id: str = "") -> InvokeContext:
    """Return the context of a request."""
    return InvokeContext(assistant_request_id=request_id, invoke_id=invoke_id)


async def passed_on(_: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> AsyncIterator[Any]:
    """Publish each event again."""
    for event in events:
        yield event.data


async def listed(_: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> list[Any]:
    """Publish one list of what was taken together."""
    return [event.data for event in events]


async def outputs(workflow: EventDrivenWorkflow, input: object = None, request_id: str = "r1") -> list[Any]:
    """Invoke a request, and return the data of its output."""
    return [event.data async for event in workflow.invoke(request(request_id), input)]


async def stored(workflow: EventDrivenWorkflow, request_id: str = "r1") -> StoredRequest:
    """Return what is stored of a request."""
    found = await workflow.event_store.request(RequestKey(workflow.name, request_id))
    assert found is not None
    return found


async def status(workflow: EventDrivenWorkflow, request_id: str = "r1") -> RequestStatus:
    """Return where a request stands by its store."""
    return (await stored(workflow, request_id)).status


def committed(events: Sequence[StoredEvent]) -> list[tuple[str, str, int]]:
    """Return the commits among stored events: consumer, topic, offset."""
    return [
        (event.consumer_name, event.name, event.offset) for event in events if isinstance(event, ConsumeFromTopicEvent)
    ]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a test to its end. It fails when it hangs, and when it leaves a task behind."""

    async def guarded() -> T:
        async with asyncio.timeout(DEADLINE_S):
            result = await coroutine
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task is left"
        return result

    return asyncio.run(guarded(), debug=True)


async def turns(count: int = 20) -> None:
    """Let everything go on that can without this task."""
    for _ in range(count):
        await asyncio.sleep(0)
