"""Runs of random workflows: their commands, readers and stores, what they record, and what must hold of that."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from afl.core.process.crashes import Crash
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent, TopicEvent
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.random_workflows import Data, RandomNode, RandomWorkflow, is_met

KEY: Final = RequestKey("random", "request")
#: A guard against a hang: nothing here waits for time to pass.
DEADLINE_S: Final = 60.0


@contextmanager
def seed_named(workflow: RandomWorkflow) -> Iterator[None]:
    """Add the seed to what goes wrong."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"random_workflow({workflow.seed}, {workflow.kind!r})")
        raise


class Pauses:
    """Lets other tasks go first, for a random number of turns of the loop."""

    def __init__(self, seed: object, longest: int) -> None:
        self._draw = random.Random(str(seed))
        self._longest = longest

    async def pause(self) -> None:
        for _ in range(self._draw.randrange(self._longest + 1)):
            await asyncio.sleep(0)


@dataclass
class Invocation:
    """What a node took in one invocation, and whether its command ended."""

    node: str
    events: list[ConsumeFromTopicEvent]
    outputs: list[Data] = field(default_factory=list)
    has_ended: bool = False


class Broken(Exception):
    """What a command raises, once, in the middle."""


class Fuse:
    """Breaks after so many events of all nodes; None: never."""

    def __init__(self, left: int | None = None) -> None:
        self._left = left

    def burn(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self._left = None
                raise Broken("the fuse is through")


class RecordingCommand:
    """Maps each event, with pauses, and records it."""

    def __init__(self, node: RandomNode, invocations: list[Invocation], pauses: Pauses, fuse: Fuse) -> None:
        self._node = node
        self._invocations = invocations
        self._pauses = pauses
        self._fuse = fuse

    async def invoke(
        self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]
    ) -> AsyncGenerator[object, None]:
        invocation = Invocation(self._node.name, list(events))
        self._invocations.append(invocation)
        for event in events:
            await self._pauses.pause()
            for data in self._node.outputs_of(event.data):
                invocation.outputs.append(data)
                yield data
            self._fuse.burn()
        await self._pauses.pause()
        invocation.has_ended = True


class WaitingStore:
    """The memory store behind appends that take turns of the loop. Crashes before or after a given append."""

    def __init__(self, pauses: Pauses, *, crash_at: int | None = None, is_stored: bool = False) -> None:
        self.inner = MemoryEventStore()
        self.appends = 0
        self._pauses = pauses
        self._crash_at = crash_at
        self._is_stored = is_stored

    def crash(self, at: int | None, *, is_stored: bool = False) -> None:
        """Set at which append from now on the process dies, and whether that is stored."""
        self.appends = 0
        self._crash_at = at
        self._is_stored = is_stored

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        await self._pauses.pause()
        is_last = self.appends == self._crash_at
        self.appends += 1
        if is_last and not self._is_stored:
            raise Crash("before the append")
        await self.inner.append(key, context, first, events, status)
        if is_last:
            raise Crash("after the append")
        await self._pauses.pause()

    async def request(self, key: RequestKey) -> StoredRequest | None:
        return await self.inner.request(key)

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        return await self.inner.requests(workflow, statuses)

    async def forget(self, key: RequestKey) -> None:
        await self.inner.forget(key)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Life:
    """One process's run of the request: what its nodes did, and what its caller got."""

    workflow: RandomWorkflow
    store: EventStore
    pauses: Pauses
    invoke_id: str = ""
    fuse: Fuse = field(default_factory=Fuse)
    #: The reader leaves after so many events; None: at the end.
    leaves_after: int | None = None
    invocations: list[Invocation] = field(default_factory=list)
    yielded: list[ConsumeFromTopicEvent] = field(default_factory=list)

    async def run(self, *, with_input: bool = True) -> bool:
        """Invoke the request and read it to the end. False: the process died, a node failed, or the reader left."""
        definition = self.workflow.definition(
            lambda node: RecordingCommand(node, self.invocations, self.pauses, self.fuse)
        )
        workflow = EventDrivenWorkflow(definition, event_store=self.store)
        context = InvokeContext(assistant_request_id=KEY.request_id, invoke_id=self.invoke_id)
        has_ended = False
        try:
            async with asyncio.timeout(DEADLINE_S):
                async with aclosing(workflow.invoke(context, self.workflow.data if with_input else None)) as events:
                    has_ended = await self._read(events)
        except (Crash, NodeFailed):
            pass
        finally:
            assert workflow._tracker.is_idle()
        return has_ended

    async def _read(self, events: AsyncIterator[ConsumeFromTopicEvent]) -> bool:
        """Read until the end, or until the reader leaves."""
        async for event in events:
            self.yielded.append(event)
            await self.pauses.pause()
            if self.leaves_after is not None and len(self.yielded) >= self.leaves_after:
                return False
        return True


