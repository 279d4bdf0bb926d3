"""Iterations without an effect outside share a commit: fewer commits, and the same run in every other respect."""

import pytest

from afl.core.clock import ManualClock
from afl.core.process.crashes import Crash
from afl.engine.limits import ITERATION_BYTES, ITERATION_STEPS, ITERATIONS_PER_COMMIT
from afl.engine.model.store import Batch, StepDocument, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.telemetry import Telemetry, TelemetryEvent
from tests.unit.engine.running import Engine

_DECLARED = """
    facet V(x: Long) => (y: Long = $.x + 1)
    facet T(text: String) => (again: String = $.text)
    event facet Ask(x: Long) => (y: Long)
"""


def chain(links: int, last: str = "") -> str:
    """Return a program whose workflow is a chain of plain steps, and `last` behind it, which may read the last one."""
    steps = ["s0 = V(x = 0)", *(f"s{i} = V(x = s{i - 1}.y)" for i in range(1, links))]
    body = "\n".join([*steps, last.format(last=f"s{links - 1}")])
    return f"{_DECLARED} workflow W() => (r: Long) andThen {{\n{body}\nyield W(r = s{links - 1}.y)\n}}"


class Commits(MemoryStore):
    """A store that notes of each commit how far the run was, how many rows it wrote, and whether it had more."""

    def __init__(self) -> None:
        super().__init__()
        self.iterations: list[int] = []
        self.rows: list[int] = []
        self.has_more: list[bool] = []

    def commit_batch(self, batch: Batch) -> int:
        for change in batch.changes:
            self.iterations.append(change.workflow.iterations)
            self.rows.append(len(change.rows))
            self.has_more.append(not batch.has_changes_only)
        return super().commit_batch(batch)


def stored(engine: Engine) -> tuple[WorkflowRow, list[StepDocument]]:
    """Return everything that is stored of a run but in which commit it was written."""
    steps = engine.store.load_steps(engine.workflow_id)
    return engine.row()._replace(revision=0), [step._replace(revision=0) for step in steps]


def without_times(event: TelemetryEvent) -> dict[str, object]:
    details = {name: value for name, value in event.details.items() if name != "durationMs"}
    return {**event.to_dict(), "details": details}


def run(program: str, iterations_per_commit: int = ITERATIONS_PER_COMMIT) -> tuple[Engine, Commits]:
    store = Commits()
    engine = Engine(program, store=store, iterations_per_commit=iterations_per_commit)
    engine.start()
    return engine, store


def test_a_chain_is_committed_every_thirty_second_iteration_and_at_its_end() -> None:
    engine, store = run(chain(100))

    assert engine.row().outputs == {"r": 100}
    last = engine.row().iterations
    assert store.iterations == [*range(ITERATIONS_PER_COMMIT, last, ITERATIONS_PER_COMMIT), last]


def test_with_one_iteration_a_commit_each_is_stored_before_the_next_one_runs() -> None:
    engine, store = run(chain(100), iterations_per_commit=1)

    assert store.iterations == list(range(1, engine.row().iterations + 1))


def test_a_setting_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="iterations_per_commit must be 1 or more, not 0"):
        Evaluator(MemoryStore(), iterations_per_commit=0)


@pytest.mark.parametrize("links", [1, 31, 32, 33, 100])
def test_how_many_share_a_commit_changes_nothing_else_that_is_stored(links: int) -> None:
    program = chain(links, "e = Ask(x = {last}.y) f = V(x = e.y)")
    alone, shared = (run(program, each)[0] for each in (1, ITERATIONS_PER_COMMIT))

    assert stored(shared) == stored(alone)
    for engine in (alone, shared):
        assert engine.answer("e", {"y": 7}).success
    assert stored(shared) == stored(alone)


def test_an_effect_is_committed_by_the_iteration_that_has_it_and_not_later() -> None:
    program = chain(100, "e = Ask(x = s40.y)")
    alone, shared = (run(program, each)[1] for each in (1, ITERATIONS_PER_COMMIT))

    def with_effects(store: Commits) -> list[int]:
        return [number for number, more in zip(store.iterations, store.has_more, strict=True) if more]

    assert len(with_effects(shared)) >= 2, "the start, which stores the program, and the event"
    assert with_effects(shared)[1:] == with_effects(alone)[1:]


