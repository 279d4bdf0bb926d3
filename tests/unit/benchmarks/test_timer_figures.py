"""The benchmark of timers: its figures are those of the pairs, and a small one runs whole."""

import io
import json

from benchmarks.measure import PairedSeconds
from benchmarks.timers import DueFigures, figures, main


def test_the_figures_are_the_ratio_of_the_pairs_and_what_a_second_costs() -> None:
    idle = PairedSeconds(subject=[0.03, 0.02, 0.04], floor=[0.02, 0.02, 0.02])

    assert figures(idle, 10.0, DueFigures(1.2345, 0.678, in_order=True)) == {
        "idle_ratio": 1.5,
        "idle_cpu_ms": 3.0,
        "due_s": 1.23,
        "due_cpu_s": 0.68,
        "in_order": True,
    }


def test_a_small_measurement_ends_with_one_object_of_json() -> None:
    out = io.StringIO()

    main(["--sleepers", "20", "--due", "30", "--idle-s", "0.05"], out)

    last = json.loads(out.getvalue().splitlines()[-1])
    assert last.keys() == {"idle_ratio", "idle_cpu_ms", "due_s", "due_cpu_s", "in_order"}
    assert last["in_order"] is True
