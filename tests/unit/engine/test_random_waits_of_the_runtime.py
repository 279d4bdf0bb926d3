"""Random schedules of events, timers, answers, crashes and restarts, against a simple model of what comes of them."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from afl.engine.execution.events import fail_with
from afl.engine.execution.external_events import EventLimits, Raised, RaisedEvent, raise_event
from afl.engine.execution.iteration import run_iteration
from afl.engine.execution.timers import fire_timer
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.timers import TimerKind, TimerRow
from afl.engine.states import EventState
from afl.engine.types import Value
from tests.engine_view import SeenStep
from tests.unit.engine.running import compiled
from tests.unit.engine.waiting_runs import WaitingRun

PROGRAM = """
    schema Spec { i: Long, sleep: Long, name: String, limit: Long }
    event facet E(i: Long, got: Json) => (r: Json)
    facet One(spec: Spec) => (r: Json) andThen {
        s = afl.Sleep(ms = $.spec.sleep)
        a = afl.WaitForEvent(name = $.spec.name, timeout_ms = $.spec.limit + 0 * s.woke_at)
        e = E(i = $.spec.i, got = a.data) with Timeout(ms = 40) with Retry(times = 2, delay_ms = 10, factor = 2)
        yield One(r = e.r)
    } catch { yield One(r = $.error_type) }
    facet All(specs: [Spec]) => (r: [Json]) andThen foreach spec in $.specs {
        o = One(spec = spec)
        yield All(r = [o.r])
    }
    facet V(v: Json)
    facet Next(got: Json, specs: [Spec], round: Long) andThen when {
        case $.round > 1 => { c = afl.ContinueAsNew(inputs = #{"specs": $.specs, "round": $.round - 1}) }
        case _ => { v = V(v = 1) }
    }
    workflow W(specs: [Spec], round: Long) => (r: [Json]) andThen {
        all = All(specs = $.specs)
        n = Next(got = all.r, specs = $.specs, round = $.round)
        yield W(r = all.r)
    }
"""
NAMES = ("x", "y")
LIMITS = EventLimits(max_pending=6, max_carried_executions=1, kept_executions=100)
_COMPILED = compiled(PROGRAM)


@dataclass
class Element:
    """One element of the foreach, as the model sees it."""

    sleep: int
    name: str
    limit: int
    #: What it waits for: "sleep", "event", "answer", "pause"; "" when it is done.
    waits: str = "sleep"
    until_ms: int | None = None
    attempt: int = 0
    got: Value = None
    result: Value = None


@dataclass
class Model:
    """What must have happened: no more than dictionaries and queues."""

    specs: list[tuple[int, str, int]]
    rounds: int
    now_ms: int
    round: int = 1
    elements: list[Element] = field(default_factory=list)
    #: Pending events by name: data, and the round in which they were raised.
    pending: dict[str, deque[tuple[int, int]]] = field(default_factory=lambda: defaultdict(deque))
    taken: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    waiting: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    is_done: bool = False

    def begin(self) -> None:
        self.elements = [Element(*spec) for spec in self.specs]
        for element in self.elements:
            if element.sleep:
                element.until_ms = self.now_ms + element.sleep
        # Those that do not sleep come to their events together, in order.
        for index, element in enumerate(self.elements):
            if not element.sleep:
                self.awake(index)

    def awake(self, index: int) -> None:
        element = self.elements[index]
        element.waits, element.until_ms = "event", None
        if self.pending[element.name]:
            data, _ = self.pending[element.name].popleft()
            self.take(index, data)
            return
        self.waiting[element.name].append(index)
        element.until_ms = self.now_ms + element.limit if element.limit else None

    def take(self, index: int, data: int) -> None:
        self.taken.append(data)
        self.call(index, data)

    def call(self, index: int, got: Value) -> None:
        element = self.elements[index]
        element.got, element.waits = got, "answer"
        element.attempt += 1
        element.until_ms = self.now_ms + 40

    def raised(self, name: str, data: int) -> Raised:
        if self.is_done:
            return Raised.ENDED
        if self.waiting[name]:
            self.take(self.waiting[name].pop(0), data)
            return Raised.TAKEN
        if sum(map(len, self.pending.values())) >= LIMITS.max_pending:
            return Raised.LIMIT
        self.pending[name].append((data, self.round))
        return Raised.QUEUED

    def failed(self, index: int, error_type: str) -> None:
        element = self.elements[index]
        if element.attempt <= 2:
            element.waits, element.until_ms = "pause", self.now_ms + 10 * 2 ** (element.attempt - 1)
        else:
            self.finish(index, error_type)

    def finish(self, index: int, result: Value) -> None:
        element = self.elements[index]
        element.waits, element.until_ms, element.result = "", None, result
        if any(each.waits for each in self.elements):
            return
        if self.round == self.rounds:
            self.is_done = True
            return
        self.round += 1
        for name, events in self.pending.items():
            kept = deque((data, of) for data, of in events if self.round - of <= LIMITS.max_carried_executions)
            self.dropped += [data for data, of in events if self.round - of > LIMITS.max_carried_executions]
            self.pending[name] = kept
        self.begin()

    def fired(self, index: int) -> None:
        element = self.elements[index]
        if element.waits == "sleep":
            self.awake(index)
        elif element.waits == "event":
            self.waiting[element.name].remove(index)
            self.call(index, None)
        elif element.waits == "pause":
            self.call(index, element.got)
        else:
            self.failed(index, "Timeout")


KINDS = {
    "sleep": TimerKind.SLEEP,
    "event": TimerKind.WAIT,
    "answer": TimerKind.DEADLINE,
    "pause": TimerKind.RETRY,
}
STEPS = {"sleep": "s", "event": "a", "answer": "e", "pause": "e"}


class Play:
    """One random schedule."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.run = WaitingRun(_COMPILED, limits=LIMITS, is_forgetful=random.random() < 0.3)
        specs = [
            (random.choice((0, 0, 10, 25)), random.choice(NAMES), random.choice((0, 15, 30)))
            for _ in range(random.randint(1, 4))
        ]
        self.model = Model(specs, random.randint(1, 4), self.run.now_ms)
        self.model.begin()
        given: list[Value] = [
            {"i": index, "sleep": sleep, "name": name, "limit": limit}
            for index, (sleep, name, limit) in enumerate(specs)
        ]
        self.run.start({"specs": given, "round": self.model.rounds})
        self.count = 0

    def play(self) -> None:
        self.check()
        for _ in range(400):
            if self.model.is_done:
                break
            self.random.choices(
                (self.raise_one, self.raise_some, self.fire_one, self.answer_one, self.crash, self.run.restart),
                (3, 1, 3, 5, 1, 1),
            )[0]()
            self.model.now_ms = self.run.now_ms
            self.check()
        else:
            raise AssertionError("it does not end")
        assert self.run.raise_event("x", -1) is Raised.ENDED
        assert self.run.outputs == {"r": [element.result for element in self.model.elements]}
        assert self.run.timers() == []

    # --- actions ----------------------------------------------------------------------------------------------------

    def raise_one(self) -> None:
        name = self.random.choice(NAMES)
        self.count += 1
        assert self.run.raise_event(name, self.count) is self.model.raised(name, self.count)

    def raise_some(self) -> None:
        """Raise several in one commit."""
        with self.run.together():
            for _ in range(3):
                self.raise_one()

    def fire_one(self) -> None:
        """Move the clock to the next timer or some way there, and fire the one that is due."""
        timers = self.run.timers()
        if not timers:
            return
        first = timers[0]
        self.run.now_ms = max(self.run.now_ms, first.due_at_ms - self.random.choice((0, 0, 0, 5)))
        self.model.now_ms = self.run.now_ms
        if first.due_at_ms <= self.run.now_ms:
            # Any of those that are due at the same moment may be fired first.
            timer = self.random.choice([each for each in timers if each.due_at_ms <= self.run.now_ms])
            index = self.element_of(timer)
            assert self.run.fire(timer)
            self.model.fired(index)
            assert not self.run.fire(timer)

    def answer_one(self) -> None:
        waiting = [index for index, each in enumerate(self.model.elements) if each.waits == "answer"]
        if not waiting:
            return
        index = self.random.choice(waiting)
        path = self.path(index, "e")
        assert self.run.document(path).params["got"] == self.model.elements[index].got
        if self.random.random() < 0.4:
            self.run.fail(path)
            self.model.failed(index, "Broken")
        else:
            if self.random.random() < 0.3:
                self.run.update(path, r="part")
            self.run.answer(path, r=[index, self.model.round])
            self.model.finish(index, [index, self.model.round])

    def crash(self) -> None:
        """Do something in memory, and lose it before it is committed."""
        execution, random = self.run.execution, self.random
        self.run.cache.read_history(execution)
        for step in list(execution.steps.values()):
            if EventState.is_asked(step.event_state) and random.random() < 0.3:
                fail_with(execution, step, "Lost", "lost")
        for timer in self.run.timers():
            if random.random() < 0.3:
                fire_timer(execution, timer)
        for name in NAMES:
            raise_event(execution, RaisedEvent(f"lost-{name}", name, "lost", self.run.now_ms), LIMITS)
        if execution.queue and random.random() < 0.5:
            run_iteration(execution)
        self.run.restart()

    # --- what must hold ---------------------------------------------------------------------------------------------

    def path(self, index: int, step: str) -> str:
        return f"all[{index}].o.{step}"

    def element_of(self, timer: TimerRow) -> int:
        steps = self.waiting_steps()
        return next(index for index, step in steps.items() if step.id == timer.step_id)

    def waiting_steps(self) -> dict[int, SeenStep]:
        """Return the step that each element waits at, by the model."""
        seen = {step.path: step for step in self.run.steps()}
        elements = enumerate(self.model.elements)
        return {index: seen[self.path(index, STEPS[each.waits])] for index, each in elements if each.waits}

    def check(self) -> None:
        model, run = self.model, self.run
        events = run.history(HistoryKind.EXTERNAL_EVENT)
        assert _data(row for row in events if row.step_id) == sorted(model.taken)
        assert _data(row for row in events if row.dropped) == sorted(model.dropped)
        pending = {name: [row.value for row in events if row.is_pending and row.name == name] for name in NAMES}
        assert pending == {name: [data for data, _ in model.pending[name]] for name in NAMES}
        if model.is_done:
            assert run.status == "COMPLETED"
            return
        assert (run.status, run.row().execution_number) == ("PAUSED", model.round)
        expected = {}
        for index, step in self.waiting_steps().items():
            element = model.elements[index]
            if element.until_ms is not None:
                expected[step.id] = (KINDS[element.waits], element.until_ms)
        assert {timer.step_id: (timer.kind, timer.due_at_ms) for timer in run.timers()} == expected


def _data(rows: Iterable[HistoryRow]) -> list[int]:
    return sorted(row.value for row in rows if isinstance(row.value, int))


@pytest.mark.parametrize("part", range(8))
def test_no_event_is_lost_or_taken_twice_and_each_timer_fires_once(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        Play(seed).play()
