"""Due timers in order of time, of the owned partitions; and how rarely the store is asked while none is due."""

from __future__ import annotations

from collections import Counter

from afl.core.clock import ManualClock
from afl.engine.model.store import Batch, TimerKind, TimerRow
from afl.stores.memory.store import MemoryStore
from afl_stream.evaluator.timers.due_timers import DueTimers
from afl_stream.partitioner import partition_for

PARTITIONS = 2
BOTH = frozenset({0, 1})
NOW_MS = 1_000_000


class CountedStore(MemoryStore):
    """A store in memory that counts the questions about timers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def timers_due(self, now_ms: int, *, after: TimerRow | None = None, limit: int = 1_000) -> list[TimerRow]:
        self.asked["due"] += 1
        return super().timers_due(now_ms, after=after, limit=limit)

    def next_timer_ms(self) -> int | None:
        self.asked["next"] += 1
        return super().next_timer_ms()


class Here:
    """A store, a clock, and what finds the due timers."""

    def __init__(self) -> None:
        self.store, self.clock = CountedStore(), ManualClock(NOW_MS)
        self.due = DueTimers(self.store, self.clock, PARTITIONS)

    def write(self, *timers: TimerRow, done: tuple[str, ...] = ()) -> None:
        """Write timers as another writer does."""
        self.store.commit_batch(Batch(timers=list(timers), timers_done=list(done)))

    def take(self, partitions: frozenset[int] = BOTH, most: int = 100) -> list[str]:
        return [timer.step_id for timer in self.due.take(partitions, most)]

    def fire(self, partitions: frozenset[int] = BOTH, most: int = 100) -> list[str]:
        taken = self.take(partitions, most)
        self.write(done=tuple(taken))
        return taken


def timer(step_id: str, due_at_ms: int) -> TimerRow:
    return TimerRow(step_id, step_id.partition(":")[0], TimerKind.SLEEP, due_at_ms)


def in_partition(partition: int) -> str:
    return next(name for n in range(100) if partition_for((name := f"wf-{n}").encode(), PARTITIONS) == partition)


def test_due_timers_come_in_order_of_time_and_step_id() -> None:
    here = Here()
    here.write(timer("b:1", NOW_MS), timer("a:2", NOW_MS), timer("c:1", NOW_MS - 5), timer("d:1", NOW_MS + 1))

    assert here.take() == ["c:1", "a:2", "b:1"]


def test_what_is_left_over_comes_first_the_next_time() -> None:
    here = Here()
    here.write(*(timer(f"w:{n}", NOW_MS - 10 + n) for n in range(5)))
    first = here.due.take(BOTH, 3)

    here.due.give_back(first[1:])

    assert here.take() == ["w:1", "w:2", "w:3", "w:4"]


def test_more_timers_than_one_question_returns_come_in_order_and_each_once() -> None:
    here = Here()
    ids = [f"w:{n:05d}" for n in range(12_000)]
    here.write(*(timer(step_id, NOW_MS - 20_000 + n) for n, step_id in enumerate(ids)))
    taken: list[str] = []

    while found := here.fire(most=700):
        taken += found

    assert taken == ids


def test_timers_of_partitions_of_others_are_left_to_them() -> None:
    here = Here()
    ours, theirs = in_partition(0), in_partition(1)
    here.write(timer(f"{theirs}:1", NOW_MS - 2), timer(f"{ours}:1", NOW_MS - 1))

    assert here.fire(frozenset({0})) == [f"{ours}:1"]
    assert here.take(frozenset({0})) == []
    assert here.take(frozenset()) == []


def test_a_partition_that_is_taken_over_brings_its_due_timers() -> None:
    here = Here()
    theirs = in_partition(1)
    here.write(timer(f"{theirs}:1", NOW_MS - 2))
    assert here.take(frozenset({0})) == []

    assert here.take(BOTH) == [f"{theirs}:1"]


def test_timers_of_others_that_stay_due_do_not_hide_the_next_of_ours() -> None:
    here = Here()
    ours, theirs = in_partition(0), in_partition(1)
    here.write(*(timer(f"{theirs}:{n}", NOW_MS - 2) for n in range(3)), timer(f"{ours}:1", NOW_MS + 100))
    assert here.take(frozenset({0})) == []
    assert here.due.wait_s() == 0.1

    here.clock.advance(100)

    assert here.take(frozenset({0})) == [f"{ours}:1"]


def test_while_none_is_due_the_store_is_asked_one_question_a_second_however_many_there_are() -> None:
    here = Here()
    here.write(*(timer(f"w:{n}", NOW_MS + 3_600_000 + n) for n in range(10_000)))
    here.take()
    here.store.asked.clear()

    for _ in range(1_000):
        here.clock.advance(10)
        assert here.take() == []

    assert here.store.asked == {"next": 10}


def test_nothing_is_asked_while_no_partition_is_owned() -> None:
    here = Here()

    here.take(frozenset())

    assert here.store.asked == {}
    assert here.due.wait_s() is None


def test_a_timer_of_our_own_commit_is_known_at_once() -> None:
    here = Here()
    here.take()
    row = timer("w:1", NOW_MS + 50)
    here.write(row)

    here.due.written([row])

    assert here.due.wait_s() == 0.05
    here.clock.advance(50)
    assert here.take() == ["w:1"]


def test_a_timer_that_is_due_when_it_is_written_is_not_overlooked() -> None:
    here = Here()
    here.take()
    here.clock.advance(10)
    here.write(timer("v:1", NOW_MS + 10))
    here.due.written([timer("v:1", NOW_MS + 10)])
    assert here.fire() == ["v:1"]
    row = timer("w:1", NOW_MS - 1)
    here.write(row)

    here.due.written([row])

    assert here.due.has_due()
    assert here.take() == ["w:1"]


def test_a_timer_of_another_writer_is_found_within_a_second() -> None:
    here = Here()
    here.take()
    here.write(timer("w:1", NOW_MS + 100))
    assert here.take() == []

    here.clock.advance(1_000)

    assert here.take() == ["w:1"]


def test_a_workflow_that_cannot_be_continued_holds_up_no_other_and_is_tried_again() -> None:
    here = Here()
    here.write(timer("bad:1", NOW_MS - 2), timer("good:1", NOW_MS - 1))
    assert here.take() == ["bad:1", "good:1"]
    here.due.failed("bad")
    here.write(done=("good:1",))
    assert here.take() == []
    row = timer("good:2", NOW_MS + 10)
    here.write(row)
    here.due.written([row])
    here.clock.advance(10)

    assert here.fire() == ["good:2"]
    assert here.take() == []
    assert not here.due.has_due()
    here.clock.advance(1_000)
    assert here.take() == ["bad:1"]
    here.due.failed("bad")
    here.clock.advance(1_000)
    assert here.take() == []
    here.clock.advance(1_000)
    assert here.take() == ["bad:1"]


def test_the_waits_between_attempts_grow_to_a_minute_until_one_succeeds() -> None:
    here = Here()
    waits = []
    for _ in range(8):
        here.due.failed("bad")
        began_s = here.clock.monotonic_s()
        while here.due.is_failing("bad"):
            here.clock.advance(1_000)
        waits.append(here.clock.monotonic_s() - began_s)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    here.due.succeeded("bad")
    here.due.failed("bad")
    here.clock.advance(1_000)
    assert not here.due.is_failing("bad")


def test_after_the_clock_was_set_back_timers_are_due_by_the_clock() -> None:
    here = Here()
    here.take()
    here.clock.set_back(60_000)
    here.write(timer("w:1", NOW_MS - 59_000))

    here.clock.advance(999)
    assert here.take() == []
    here.clock.advance(1)
    assert here.take() == ["w:1"]