def committed_offsets(stored: StoredRequest) -> Counter[tuple[str, str]]:
    """Return how many events each consumer has committed on each topic."""
    committed: Counter[tuple[str, str]] = Counter()
    for event in stored.events:
        if isinstance(event, ConsumeFromTopicEvent):
            place = event.consumer_name, event.name
            committed[place] = max(committed[place], event.offset + 1)
    return committed


def topics_of(stored: StoredRequest) -> dict[str, list[TopicEvent]]:
    """Return the events of each topic, as they were stored. Their offsets count from 0."""
    topics: dict[str, list[TopicEvent]] = {}
    for event in stored.events:
        if not isinstance(event, ConsumeFromTopicEvent):
            topics.setdefault(event.name, []).append(event)
    for topic, events in topics.items():
        assert [event.offset for event in events] == list(range(len(events))), f"offsets of {topic}"
        assert len({event.event_id for event in events}) == len(events), f"ids of {topic}"
    return topics


def canonical(data: Sequence[object]) -> list[str]:
    """Return data so that it can be counted and sorted."""
    return [json.dumps(each, sort_keys=True) for each in data]


def check_taking(workflow: RandomWorkflow, invocations: Sequence[Invocation]) -> None:
    """Check that each node took each event once, in its topic's order, and only when its subscription was met."""
    taken: Counter[tuple[str, str]] = Counter()
    by_name = {node.name: node for node in workflow.nodes}
    for invocation in invocations:
        node = by_name[invocation.node]
        counts = Counter(event.name for event in invocation.events)
        assert is_met(node.wish, counts), f"{node.name} ran with {dict(counts)}"
        assert node.max_events is None or max(counts.values()) <= node.max_events
        for event in invocation.events:
            assert event.offset == taken[node.name, event.name], f"{node.name} took {event} out of turn"
            taken[node.name, event.name] += 1


def check_end(workflow: RandomWorkflow, stored: StoredRequest) -> None:
    """Check that nothing could go on at the end, that everything taken was committed, and what the status says."""
    topics, committed = topics_of(stored), committed_offsets(stored)
    is_left = False
    for node in workflow.nodes:
        left = {topic for topic in node.topics if committed[node.name, topic] < len(topics.get(topic, ()))}
        assert not is_met(node.wish, left), f"{node.name} could still run with {left}"
        is_left = is_left or bool(left)
    for topic in workflow.outputs:
        assert committed["random", topic] == len(topics.get(topic, ())), f"output on {topic} was not given"
    assert stored.status == (RequestStatus.WAITING if is_left else RequestStatus.FINISHED)


def check_publishing(workflow: RandomWorkflow, stored: StoredRequest, invocations: Sequence[Invocation]) -> None:
    """Check that on each topic stands what each node made for it, in the order in which it was made."""
    made: dict[tuple[str, str], list[Data]] = {}
    by_name = {node.name: node for node in workflow.nodes}
    for invocation in invocations:
        for to in by_name[invocation.node].destinations:
            made.setdefault((invocation.node, to.topic), []).extend(filter(to.accepts, invocation.outputs))
    standing: dict[tuple[str, str], list[object]] = {place: [] for place in made}
    for topic, events in topics_of(stored).items():
        for event in events:
            standing.setdefault((event.publisher_name, topic), []).append(event.data)
    for topic in workflow.inputs:
        assert standing.pop(("random", topic)) == [workflow.data]
    assert standing == made
