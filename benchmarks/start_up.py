"""How long an evaluator and `status` take to be there: `python -m benchmarks.start_up [--runs N] [--rounds R]`.

A SQLite store has `--runs` finished runs of three event steps. Measured from outside, each in a process of its own, by
the clock and in CPU time: `afl-stream evaluator --until-idle` on an embedded log without records, which joins, takes
over its partitions, finds nothing to do and ends; `afl-stream status`; and `afl-stream version`, which only starts.

The last line is one JSON object, the least of the rounds: `evaluator_s`, `status_s`, `status_one_s` (of one run) and
`version_s` in CPU seconds, and the same with `_wall`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.finished_runs import fill, run_id


def took(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; return its CPU seconds and its seconds by the clock. Raises RuntimeError when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "afl_stream", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-1_000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


def measure(folder: Path, runs: int, rounds: int) -> dict[str, float]:
    """Return the least of the rounds of each command, on a store of so many runs."""
    environment = {
        # Byte code is written there, and found: an installed package has it. An empty text allows to write it.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "AFL_EMBEDDED_DATA_DIR": str(folder),
        "AFL_STORE_PATH": str(folder / "store.sqlite3"),
        "AFL_TOPICS_CONTROL_PARTITIONS": "1",
    }
    fill(folder / "store.sqlite3", runs, 3)
    commands = {
        "version": ["--version"],
        "status": ["status"],
        "status_one": ["status", run_id(runs // 2)],
        "evaluator": ["evaluator", "--until-idle"],
    }
    # Creates the topics. Then each once, so that its modules are compiled.
    took(["topics", "apply"], environment)
    for arguments in commands.values():
        took(arguments, environment)
    figures: dict[str, float] = {}
    for name, arguments in commands.items():
        found = [took(arguments, environment) for _ in range(rounds)]
        figures[f"{name}_s"] = round(min(cpu_s for cpu_s, _ in found), 3)
        figures[f"{name}_wall"] = round(min(wall_s for _, wall_s in found), 3)
    return figures


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up", description="how long a start takes")
    parser.add_argument("--runs", type=int, default=200_000, metavar="N", help="finished runs (default: 200000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="runs of each command (default: 3)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.runs, options.rounds)
    for name, value in figures.items():
        out.write(f"{name:16s} {value:6.3f} s\n")
    out.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
