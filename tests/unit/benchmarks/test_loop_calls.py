"""The evaluator's round trip calls few Python functions: a count that no neighbour on the machine disturbs."""

from typing import Final

from benchmarks.loop_offline import count_calls
from tests.worlds.compiled import interpreted_only

#: Python functions that the evaluator calls a round trip. Lower it with the count: a bound far above it finds no
#: regression.
MOST_CALLS: Final = 175.0
#: How much a change may add before this test finds it.
_TOLERANCE: Final = 1.05


@interpreted_only
def test_a_round_trip_calls_no_more_functions_than_it_did() -> None:
    calls = count_calls()

    assert calls <= MOST_CALLS
    assert calls * _TOLERANCE > MOST_CALLS, "the bound is too high to find a regression of 5 %: lower it"
