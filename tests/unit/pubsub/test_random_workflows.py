"""Random workflows run to their end: nothing is lost, doubled, out of order, early, or for ever."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import pytest

from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestStatus, StoredRequest
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from tests.tiers import has_all_cases, in_one_run, some_now
from tests.unit.pubsub.running.random_workflows import Kind, RandomWorkflow, interpreted, random_workflow
from tests.unit.pubsub.running.workflow_runs import (
    KEY,
    Fuse,
    Invocation,
    Life,
    Pauses,
    WaitingStore,
    canonical,
    check_end,
    check_publishing,
    check_taking,
    committed_offsets,
    seed_named,
    topics_of,
)

#: Seeds of one test.
_BLOCK: Final = 50
#: Places at which a process dies, until only some of the others are tried.
_EACH_PLACE: Final = 40
_KINDS: Final[tuple[Kind, ...]] = ("any", "or_only", "single_writer")


def workflow_of(seed: int) -> RandomWorkflow:
    """Return the workflow of a seed, the kinds in turn."""
    return random_workflow(seed, _KINDS[seed % len(_KINDS)])


async def whole_run(workflow: RandomWorkflow) -> tuple[Life, StoredRequest]:
    """Run a workflow to its end, on a store that waits or one that does not."""
    draw = random.Random(f"how to run {workflow.seed}")
    pauses = Pauses(workflow.seed, draw.choice((0, 1, 3, 8)))
    store: EventStore = MemoryEventStore() if draw.random() < 0.5 else WaitingStore(pauses)
    life = Life(workflow, store, pauses)
    assert await life.run()
    stored = await store.request(KEY)
    assert stored is not None
    return life, stored


def check_result(workflow: RandomWorkflow, stored: StoredRequest) -> None:
    """Check what stands on the topics against the interpreter, as far as the kind of graph determines it."""
    if workflow.kind == "any":
        return
    topics = topics_of(stored)
    for topic, expected in interpreted(workflow).items():
        found = [event.data for event in topics.get(topic, ())]
        if workflow.kind == "single_writer":
            assert found == expected, topic
        else:
            assert Counter(canonical(found)) == Counter(canonical(expected)), topic


@pytest.mark.parametrize("first", some_now(in_one_run(range(0, 10_000, _BLOCK), 50), 4))
def test_a_random_workflow_runs_to_its_exact_end(first: int) -> None:
    async def check(workflow: RandomWorkflow) -> None:
        life, stored = await whole_run(workflow)
        check_taking(workflow, life.invocations)
        check_end(workflow, stored)
        check_publishing(workflow, stored, life.invocations)
        check_result(workflow, stored)
        given: dict[str, list[object]] = {}
        for event in life.yielded:
            given.setdefault(event.name, []).append(event.data)
        standing = {topic: [event.data for event in events] for topic, events in topics_of(stored).items()}
        assert given == {topic: standing[topic] for topic in workflow.outputs if topic in standing}

    for seed in range(first, first + _BLOCK):
        workflow = workflow_of(seed)
        with seed_named(workflow):
            asyncio.run(check(workflow))


# --- processes that die, readers that leave, and nodes that fail ----------------------------------------------------


class Lives:
    """A request through several runs of it, each by a new workflow object, and what all of them did."""

    def __init__(self, workflow: RandomWorkflow, store: WaitingStore) -> None:
        self.workflow = workflow
        self.store = store
        self.draw = random.Random(f"lives of {workflow.seed}")
        self.invoke_id = self.draw.choice(("", "call"))
        self.interrupted = 0
        self.yielded: list[ConsumeFromTopicEvent] = []
        self._finished: list[Invocation] = []

    def life(self) -> Life:
        """Return the next run."""
        return Life(self.workflow, self.store, Pauses(self.draw.random(), self.draw.choice((0, 1, 3))), self.invoke_id)

    async def live(self, life: Life, cancel_after: int | None = None) -> bool:
        """Run the request, and say whether it ended; its reader is cancelled after so many turns of the loop."""
        before = await self.store.request(KEY)
        # An input to a request that has ended is its next one, unless the call is known by its id.
        has_ended = before is not None and before.status in (RequestStatus.WAITING, RequestStatus.FINISHED)
        with_input = before is None or ((self.invoke_id or not has_ended) and self.draw.random() < 0.5)
        reading = asyncio.create_task(life.run(with_input=with_input))
        for _ in range(cancel_after or 0):
            await asyncio.sleep(0)
        if cancel_after is not None:
            reading.cancel()
        await asyncio.wait([reading])
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task is left"
        self._note(life, before, await self.store.request(KEY))
        is_over = not reading.cancelled() and reading.result()
        self.interrupted += not is_over
        return is_over

    def _note(self, life: Life, before: StoredRequest | None, after: StoredRequest | None) -> None:
        begun, finished = (Counter() if each is None else committed_offsets(each) for each in (before, after))
        for invocation in life.invocations:
            offsets = [(event.offset, (invocation.node, event.name)) for event in invocation.events]
            assert all(offset >= begun[place] for offset, place in offsets), f"{invocation} was finished before"
            if all(offset < finished[place] for offset, place in offsets):
                self._finished.append(invocation)
        self.yielded += life.yielded

    async def check(self) -> None:
        """Check that the request ended as if nothing had interrupted it."""
        stored = await self.store.request(KEY)
        assert stored is not None
        check_taking(self.workflow, self._finished)
        check_end(self.workflow, stored)
        check_publishing(self.workflow, stored, self._finished)
        check_result(self.workflow, stored)
        check_yielded(self.workflow, stored, self.yielded, self.interrupted)


async def die_at(workflow: RandomWorkflow, crashes: Iterable[tuple[int, bool]]) -> int:
    """Run a request through processes that die at these appends, and check how it ends. Returns how many died."""
    lives = Lives(workflow, WaitingStore(Pauses(workflow.seed, random.Random(workflow.seed).choice((0, 1, 3)))))
    for at, is_stored in chain(crashes, [(None, False)]):
        lives.store.crash(at, is_stored=is_stored)
        if await lives.live(lives.life()):
            break
    await lives.check()
    return lives.interrupted


def check_yielded(
    workflow: RandomWorkflow, stored: StoredRequest, yielded: Sequence[ConsumeFromTopicEvent], deaths: int
) -> None:
    """Check that callers got each output once, but for the one that was committed as a process died."""
    topics = topics_of(stored)
    standing = {event.event_id for topic in workflow.outputs for event in topics.get(topic, ())}
    given = Counter(event.event_id for event in yielded)
    assert set(given) <= standing
    assert not given or max(given.values()) == 1
    assert len(standing - set(given)) <= deaths


@pytest.mark.parametrize("first", some_now(in_one_run(range(0, 2_000, _BLOCK), 10), 4))
def test_a_request_ends_well_through_processes_that_die_again_and_again(first: int) -> None:
    for seed in range(first, first + _BLOCK):
        workflow = workflow_of(seed)
        draw = random.Random(f"crashes of {seed}")
        crashes = [(draw.randrange(1, 9), draw.random() < 0.5) for _ in range(40)]
        with seed_named(workflow):
            asyncio.run(die_at(workflow, crashes))


def places_to_die(seed: int) -> Iterator[int]:
    """Return the first places one by one, and of the hundreds that a large workflow has behind them some."""
    draw = random.Random(f"where {seed} dies")
    at = 0
    while True:
        yield at
        at += 1 if at < _EACH_PLACE or has_all_cases() else draw.randrange(1, 10)


@pytest.mark.parametrize("seed", some_now(in_one_run(range(200), 40), 6))
def test_a_request_ends_well_wherever_its_process_dies(seed: int) -> None:
    async def check(workflow: RandomWorkflow) -> None:
        for at in places_to_die(seed):
            if not await die_at(workflow, [(at, False)]) + await die_at(workflow, [(at, True)]):
                return

    workflow = workflow_of(seed)
    with seed_named(workflow):
        asyncio.run(check(workflow))


@pytest.mark.parametrize("first", some_now(in_one_run(range(0, 2_000, _BLOCK), 10), 4))
def test_a_request_ends_well_through_readers_that_leave_and_nodes_that_fail(first: int) -> None:
    async def check(workflow: RandomWorkflow) -> None:
        draw = random.Random(f"interruptions of {workflow.seed}")
        lives = Lives(workflow, WaitingStore(Pauses(workflow.seed, draw.choice((0, 1, 3)))))
        has_ended = False
        for how in chain(draw.choices(("close", "cancel", "fail"), k=10), ["end"]):
            life = lives.life()
            life.leaves_after = draw.randrange(1, 4) if how == "close" else None
            life.fuse = Fuse(draw.randrange(10) if how == "fail" else None)
            has_ended = await lives.live(life, draw.randrange(100) if how == "cancel" else None)
            if has_ended and draw.random() < 0.5:
                break
        assert has_ended
        await lives.check()

    for seed in range(first, first + _BLOCK):
        workflow = workflow_of(seed)
        with seed_named(workflow):
            asyncio.run(check(workflow))
