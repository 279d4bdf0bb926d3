"""`when`, catches and sys in bodies in bodies: nothing hangs, and neither restarts nor order matter."""

import pytest

from tests.unit.runtime.engine.nested_programs import branching_program
from tests.unit.runtime.engine.test_engine_nested_waits import play

SEEDS = range(90)


@pytest.mark.parametrize("seeds", [SEEDS[:45], SEEDS[45:]])
def test_nothing_hangs_and_every_step_ends(seeds: range) -> None:
    for seed in seeds:
        row, steps = play(branching_program(seed), seed, failing=0.2, bound=3)

        assert row.status in ("COMPLETED", "ERROR"), f"seed {seed}"
        unfinished = [step for step in steps if not step.state.endswith((".Complete", ".Error"))]
        assert not unfinished, f"seed {seed}"


@pytest.mark.parametrize(("failing", "bound"), [(0.0, 10_000), (0.2, 1), (0.2, 3)])
def test_hot_cold_and_restarted_runs_store_the_very_same(failing: float, bound: int) -> None:
    for seed in SEEDS[::3]:
        program = branching_program(seed)
        hot = play(program, seed, failing=failing, bound=bound)

        assert play(program, seed, failing=failing, bound=bound, hot_steps=0) == hot, f"seed {seed}"
        assert play(program, seed, failing=failing, bound=bound, lost=0.5) == hot, f"seed {seed}"
        if seed % 9 == 0:
            assert play(program, seed, failing=failing, bound=bound, max_iterations=1) == hot, f"seed {seed}"


def test_the_order_of_the_answers_does_not_change_the_outputs() -> None:
    for seed in SEEDS:
        program = branching_program(seed, faulty=False)
        (one, _), (other, _) = play(program, seed), play(program, seed + 1_000)

        assert (one.status, one.outputs) == (other.status, other.outputs), f"seed {seed}"
