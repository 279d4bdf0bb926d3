"""Durable steps against DBOS Transact: `python -m benchmarks.durable_steps [--steps N] [--pairs K]`.

One workflow of N steps, each given one more than the step before it gave, and adding one itself, runs on SQLite with a
write-ahead log and synchronous FULL; each step is committed before the next one starts. Ours is a chain of plain steps
through `Evaluator.execute` on a `SqliteStore`; theirs is a `@DBOS.workflow` that calls a `@DBOS.step` N times, on a
SQLite system database whose connections are told the same. CPU time of the process, all threads, the two measured
alternately; opening the files and planning the program is left out on both sides.

DBOS is measured, not used: `pip install -c constraints/benchmarks.txt -e '.[benchmarks]'` brings the pinned version.

The last line is one JSON object: `cpu_ratio`, ours over theirs a step, and the two in microseconds.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.engine.limits import MAX_ITERATIONS
from afl.evaluation.evaluator import Evaluator
from afl.stores.sqlite.store import SqliteStore
from afl_stream.evaluator.service import tune_collector
from benchmarks.evaluator import program
from benchmarks.measure import cpu_seconds, paired

_WORKFLOW: Final = "benchmark.Run"


def result_of(steps: int) -> int:
    """Return what the workflow gives: its first step is given 0."""
    return 2 * steps - 1


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


@contextmanager
def rival(folder: Path) -> Iterator[Callable[[int], float]]:
    """DBOS, launched on a file in `folder`: CPU seconds of a run of so many steps. ImportError where it is missing."""
    import dbos
    import sqlalchemy

    # Checked the same whether the packages and their types are installed or not.
    transact: Any = dbos.DBOS
    events: Any = sqlalchemy.event

    def durable(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    def add_one(value: int) -> int:
        return value + 1

    def add_up(steps: int) -> int:
        value = -1
        for _ in range(steps):
            value = step(value + 1)
        return value

    events.listen(sqlalchemy.Engine, "connect", durable)
    logging.getLogger("dbos").setLevel(logging.ERROR)
    transact(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
            "log_level": "ERROR",
        }
    )

    step: Any = transact.step()(add_one)
    workflow: Any = transact.workflow()(add_up)

    def run(steps: int) -> None:
        value = workflow(steps)
        if value != result_of(steps):
            raise RuntimeError(f"{steps} steps give {value}")

    def seconds(steps: int) -> float:
        return cpu_seconds(lambda: steps, run)

    transact.launch()
    try:
        yield seconds
    finally:
        transact.destroy()
        events.remove(sqlalchemy.Engine, "connect", durable)


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
