"""The engine and the interpreter agree on random programs of the whole language; `make fuzz` tries thousands."""

import pytest

from afl.scripts.pool import ScriptPool
from tests.random_programs.differential import COLD, HOT, MIXED, disagreement
from tests.random_programs.whole_generator import generate_whole
from tests.tiers import some_now

_PROGRAMS = 150
_AT_ONCE = 25


@pytest.mark.parametrize("first", some_now(range(0, _PROGRAMS, _AT_ONCE), 2))
def test_engine_and_interpreter_agree_on_the_whole_language(first: int) -> None:
    """With everything in memory, with some of it, and read back from the store before every answer."""
    seeds = range(first, first + _AT_ONCE)

    assert [text for seed in seeds if (text := disagreement(generate_whole(seed), (HOT, MIXED, COLD)[seed % 3]))] == []


def test_scripts_in_a_process_of_their_own_give_what_they_give_here() -> None:
    cases = [case for case in map(generate_whole, range(1_000, 1_012)) if " script {" in case.text]

    with ScriptPool() as pool:
        assert [text for case in cases if (text := disagreement(case, scripts=pool))] == []
    assert len(cases) > 3
