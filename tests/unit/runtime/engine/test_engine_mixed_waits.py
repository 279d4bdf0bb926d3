"""Mixins inside mixins that wait at every depth: nothing hangs, and neither restarts nor order matter."""

import pytest

from tests.unit.runtime.engine.mixed_programs import mixed_program
from tests.unit.runtime.engine.test_engine_nested_waits import play

SEEDS = range(60)


def test_nothing_hangs_and_every_step_ends() -> None:
    statuses = set()
    for seed in SEEDS:
        row, steps = play(mixed_program(seed), seed, failing=0.05, bound=3)

        statuses.add(row.status)
        unfinished = [step for step in steps if not step.state.endswith((".Complete", ".Error"))]
        assert not unfinished, f"seed {seed}"
    assert statuses == {"COMPLETED", "ERROR"}


@pytest.mark.parametrize(("failing", "bound"), [(0.0, 10_000), (0.0, 1), (0.05, 3)])
def test_hot_cold_and_restarted_runs_store_the_very_same(failing: float, bound: int) -> None:
    for seed in SEEDS[::3]:
        program = mixed_program(seed)
        hot = play(program, seed, failing=failing, bound=bound)

        assert play(program, seed, failing=failing, bound=bound, hot_steps=0) == hot, f"seed {seed}"
        assert play(program, seed, failing=failing, bound=bound, lost=0.5) == hot, f"seed {seed}"


def test_the_order_of_the_answers_does_not_change_the_outputs() -> None:
    for seed in SEEDS[::2]:
        program = mixed_program(seed)
        (one, _), (other, _) = play(program, seed), play(program, seed + 1_000)

        assert (one.status, one.outputs) == (other.status, other.outputs), f"seed {seed}"
