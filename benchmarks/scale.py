"""How the cost of an event grows: `python -m benchmarks.scale [--steps N,M] [--workflows W] [--runs R] [--kafka]`.

1. One workflow of N event steps, and one of M (a foreach whose elements are an event each): the CPU time of the
   evaluator an event, from the start to the end, and the most memory that its process took.
2. W workflows of three event steps each, against a tenth of them.
3. 1,000 workflows of three event steps each on a store with R finished runs, against the same on an empty store.

Everything is in one process on the embedded transport and a SQLite file, each case in a process of its own: the
evaluator's loop is timed alone (`benchmarks/offline_loop.py`). With `--kafka` the records travel over a broker, one
that is started or that of `--bootstrap`. `--steps 100000,1000000 --workflows 20000 --runs 200000 --kafka` is the full
measure, and takes some twenty minutes and 1 GB.

The last line is one JSON object: `steps_growth`, CPU an event at M steps over that at N; `workflows_growth`;
`runs_growth`; the microseconds of each, and `peak_mib`, the most memory of all cases.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from afl_stream.evaluator.service import tune_collector
from benchmarks.finished_runs import fill
from benchmarks.loop import broker
from benchmarks.loop_program import source
from benchmarks.offline_loop import Deployment

_WIDE: Final = """
namespace benchmark {
    event facet Work(count: Long, text: String, share: Double) => (count: Long, text: String, share: Double)

    workflow Wide(count: Long, text: String, share: Double, elements: [Long]) => (last: Long)
    andThen foreach element in $.elements {
        worked = Work(count = $.element, text = $.text, share = $.share)
        yield Wide(last = worked.count)
    }
}
"""
#: What the inputs of a workflow may take: a million elements are some 4 MB.
_INPUTS_BYTES: Final = 64 * 1024 * 1024
#: Steps of the small workflows, and how many of them run beside finished runs.
_SMALL: Final = 3
_BESIDE: Final = 1_000


class Case(NamedTuple):
    """What a case took: CPU microseconds of the evaluator an event, and the most memory of its process."""

    us_per_event: float
    peak_mib: float


def run_wide(steps: int, bootstrap: str | None) -> float:
    """Return the CPU microseconds an event of one workflow with so many of them."""
    inputs = {"count": 0, "text": "some text that travels", "share": 0.25, "elements": list(range(steps))}
    limits = {
        "AFL_EVALUATOR_MAX_WORKFLOW_STEPS": str(steps * 4 + 100),
        "AFL_EVALUATOR_MAX_VALUE_BYTES": str(_INPUTS_BYTES),
        "AFL_MAX_EVENT_BYTES": str(_INPUTS_BYTES),
    }
    with Deployment(_WIDE, limits, bootstrap=bootstrap) as deployment:
        return deployment.cost_of([("benchmark.Wide", inputs, "wide")], steps)


def run_small(workflows: int, finished: int, bootstrap: str | None) -> float:
    """Return the CPU microseconds an event of so many workflows of three, on a store that has so many finished runs."""
    inputs = {"count": 0, "text": "some text that travels", "share": 0.25}

    def filled(path: Path, prefix: str) -> None:
        if finished:
            fill(path, finished, _SMALL, prefix=prefix)

    with Deployment(source(_SMALL), {}, bootstrap=bootstrap, prepare=filled) as deployment:
        starts = [("benchmark.Chain", inputs, f"wf-{number:06d}") for number in range(workflows)]
        return deployment.cost_of(starts, workflows * _SMALL)


def case(kind: str, size: int, finished: int, bootstrap: str | None) -> Case:
    """Run one case in a process of its own. Raises RuntimeError when it fails."""
    given = [] if bootstrap is None else ["--bootstrap", bootstrap]
    command = [sys.executable, "-m", "benchmarks.scale", "--case", kind, str(size), str(finished), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind} of {size} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    return Case(*json.loads(done.stdout.splitlines()[-1]))


def run_case(kind: str, size: int, finished: int, bootstrap: str | None) -> Case:
    """Run one case here."""
    tune_collector()
    used_us = run_wide(size, bootstrap) if kind == "wide" else run_small(size, finished, bootstrap)
    return Case(used_us, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="how the cost of an event grows")
    parser.add_argument("--steps", default="1000,10000", metavar="N,M", help="event steps (default: 1000,10000)")
    parser.add_argument("--workflows", type=int, default=2_000, metavar="W", help="small workflows (default: 2000)")
    parser.add_argument("--runs", type=int, default=20_000, metavar="R", help="finished runs (default: 20000)")
    parser.add_argument("--kafka", action="store_true", help="over a broker")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    parser.add_argument("--case", nargs=3, metavar=("KIND", "SIZE", "RUNS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        kind, size, finished = options.case
        out.write(json.dumps(run_case(kind, int(size), int(finished), options.bootstrap)) + "\n")
        return
    with ExitStack() as stack:
        bootstrap = options.bootstrap
        if options.kafka and bootstrap is None:
            bootstrap = stack.enter_context(broker(None))
        few, many = map(int, options.steps.split(","))
        tenth = max(1, options.workflows // 10)
        beside = min(_BESIDE, options.workflows)
        asked = {
            "steps": (("wide", few, 0), ("wide", many, 0)),
            "workflows": (("small", tenth, 0), ("small", options.workflows, 0)),
            "runs": (("small", beside, 0), ("small", beside, options.runs)),
        }
        figures: dict[str, float] = {}
        peak_mib = 0.0
        for name, (small, large) in asked.items():
            first, last = case(*small, bootstrap), case(*large, bootstrap)
            peak_mib = max(peak_mib, first.peak_mib, last.peak_mib)
            growth = last.us_per_event / first.us_per_event
            out.write(
                f"{name}: {first.us_per_event:.1f} us an event, then {last.us_per_event:.1f}: {growth:.2f} times\n"
            )
            out.flush()
            figures |= {
                f"{name}_growth": round(growth, 2),
                f"{name}_first_us": round(first.us_per_event, 1),
                f"{name}_last_us": round(last.us_per_event, 1),
            }
    out.write(f"at most {peak_mib:.0f} MiB\n")
    out.write(json.dumps({**figures, "peak_mib": round(peak_mib)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
