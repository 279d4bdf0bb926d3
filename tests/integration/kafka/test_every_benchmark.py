"""Every benchmark runs, in a size that measures nothing, and its last line is one JSON object."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import benchmarks

_FOLDER: Final = Path(benchmarks.__file__).parent
_BROKER: Final = "BROKER"
#: The smallest size of each benchmark, as it is typed.
_SIZES: Final[Mapping[str, str]] = {
    "cold_answers": "--steps 3 --workflows 4 --pairs 1",
    "compile": "--sizes 100 --pairs 1",
    "dashboard": "--runs 50 --steps 20 --rounds 1",
    "durable_steps": "--steps 5 --pairs 1",
    "engine_calls": "--steps 20 --answers 20 --live 20 --rounds 1",
    "evaluator": "--sizes 50 --pairs 1",
    "event_forms": "--events 10 --rounds 1",
    "event_stores": f"--groups 2 --rounds 1 --kafka {_BROKER}",
    "external_events": f"--pairs 3 --events 2000 --instances 100 --window 1000 --bootstrap {_BROKER}",
    "fan_out": "--sizes 20",
    "observed": f"--pairs 1 --workflows 8 --steps 3 --bootstrap {_BROKER}",
    "loop_offline": "--workflows 4 --steps 3 --reps 1",
    "pubsub_hosting": f"--pairs 1 --requests 20 --bootstrap {_BROKER}",
    "pubsub_in_process": "--events 50 --pairs 1 --memory-events 20",
    "pubsub_subscriptions": f"--pairs 1 --events 200 --bootstrap {_BROKER}",
    "purge": "--runs 5 --events 2 --pairs 1",
    "scale": f"--steps 5,10 --workflows 5 --runs 10 --kafka --bootstrap {_BROKER}",
    "scripts": "--runs 4 --workers 1",
    "sqlite_store": "--rows 40 --batch 20 --pairs 1",
    "start_up": "--runs 5 --rounds 1",
    "store_commits": "--rows 20",
    "telemetry": "--steps 5 --pairs 1 --least-steps 5",
    "timers": "--sleepers 20 --due 30 --idle-s 0.05",
    "visibility": "--runs 50 --rounds 1",
}
#: Benchmarks whose figures a test of their own looks at.
_TESTED_ALONE: Final = frozenset({"agent_drain", "loop", "processes"})
#: Modules that others run, or that they share.
_PARTS: Final = frozenset({
    "afl_corpus", "evaluator_floor", "external_event_processes", "finished_runs", "loop_floor", "loop_processes",
    "loop_program", "measure", "offline_loop", "page",
})  # fmt: skip


def test_each_module_of_the_folder_is_a_benchmark_here_or_a_part_of_one() -> None:
    modules = {path.stem for path in _FOLDER.glob("*.py")} - {"__init__"}

    assert modules == _SIZES.keys() | _TESTED_ALONE | _PARTS


def _require_peers(name: str) -> None:
    if name == "durable_steps" and find_spec("dbos") is None:
        # In CI too: no environment of the tests has it, only that of `make bench`.
        pytest.skip("DBOS Transact is not installed: pip install -c constraints/benchmarks.txt -e '.[benchmarks]'")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _SIZES)
def test_a_benchmark_ends_with_one_object_of_figures(name: str, kafka_bootstrap: str) -> None:
    _require_peers(name)
    words = _SIZES[name].replace(_BROKER, kafka_bootstrap).split()

    ended = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words],
        cwd=_FOLDER.parent,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert isinstance(figures, dict)
    assert figures
