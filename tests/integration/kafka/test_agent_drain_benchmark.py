"""The benchmark of agents' drains runs on a real broker, and its last line is what it promises."""

import io
import json

import pytest

from benchmarks import agent_drain
from tests.worlds.requirements import missing
from tools.environments import EnvironmentNotMade, interpreter_of


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_benchmark_of_drains_ends_with_ratios_to_faust_and_quix(kafka_bootstrap: str) -> None:
    out = io.StringIO()
    try:
        for name in ("faust", "quix"):
            interpreter_of(name)
    except EnvironmentNotMade as error:
        missing(str(error))

    agent_drain.main(["--records", "600", "--rounds", "1", "--bootstrap", kafka_bootstrap], out)

    found = json.loads(out.getvalue().splitlines()[-1])
    gate = found.pop("gate")
    assert list(found) == ["cpu_us", "records_per_s", "cpu_ratio", "rate_ratio"]
    assert {name: each["bound"] for name, each in gate.items()} == {"quix_answer": 1.5, "faust_answer": 0.15}
    assert all(each["ratio"] == found["cpu_ratio"][name] for name, each in gate.items())
    assert set(found["cpu_ratio"]) == {"faust_answer", "faust_echo", "quix_answer", "quix_echo"}
    assert all(value > 0 for figures in found.values() for value in figures.values())
