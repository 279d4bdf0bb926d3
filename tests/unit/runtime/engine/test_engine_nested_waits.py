"""Bodies in bodies that wait for steps at every depth: nothing hangs, and neither restarts nor order matter."""

from random import Random

import pytest

from afl.compiled import Node
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import StepDocument, WorkflowRow
from tests.unit.runtime.engine.nested_programs import nested_program
from tests.unit.runtime.engine.running import Engine

SEEDS = range(60)

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
) -> Stored:
    """Run to the end; `order` decides who is answered when, and `lost` how often the memory is lost: always, when a
    call is over after `max_iterations`."""
    engine = Engine(program, hot_steps=hot_steps, max_open_events=bound, max_iterations=max_iterations)
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


@pytest.mark.parametrize("seeds", [SEEDS[:30], SEEDS[30:]])
def test_nothing_hangs_and_every_step_ends(seeds: range) -> None:
    for seed in seeds:
        row, steps = play(nested_program(seed), seed, failing=0.1, bound=3)

        assert row.status in ("COMPLETED", "ERROR"), f"seed {seed}"
        unfinished = [step for step in steps if not step.state.endswith((".Complete", ".Error"))]
        assert not unfinished, f"seed {seed}"


@pytest.mark.parametrize(("failing", "bound"), [(0.0, 10_000), (0.0, 1), (0.1, 3)])
def test_hot_cold_and_restarted_runs_store_the_very_same(failing: float, bound: int) -> None:
    for seed in SEEDS[::3]:
        program = nested_program(seed)
        hot = play(program, seed, failing=failing, bound=bound)

        assert play(program, seed, failing=failing, bound=bound, hot_steps=0) == hot, f"seed {seed}"
        assert play(program, seed, failing=failing, bound=bound, lost=0.5) == hot, f"seed {seed}"
        if seed % 9 == 0:
            assert play(program, seed, failing=failing, bound=bound, max_iterations=1) == hot, f"seed {seed}"


def test_the_order_of_the_answers_does_not_change_the_outputs() -> None:
    for seed in SEEDS:
        program = nested_program(seed)
        (one, _), (other, _) = play(program, seed), play(program, seed + 1_000)

        assert (one.status, one.outputs) == (other.status, other.outputs), f"seed {seed}"
