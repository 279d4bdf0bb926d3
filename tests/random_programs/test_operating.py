"""Random programs of the whole language under operators: what is run again or retried ends as if nothing had been."""

from collections import Counter

import pytest

from tests.random_programs.generator import generate
from tests.random_programs.operating import difference_when_retried, difference_when_run_again
from tests.random_programs.whole_generator import generate_whole
from tests.tiers import some_now

_AT_ONCE = 20
#: Seeds to begin at; a short run has no time for all.
_FIRST = some_now(range(0, 5 * _AT_ONCE, _AT_ONCE), 1)


@pytest.mark.parametrize("first", _FIRST)
def test_a_run_again_from_any_step_gives_the_same(first: int) -> None:
    """With everything in memory, and with nothing but the store at times; also from the middle of a run again."""
    seen: Counter[str] = Counter()
    seeds = range(first, first + _AT_ONCE)

    whole = [difference_when_run_again(generate_whole(seed), 0.5 * (seed % 2), seen) for seed in seeds]
    plain = [difference_when_run_again(generate(seed), 0.3, seen) for seed in seeds]

    assert [text for text in (*whole, *plain) if text] == []
    assert seen["completed"] > _AT_ONCE


@pytest.mark.parametrize("first", _FIRST)
def test_a_run_whose_failures_are_retried_gives_what_one_without_failures_gives(first: int) -> None:
    seen: Counter[str] = Counter()
    seeds = range(first, first + _AT_ONCE)

    whole = [difference_when_retried(generate_whole(seed), 0.5 * (seed % 2), seen) for seed in seeds]
    plain = [difference_when_retried(generate(seed), 0.3, seen) for seed in seeds]

    assert [text for text in (*whole, *plain) if text] == []
    assert seen["retried"] > _AT_ONCE
    assert seen["at once"] > _AT_ONCE
