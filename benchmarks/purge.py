"""The cost of purging finished runs: `python -m benchmarks.purge [--runs N] [--events K] [--pairs P]`.

A SQLite store has `--runs` finished runs of `--events` event steps each. The subject is what an evaluator's retention
and `store purge` do: look for what is due, write tombstones, delete the rows, a batch a commit. The floor is one
transaction of bare DELETEs of the same rows, by ranges of their keys, which looks for nothing and leaves no tombstone.
CPU time of the process, the two measured alternately, each on a copy of its own.

The last line is one JSON object: `purge_ratio` (subject over floor), `us_per_run`, and `runs_per_s` by the clock with
the commits' waits for the disk, at the share of an evaluator's time that retention takes at most.
"""

import argparse
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from afl.core.clock import SystemClock
from afl.stores.maintenance.purge import BATCH, Purge
from afl.stores.sqlite.rows import steps_of
from afl.stores.sqlite.schema import connect
from afl.stores.sqlite.store import SqliteStore
from benchmarks.finished_runs import fill, run_id
from benchmarks.measure import cpu_seconds, paired

#: Of an evaluator's time, the share that retention takes: a step, and a pause of four times its length.
_SHARE = 0.2


def purge_all(store: SqliteStore) -> int:
    """Purge every run; return how many."""
    clock = SystemClock()
    purge = Purge(store, clock)
    due = purge.due(clock.now_ms())
    count = 0
    while rows := list(islice(due, BATCH)):
        count += len(purge.purge_all(rows, purge.waiting()))
    return count


def delete_all(db: sqlite3.Connection, runs: int) -> None:
    """Delete the rows of every run, in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    ids = [run_id(number) for number in range(runs)]
    db.executemany("DELETE FROM step WHERE id >= ? AND id < ?", [steps_of(found)[:2] for found in ids])
    db.executemany("DELETE FROM workflow WHERE id = ?", [(found,) for found in ids])
    db.executemany("DELETE FROM workflow_inputs WHERE id = ?", [(found,) for found in ids])
    db.execute("COMMIT")


class Copies:
    """Copies of one filled store."""

    def __init__(self, folder: Path, runs: int, events: int) -> None:
        self._folder = folder
        self._runs = runs
        self.rows = fill(folder / "full.db", runs, events)
        #: Wall time of the purges.
        self.purge_s: list[float] = []

    def purge_seconds(self) -> float:
        """Return the CPU seconds of a purge of every run."""
        store = SqliteStore(self._copy())
        try:
            began_s = time.monotonic()
            used_s = cpu_seconds(lambda: store, purge_all)
            self.purge_s.append(time.monotonic() - began_s)
            assert store.workflow_ids() == []
            assert store.step_count() == 0
            return used_s
        finally:
            store.close()

    def delete_seconds(self) -> float:
        """Return the CPU seconds of a bare deletion of every run."""
        db = connect(self._copy(), 1.0)
        try:
            used_s = cpu_seconds(lambda: db, lambda file: delete_all(file, self._runs))
            assert db.execute("SELECT count(*) FROM step").fetchone() == (0,)
            return used_s
        finally:
            db.close()

    def _copy(self) -> Path:
        for old in self._folder.glob("copy.db*"):
            old.unlink()
        return Path(shutil.copy(self._folder / "full.db", self._folder / "copy.db"))


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.purge", description=__doc__)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--events", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), options.runs, options.events)
        found = paired(copies.purge_seconds, copies.delete_seconds, options.pairs)
        runs_per_s = options.runs / min(copies.purge_s) * _SHARE
    us_per_run = found.subject_s / options.runs * 1e6
    floor_us = found.floor_s / options.runs * 1e6
    print(f"{options.runs:,} runs, {copies.rows:,} rows of workflows and steps", file=out)
    print(f"purge {us_per_run:.1f} us a run, bare DELETE {floor_us:.1f}: {found.ratio:.2f} times", file=out)
    print(f"an evaluator's retention keeps up with {runs_per_s:,.0f} runs a second", file=out)
    facts = {
        "purge_ratio": round(found.ratio, 2),
        "us_per_run": round(us_per_run, 1),
        "floor_us_per_run": round(floor_us, 1),
        "runs_per_s": round(runs_per_s),
    }
    print(json.dumps(facts), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
