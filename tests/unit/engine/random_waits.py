"""Plays random programs whose steps wait, and checks what must hold of each however it is played."""

from collections.abc import Callable, Iterable
from random import Random

from afl.compiled.program import Node
from afl.engine.errors import StepFailure
from afl.engine.model.store import StepDocument, WorkflowRow
from tests.unit.engine.running import Engine

Stored = tuple[WorkflowRow, list[StepDocument]]


def play(
    program: Node,
    order: int,
    *,
    failing: float = 0.0,
    bound: int = 10_000,
    hot_steps: int = 200_000,
    lost: float = 0.0,
    max_iterations: int = 1_000_000,
    iterations_per_commit: int = 32,
) -> Stored:
    """Run to the end; `order` decides who is answered when, and `lost` how often the memory is lost: always, when a
    call is over after `max_iterations`.
    """
    engine = Engine(
        program,
        hot_steps=hot_steps,
        max_open_events=bound,
        max_iterations=max_iterations,
        iterations_per_commit=iterations_per_commit,
    )
    random, accidents = Random(order), Random(order + 1)
    result = engine.start()
    while result.status in ("PAUSED", "TIMEOUT"):
        if result.status == "TIMEOUT":
            engine.restart()
            result = engine.resume()
            continue
        waiting = engine.view().waiting()
        for step in random.sample(waiting, random.randint(1, len(waiting))):
            if accidents.random() < lost:
                engine.restart()
            if random.random() < failing:
                engine.evaluator.fail_step(step.id, f"failed at {step.path}")
            else:
                engine.evaluator.continue_step(step.id, {"r": [step.path]})
        if accidents.random() < lost:
            engine.restart()
        result = engine.resume()
    if result.status == "ERROR":
        # A cause of the program's own or of an agent, never of the engine: nothing was stuck.
        assert isinstance(result.error, StepFailure)
        assert result.error.error_type in ("EvaluationError", "RuntimeError", "AssertionError", "ReferenceError")
    return engine.row(), engine.store.load_steps("run")


def without_commits(stored: Stored) -> Stored:
    """Return everything that is stored but in which commit it was written."""
    row, steps = stored
    return row._replace(revision=0), [step._replace(revision=0) for step in steps]


def statuses(write: Callable[[int], Node], seeds: Iterable[int], failing: float) -> set[str]:
    """How the runs of these programs end: each does, and none of its steps is left in the middle."""
    found = set()
    for seed in seeds:
        row, steps = play(write(seed), seed, failing=failing, bound=3)

        found.add(row.status)
        unfinished = [step for step in steps if not step.state.endswith((".Complete", ".Error"))]
        assert not unfinished, f"seed {seed}"
    return found


def assert_stored_alike(program: Node, seed: int, failing: float, bound: int, *, call_by_call: bool) -> None:
    """Hot, cold, restarted at random and, where it is asked for, after every iteration, a run stores the very same."""
    hot = play(program, seed, failing=failing, bound=bound)

    assert play(program, seed, failing=failing, bound=bound, hot_steps=0) == hot, f"seed {seed}"
    assert play(program, seed, failing=failing, bound=bound, lost=0.5) == hot, f"seed {seed}"
    if call_by_call:
        each = play(program, seed, failing=failing, bound=bound, iterations_per_commit=1)
        assert play(program, seed, failing=failing, bound=bound, max_iterations=1) == each, f"seed {seed}"
        assert without_commits(each) == without_commits(hot), f"seed {seed}"


def assert_order_does_not_matter(program: Node, seed: int) -> None:
    """Assert that the outputs are the same in every order of answers."""
    (one, _), (other, _) = play(program, seed), play(program, seed + 1_000)

    assert (one.status, one.outputs) == (other.status, other.outputs), f"seed {seed}"
