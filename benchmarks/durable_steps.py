"""Durable steps against DBOS Transact: `python -m benchmarks.durable_steps [--steps N] [--pairs K]`.

One workflow of N steps, each given one more than the step before it gave, and adding one itself, runs on SQLite with a
write-ahead log and synchronous FULL; each step is committed before the next one starts. Ours is a chain of plain steps
through `Evaluator.execute` on a `SqliteStore`; theirs is `benchmarks/peers/dbos_steps.py`. CPU time of the process, all
threads, the two measured alternately; opening the files and planning the program is left out on both sides.

DBOS is measured, not used: `pip install -c constraints/benchmarks.txt -e '.[benchmarks]'` brings the pinned version.

The last line is one JSON object: `cpu_ratio`, ours over theirs a step, and the two in microseconds.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.engine.limits import MAX_ITERATIONS
from afl.evaluation.evaluator import Evaluator
from afl.stores.sqlite.store import SqliteStore
from afl_stream.evaluator.service import tune_collector
from benchmarks.evaluator import program
from benchmarks.measure import cpu_seconds, paired
from benchmarks.peers.dbos_steps import result_of, rival

_WORKFLOW: Final = "benchmark.Run"


def our_seconds(steps: int) -> float:
    """CPU seconds of one run of ours, in a file of its own. RuntimeError for a wrong result."""
    compiled = CompiledProgram(program(steps, "chain"))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "store.db")
        # A run of no iteration makes the plan.
        evaluator = Evaluator(store, max_iterations=0, iterations_per_commit=1)
        evaluator.execute(_WORKFLOW, program_ast=compiled)
        evaluator.max_iterations = MAX_ITERATIONS

        def run(_: None) -> None:
            outputs = evaluator.execute(_WORKFLOW, program_ast=compiled).outputs
            if outputs != {"value": result_of(steps)}:
                raise RuntimeError(f"a chain of {steps} steps gives {outputs}")

        try:
            return cpu_seconds(lambda: None, run)
        finally:
            store.close()


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.durable_steps", description="CPU a durable step, against DBOS Transact"
    )
    parser.add_argument("--steps", type=int, default=500, help="steps of the workflow (default: 500)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (default: 5)")
    options = parser.parse_args(arguments)
    tune_collector()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with rival(Path(folder)) as theirs:
                measured = paired(lambda: our_seconds(options.steps), lambda: theirs(options.steps), options.pairs)
        except ImportError as error:
            parser.error(f"{error}; pip install -c constraints/benchmarks.txt -e '.[benchmarks]' brings DBOS Transact")
    ours_us, theirs_us = (1e6 * s / options.steps for s in (measured.subject_s, measured.floor_s))
    print(f"ours {ours_us:.1f} us a step, DBOS {theirs_us:.1f}, ratio {measured.ratio:.3f}", file=out)
    figures = {
        "cpu_ratio": round(measured.ratio, 3),
        "ours_us": round(ours_us, 1),
        "dbos_us": round(theirs_us, 1),
    }
    print(json.dumps(figures), file=out)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
