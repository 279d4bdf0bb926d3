"""Event-driven workflows in process, against queues of asyncio: `python -m benchmarks.pubsub_in_process`.

One node publishes events to a topic with four subscribers; every subscriber gets every event. The floor is what people
write without a workflow: one producer that puts each payload into four `asyncio.Queue`s, and one task for each that
gets them. Both buffer as many events, both run on one event loop, in this process and in turns; the payload is the same
dict of one integer. The store of the workflow keeps nothing, or all, in memory.

Two ways for a subscriber: with everything that is there (`together`, the default of a node), and with each event alone
(`alone`, max_events=1), where every event is an invocation, begun, tracked and committed.

The last line is one JSON object: `ratio`, CPU of a delivered event over that of the floor, of the first way, and
`alone_ratio` of the second, both with the memory store; the same with `_nothing_kept`; `cpu_us` and `floor_cpu_us` of a
delivered event, of the first way; and `grown_kib`, the memory that ten times as many events take more.
"""

import argparse
import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from typing import Final, TextIO

from afl_stream.evaluator.service import tune_collector
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from afl_stream.pubsub.model.nodes import NodeBuilder
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from benchmarks.measure import PairedSeconds, cpu_seconds, paired

SUBSCRIBERS: Final = 4
BUFFERED: Final = 1_000


class ForgettingStore(MemoryEventStore):
    """A store that keeps no events: what is measured then is the workflow alone."""

    def append_now(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        """Count the events."""
        super().append_now(key, context, 0, (), status)
        self.stored = first + len(events)


class Produce:
    """Yields so many payloads."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def invoke(
        self,
        context: InvokeContext,
        events: Sequence[ConsumeFromTopicEvent],
    ) -> AsyncGenerator[object, None]:
        """Yield them without a pause."""
        for number in range(self._count * len(events)):
            yield {"number": number}


class Consume:
    """Adds up what it gets."""

    def __init__(self) -> None:
        self.total = 0

    async def invoke(
        self,
        context: InvokeContext,
        events: Sequence[ConsumeFromTopicEvent],
    ) -> AsyncGenerator[object, None]:
        """Publish nothing."""
        for event in events:
            self.total += event.data["number"]
        return
        yield


def workflow_of(count: int, store: EventStore, max_events: int | None) -> tuple[EventDrivenWorkflow, list[Consume]]:
    """Return a workflow that publishes so many events to its subscribers."""
    given, numbers, output = InputTopic("input"), Topic("numbers"), OutputTopic("output")
    consumers = [Consume() for _ in range(SUBSCRIBERS)]
    builder = EventDrivenWorkflow.builder().name("benchmark").event_store(store).max_buffered_events(BUFFERED)
    builder.node(NodeBuilder().name("produce").command(Produce(count)).subscribe(given).publish_to(numbers))
    for place, consumer in enumerate(consumers):
        node = NodeBuilder().name(f"consume-{place}").command(consumer).subscribe(numbers).publish_to(output)
        builder.node(node if max_events is None else node.max_events(max_events))
    return builder.build(), consumers


def run_workflow(count: int, *, keeps: bool, max_events: int | None) -> int:
    """Deliver so many events by a workflow, and return what the subscribers added up."""
    workflow, consumers = workflow_of(count, MemoryEventStore() if keeps else ForgettingStore(), max_events)

    async def invoke() -> None:
        async for event in workflow.invoke(InvokeContext(assistant_request_id="request"), "go"):
            raise RuntimeError(f"the workflow has no output, and gave {event}")

    asyncio.run(invoke())
    return sum(consumer.total for consumer in consumers)


def run_queues(count: int) -> int:
    """Deliver so many payloads by queues, and return what was added up."""

    async def produce(queues: Sequence[asyncio.Queue[dict[str, int] | None]]) -> None:
        for number in range(count):
            payload = {"number": number}
            for queue in queues:
                await queue.put(payload)
        for queue in queues:
            await queue.put(None)

    async def consume(queue: asyncio.Queue[dict[str, int] | None]) -> int:
        total = 0
        while (payload := await queue.get()) is not None:
            total += payload["number"]
        return total

    async def fan_out() -> int:
        queues: list[asyncio.Queue[dict[str, int] | None]] = [asyncio.Queue(BUFFERED) for _ in range(SUBSCRIBERS)]
        totals, _ = await asyncio.gather(asyncio.gather(*(consume(queue) for queue in queues)), produce(queues))
        return sum(totals)

    return asyncio.run(fan_out())


def checked(total: int, count: int) -> None:
    """Check that every subscriber got every event. RuntimeError when not."""
    expected = SUBSCRIBERS * count * (count - 1) // 2
    if total != expected:
        raise RuntimeError(f"the subscribers added up {total}, expected {expected}")


def measure(count: int, pairs: int, *, keeps: bool, max_events: int | None) -> PairedSeconds:
    """Measure the workflow and the queues in turns."""

    def subject() -> float:
        return cpu_seconds(
            lambda: None, lambda _: checked(run_workflow(count, keeps=keeps, max_events=max_events), count)
        )

    def floor() -> float:
        return cpu_seconds(lambda: None, lambda _: checked(run_queues(count), count))

    return paired(subject, floor, pairs)


def peak_kib(count: int) -> float:
    """Return the most memory that a run of so many events takes, the store's aside."""
    gc.collect()
    tracemalloc.start()
    checked(run_workflow(count, keeps=False, max_events=None), count)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure each way, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pubsub_in_process", description="what an event costs")
    parser.add_argument("--events", type=int, default=50_000, metavar="N", help="events of a run (default: 50000)")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs for each figure (default: 9)")
    parser.add_argument(
        "--memory-events", type=int, default=20_000, metavar="N", help="and ten times as many, for memory (20000)"
    )
    options = parser.parse_args(arguments)
    tune_collector()
    figures: dict[str, float] = {}
    for name, keeps, max_events in (
        ("ratio", True, None),
        ("ratio_nothing_kept", False, None),
        ("alone_ratio", True, 1),
        ("alone_ratio_nothing_kept", False, 1),
    ):
        seconds = measure(options.events, options.pairs, keeps=keeps, max_events=max_events)
        figures[name] = round(seconds.ratio, 2)
        cpu_us, floor_cpu_us = (
            each / options.events / SUBSCRIBERS * 1e6 for each in (seconds.subject_s, seconds.floor_s)
        )
        if name == "ratio":
            figures |= {"cpu_us": round(cpu_us, 3), "floor_cpu_us": round(floor_cpu_us, 3)}
        out.write(
            f"{name:26s} {seconds.ratio:5.2f}, {cpu_us:6.3f} us a delivered event, by queues {floor_cpu_us:.3f}\n"
        )
        out.flush()
    few, many = peak_kib(options.memory_events), peak_kib(10 * options.memory_events)
    out.write(f"memory at {options.memory_events} events {few:.0f} KiB, at ten times as many {many:.0f} KiB\n")
    out.write(json.dumps({**figures, "grown_kib": round(many - few, 1)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
