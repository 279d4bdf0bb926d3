"""The cost of the dashboard's largest pages: `python -m benchmarks.dashboard [--runs N] [--steps S] [--rounds R]`.

A SQLite store has `--runs` runs, 100,000 by default, and one run of `--steps` steps, 10,000 by default. Measured is the
CPU time of a request in the server's process, without a network, the least of `--rounds`, and what the same look into
the store costs without a page: the list of the newest runs, a search that few fit, the run's steps, its graph and its
timeline, each also after a change of the store, since a page of a run is kept until its run changes. What is meant is
less than 0.3 s each.

The last line is one JSON object: seconds of each page, `worst_s`, and `ratio`, of a list's and a run's page to the look
alone.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

from starlette.testclient import TestClient

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.stores.sqlite.store import SqliteStore
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dev import LocalDeployment
from afl_stream.settings.config import EmbeddedSettings, StreamConfig
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.visibility.runs import show_workflow
from afl_stream.visibility.workflows import list_workflows
from afl_stream.web.access import Access
from benchmarks.visibility import fill

_PROGRAM: Final = """
namespace bench {
  facet Net(amount: Double) => (net: Double = 1.0)
  workflow Many(items: [Long]) => (done: Boolean) andThen foreach item in $.items {
    price = Net(amount = 1.0)
  }
}
"""
_RUN: Final = "many-1"
#: Of a foreach an element has two steps: its block, and the call in it.
_STEPS_OF_ELEMENT: Final = 2


def _fill(config: StreamConfig, runs: int, steps: int) -> None:
    store = SqliteStore(config.store_file.path)
    fill(store, runs)
    store.close()
    with LocalDeployment(config) as deployment:
        deployment.deploy(CompiledProgram(compile_text(_PROGRAM).program_json))
        deployment.run()
        deployment.start("bench.Many", {"items": list(range(steps // _STEPS_OF_ELEMENT))}, workflow_id=_RUN)
        deployment.wait(_RUN)


def _least_s(rounds: int, work: Callable[[], object]) -> float:
    """Return the CPU seconds of the cheapest of some rounds."""
    found = []
    for _ in range(rounds):
        began_s = time.process_time()
        work()
        found.append(time.process_time() - began_s)
    return min(found)


def measure(config: StreamConfig, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of each page by name, and those of the looks into the store alone."""
    pages = {
        "list": "/runs",
        "search": "/runs?state=failed&workflow=bench.Other",
        "run": f"/runs/{_RUN}",
        "graph": f"/runs/{_RUN}/graph",
        "timeline": f"/runs/{_RUN}/timeline",
    }
    access = Access.of(DashboardSettings(requests_per_s=100_000), "127.0.0.1")

    def shown(path: str) -> None:
        """Ask a dashboard that has kept nothing."""
        application = make_application(make_dashboard(deployment, access))
        answer = TestClient(application, base_url="http://127.0.0.1").get(path)
        assert answer.status_code == 200, answer.text

    deployment = Deployment(config)
    try:
        store = deployment.store
        looks = {
            "list": _least_s(rounds, lambda: list_workflows(store, limit=50)),
            "run": _least_s(rounds, lambda: show_workflow(store, _RUN)),
        }
        return {name: _least_s(rounds, lambda path=path: shown(path)) for name, path in pages.items()}, looks  # type: ignore[misc]  # the path of each
    finally:
        deployment.close()


def main(words: Sequence[str], out: TextIO = sys.stdout) -> int:
    """Run the benchmark, and print its figures with one JSON object last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(Path(folder) / ".afl")))
        config.data_dir.mkdir()
        _fill(config, given.runs, given.steps)
        pages, looks = measure(config, given.rounds)
    for name, seconds in pages.items():
        print(f"{name:10} {seconds * 1e3:10.1f} ms", file=out)
    facts: dict[str, object] = {f"{name}_s": round(seconds, 4) for name, seconds in pages.items()}
    facts["worst_s"] = round(max(pages.values()), 3)
    facts["ratio"] = {name: round(pages[name] / looks[name], 2) for name in looks}
    print(json.dumps(facts), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
