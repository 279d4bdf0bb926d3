"""The process of a request dies at each numbered step, and another one goes on from the store's file."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from afl.core.process.crashes import Crash
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import NodeBuilder
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow

Events = Sequence[ConsumeFromTopicEvent]

POINTS: Final = ("run.before_append", "run.appended", "run.output_committed", "run.ended")
REQUEST: Final = InvokeContext(assistant_request_id="r1", invoke_id="first")
ANSWER: Final = InvokeContext(assistant_request_id="r1", invoke_id="second")
KEY: Final = RequestKey("halving", "r1")

INPUT, WORK, RESULTS = InputTopic("input"), Topic("work", lambda data: data != 1), OutputTopic("results")
ASK, ANSWERS = InWorkflowOutputTopic("ask", reply_to="answers"), InWorkflowInputTopic("answers")


class CrashAt:
    """A probe that ends the process when a point is passed for the nth time."""

    def __init__(self, point: str = "", nth: int = 0) -> None:
        self._point = point
        self._left = nth
        self.has_crashed = False

    def __call__(self, step: str) -> None:
        if step == self._point:
            self._left -= 1
            if self._left == 0:
                self.has_crashed = True
                raise Crash(step)


class Nodes:
    """The commands of a workflow that halves numbers until they are one, and asks whether to sum up."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, tuple[int, ...]]] = []

    def _note(self, node: str, events: Events) -> None:
        self.begun.append((node, tuple(event.offset for event in events)))

    async def split(self, _: InvokeContext, events: Events) -> AsyncIterator[int]:
        self._note("split", events)
        for number in events[0].data:
            yield number

    async def halve(self, _: InvokeContext, events: Events) -> AsyncIterator[int]:
        self._note("halve", events)
        await asyncio.sleep(0)
        yield events[0].data // 2

    async def ask(self, _: InvokeContext, events: Events) -> str:
        self._note("ask", events)
        return "go on?"

    async def end(self, _: InvokeContext, events: Events) -> list[Any]:
        self._note("end", events)
        return [event.data for event in events]

    def workflow(self, store: SQLiteEventStore, probe: CrashAt) -> EventDrivenWorkflow:
        """Return the workflow of a process."""
        definition = WorkflowDefinition.of(
            name="halving",
            nodes=[
                NodeBuilder().name("split").command(self.split).subscribe(INPUT).publish_to(WORK).build(),
                NodeBuilder()
                .name("halve")
                .command(self.halve)
                .subscribe(WORK)
                .max_events(1)
                .publish_to(WORK)
                .publish_to(RESULTS)
                .build(),
                NodeBuilder().name("ask").command(self.ask).subscribe(INPUT).publish_to(ASK).build(),
                NodeBuilder().name("end").command(self.end).subscribe(ANSWERS).publish_to(RESULTS).build(),
            ],
        )
        return EventDrivenWorkflow(definition, event_store=store, probe=probe)


async def life(file: Path, nodes: Nodes, probe: CrashAt, context: InvokeContext, given: object) -> list[Any]:
    """Run one process's share of the request, and return what its caller got."""
    store = SQLiteEventStore(file)
    got = []
    try:
        async for event in nodes.workflow(store, probe).invoke(context, given):
            got.append((event.name, event.data))
    except Crash:
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await store.close()
    return got


async def finished(file: Path) -> Counter[tuple[str, str]]:
    """Return how many events each node has committed, by the file."""
    store = SQLiteEventStore(file)
    stored = await store.request(KEY)
    await store.close()
    committed: Counter[tuple[str, str]] = Counter()
    for event in () if stored is None else stored.events:
        if isinstance(event, ConsumeFromTopicEvent):
            committed[event.consumer_name, event.name] = event.offset + 1
    return committed


async def whole_request(file: Path, probe: CrashAt) -> list[Any]:
    """Run a request and its answer. Where the process dies, another one goes on, called with the same again."""
    nodes = Nodes()
    topic_of = {"split": "input", "halve": "work", "ask": "input", "end": "answers"}
    got: list[Any] = []
    for context, given in ((REQUEST, [8, 5]), (ANSWER, "yes")):
        while True:
            had_crashed, committed = probe.has_crashed, await finished(file)
            nodes.begun.clear()
            got += await life(file, nodes, probe, context, given)
            for node, offsets in nodes.begun:
                assert min(offsets) >= committed[node, topic_of[node]], f"{node} was finished with {offsets}"
            if probe.has_crashed == had_crashed:
                break
    store = SQLiteEventStore(file)
    stored = await store.request(KEY)
    await store.close()
    assert stored is not None
    assert stored.status == RequestStatus.FINISHED
    return got


@pytest.mark.parametrize("point", POINTS)
def test_another_process_goes_on_wherever_the_first_one_died(tmp_path: Path, point: str) -> None:
    async def check() -> None:
        expected = Counter(map(str, await whole_request(tmp_path / "whole", CrashAt())))
        assert expected == Counter(
            {
                "('results', 4)": 1,
                "('results', 2)": 2,
                "('results', 1)": 2,
                "('ask', 'go on?')": 1,
                "('results', ['yes'])": 1,
            }
        )
        for nth in count(1):
            probe = CrashAt(point, nth)
            got = Counter(map(str, await whole_request(tmp_path / f"died {nth}", probe)))
            if not probe.has_crashed:
                assert nth > 2, "the point was never passed"
                break
            # The one event that was committed as the process died was yielded to nobody.
            assert got <= expected
            assert sum((expected - got).values()) <= 1

    asyncio.run(check())
