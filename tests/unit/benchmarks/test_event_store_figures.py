"""The benchmark of event stores: both sides run, and the last line has the figures of each store."""

import io
import json

from benchmarks.event_stores import main


def test_the_last_line_has_the_figures_of_each_store() -> None:
    out = io.StringIO()

    assert main(["--groups", "2", "--rounds", "1"], out) == 0

    figures = json.loads(out.getvalue().splitlines()[-1])
    assert set(figures) == {"memory", "sqlite", "embedded topic"}
    for found in figures.values():
        assert set(found) == {
            "cpu_us", "floor_cpu_us", "ratio", "appends_s", "floor_appends_s", "alone_appends_s",
        }  # fmt: skip
        assert min(found.values()) >= 0
