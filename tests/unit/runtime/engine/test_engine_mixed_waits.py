"""Mixins inside mixins that wait at every depth: nothing hangs, and neither restarts nor order matter."""

import pytest

from tests.unit.runtime.engine.mixed_programs import mixed_program
from tests.unit.runtime.engine.random_waits import assert_order_does_not_matter, assert_stored_alike, statuses

SEEDS = range(60)


def test_nothing_hangs_and_every_step_ends() -> None:
    assert statuses(mixed_program, SEEDS, failing=0.05) == {"COMPLETED", "ERROR"}


@pytest.mark.parametrize(("failing", "bound"), [(0.0, 10_000), (0.0, 1), (0.05, 3)])
def test_hot_cold_and_restarted_runs_store_the_very_same(failing: float, bound: int) -> None:
    for seed in SEEDS[::3]:
        assert_stored_alike(mixed_program(seed), seed, failing, bound, call_by_call=False)


def test_the_order_of_the_answers_does_not_change_the_outputs() -> None:
    for seed in SEEDS[::2]:
        assert_order_does_not_matter(mixed_program(seed), seed)
