"""The benchmark of evaluator processes runs on a real broker, and its last line is what it promises."""

import io
import json

import pytest

from benchmarks import processes


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_benchmark_ends_with_its_ratios(kafka_bootstrap: str) -> None:
    out = io.StringIO()

    processes.main(["--rounds", "1", "--workflows", "8", "--steps", "3", "--bootstrap", kafka_bootstrap], out)

    ratios = json.loads(out.getvalue().splitlines()[-1])
    assert list(ratios) == ["cpu_ratio_2", "cpu_ratio_4", "speedup_2", "speedup_4"]
    assert all(ratio >= 0 for ratio in ratios.values())