def test_telemetry_is_the_same_in_the_same_order() -> None:
    told = []
    for each in (1, ITERATIONS_PER_COMMIT):
        telemetry = Telemetry(clock=ManualClock(1_000))
        engine = Engine(chain(40, "e = Ask(x = {last}.y)"), telemetry=telemetry, iterations_per_commit=each)
        engine.start()
        engine.answer("e", {"y": 7})
        told.append([without_times(event) for event in telemetry.events])

    assert told[0] == told[1]
    assert len(told[0]) > 100


def test_a_call_stops_after_as_many_iterations_as_it_may_have_and_has_stored_them() -> None:
    store = Commits()
    engine = Engine(chain(100), store=store, max_iterations=40)

    assert engine.start().status == "TIMEOUT"
    assert engine.row().iterations == 40
    assert engine.resume().status == "TIMEOUT"
    assert engine.row().iterations == 80


def test_a_commit_has_the_rows_of_one_full_iteration_and_of_what_ran_before_it_at_most() -> None:
    width, layers = 600, 6
    steps = ["a = V(x = 0)"]
    for layer in range(layers):
        head = "a" if not layer else f"s{layer - 1}x0"
        steps += [f"s{layer}x{i} = V(x = {head}.y)" for i in range(width)]
    body = "\n".join(steps)
    _, store = run(f"{_DECLARED} workflow W() => (r: Long) andThen {{\n{body}\nyield W(r = s0x0.y)\n}}")

    assert max(store.rows) < ITERATION_STEPS + width
    assert len(store.rows) >= layers * width // (ITERATION_STEPS + width)
    assert sum(store.rows) >= layers * width


def test_large_values_are_committed_before_they_are_more_than_an_iteration_may_make() -> None:
    size = 1_000_000
    steps = ["s0 = T(text = $.text)", *(f's{i} = T(text = s{i - 1}.again ++ "!")' for i in range(1, 21))]
    body = "\n".join(steps)
    store = Commits()
    program = f"{_DECLARED} workflow W(text: String) => (r: String) andThen {{\n{body}\nyield W(r = s20.again)\n}}"
    engine = Engine(program, store=store)
    result = engine.start({"text": "a" * size})

    assert result.success
    # Each link is given a text and returns it.
    assert max(store.rows[1:-1]) <= ITERATION_BYTES // (2 * size) + 1


class CrashAt:
    """A probe that crashes when a point is passed for the nth time."""

    def __init__(self, point: str, passes: int) -> None:
        self._point, self._passes = point, passes

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._passes -= 1
            if not self._passes:
                raise Crash(point)


@pytest.mark.parametrize("iterations_per_commit", [1, ITERATIONS_PER_COMMIT])
@pytest.mark.parametrize("point", ["driver.iterated", "driver.stored"])
@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_after_a_crash_the_same_steps_are_made_again(point: str, passes: int, iterations_per_commit: int) -> None:
    program = chain(100, "e = Ask(x = s40.y)")
    whole, _ = run(program)
    store = MemoryStore()
    engine = Engine(program, store=store, iterations_per_commit=iterations_per_commit, probe=CrashAt(point, passes))
    with pytest.raises(Crash):
        engine.start()
    written = {step.id for step in store.load_steps("run")}

    after = Engine(program, store=store)
    if store.load_workflow("run") is None:
        # It died before its first commit: its caller starts it again.
        assert (point, passes) == ("driver.iterated", 1)
        after.start()
    else:
        after.resume()

    assert stored(after) == stored(whole)
    assert written <= {step.id for step in store.load_steps("run")}
    assert len(list(after.resume().pending_events)) == 1, "the event is made once"


def test_an_evaluator_that_lost_a_race_repeats_what_it_had_not_committed() -> None:
    program = chain(70)
    whole, _ = run(program)
    store = MemoryStore()

    class OtherFirst:
        """Lets another evaluator run the workflow to its end before this one's second commit."""

        def __init__(self) -> None:
            self.passes = 0

        def __call__(self, point: str) -> None:
            self.passes += point == "driver.iterated"
            if self.passes == 2:
                self.passes += 1
                assert Engine(program, store=store).resume().outputs == {"r": 70}

    result = Engine(program, store=store, probe=OtherFirst()).start()

    assert result.outputs == {"r": 70}
    assert stored(Engine(program, store=store)) == stored(whole)
