"""The floor does the work that it says, and the benchmark's program is the same work."""

import pytest

from benchmarks import evaluator_floor
from benchmarks.evaluator import program
from benchmarks.evaluator_floor import SHAPES, Shape
from benchmarks.measure import PairedSeconds
from tests.random_programs.expressions import Value
from tests.random_programs.interpreter import Interpreter


def _no_agent(facet: str, payload: object) -> dict[str, Value]:
    raise AssertionError(f"{facet} was called with {payload}")


@pytest.mark.parametrize(
    ("shape", "value"),
    # A return is its argument and one, an argument what it reads and one: 1, 3, 5, 7, 9 in a chain.
    # The fan-in reads 1, 2, 3, 4.
    [("chain", 9), ("wide", 3), ("fan_in", 11)],
)
def test_the_last_of_five_steps_is_worth(shape: Shape, value: int) -> None:
    steps = evaluator_floor.run(evaluator_floor.program(5, shape))

    assert len(steps) == 5
    assert steps[-1].returns == {"value": value}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_benchmarks_program_gives_what_the_floor_gives(shape: Shape) -> None:
    outputs = Interpreter(program(30, shape), _no_agent).run("benchmark.Run", {})

    assert outputs == evaluator_floor.run(evaluator_floor.program(30, shape))[-1].returns


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    pairs = PairedSeconds(subject=[2.0, 9.0, 8.0], floor=[1.0, 1.0, 2.0])

    assert pairs.ratio == 4.0
    assert (pairs.subject_s, pairs.floor_s) == (8.0, 1.0)
