"""The benchmark of external events: its program compiles, and its figures are medians and ratios."""

import io

import pytest

from afl.compiled.program import CompiledProgram
from benchmarks.external_events import HEARD, Latencies, growth, main, measure_costs, program


def test_the_program_has_one_event_facet_for_agents() -> None:
    compiled: CompiledProgram = program()

    assert [facet.qualified_name for facet in compiled.event_facets()] == [HEARD]


def test_medians_leave_the_first_ones_out() -> None:
    latencies = Latencies(raises_s=[9.0] * 20 + [0.003, 0.004, 0.008], pings_s=[9.0] * 20 + [0.002, 0.002, 0.001])

    assert latencies.figures() == {"p50_ratio": 2.0, "raise_p50_ms": 4.0, "ping_pong_p50_ms": 2.0}


def test_growth_is_the_last_window_over_the_first() -> None:
    assert growth([100.0, 90.0, 120.04]) == {"cpu_growth": 1.2, "cpu_first_us": 100.0, "cpu_last_us": 120.0}


def test_every_event_is_taken_and_each_window_is_reported() -> None:
    reported: list[int] = []

    costs = measure_costs(2_000, 100, 1_000, lambda events, cpu_us: reported.append(events))

    assert reported == [1_000, 2_000]
    assert len(costs) == 2
    assert min(costs) > 0


def test_lots_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--events", "15000", "--window", "10000"], io.StringIO())
