"""The loop's benchmark runs on a real broker, and its last line is what it promises."""

import io
import json

import pytest

from benchmarks import loop


@pytest.mark.long
def test_the_benchmark_ends_with_its_ratios_and_the_calls(kafka_bootstrap: str) -> None:
    out = io.StringIO()

    size = ["--pairs", "1", "--workflows", "8", "--steps", "3", "--single-steps", "30"]
    loop.main([*size, "--bootstrap", kafka_bootstrap], out)

    ratios = json.loads(out.getvalue().splitlines()[-1])
    assert list(ratios) == ["round_trips_ratio", "cpu_ratio", "p50_ratio", "calls"]
    assert all(ratio > 0 for ratio in ratios.values())
