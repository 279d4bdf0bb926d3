"""`when`, catches and sys in bodies in bodies: nothing hangs, and neither restarts nor order matter."""

import pytest

from tests.tiers import some_now
from tests.unit.engine.nested_programs import branching_program
from tests.unit.engine.random_waits import assert_order_does_not_matter, assert_stored_alike, statuses

SEEDS = range(90)


@pytest.mark.parametrize("seeds", some_now([SEEDS[:45], SEEDS[45:]], 1))
def test_nothing_hangs_and_every_step_ends(seeds: range) -> None:
    assert statuses(branching_program, seeds, failing=0.2) <= {"COMPLETED", "ERROR"}


@pytest.mark.parametrize(("failing", "bound"), [(0.0, 10_000), (0.2, 1), (0.2, 3)])
@pytest.mark.parametrize("seeds", some_now([SEEDS[:24:3], SEEDS[24::3]], 1), ids=["few", "many"])
def test_hot_cold_and_restarted_runs_store_the_very_same(seeds: range, failing: float, bound: int) -> None:
    for seed in seeds:
        assert_stored_alike(branching_program(seed), seed, failing, bound, call_by_call=seed % 9 == 0)


@pytest.mark.parametrize("seeds", some_now([SEEDS[:20], SEEDS[20:]], 1), ids=["few", "many"])
def test_the_order_of_the_answers_does_not_change_the_outputs(seeds: range) -> None:
    for seed in seeds:
        assert_order_does_not_matter(branching_program(seed, faulty=False), seed)
