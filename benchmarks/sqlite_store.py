"""The cost per row of a save to SQLite: `python -m benchmarks.sqlite_store [--rows N] [--batch N] [--pairs K]`.

The rows are those that a run writes: the last documents of the steps of a workflow of `--rows` steps, its blocks and
yields included. Saved is what the store gets from the engine, a batch of records each commit; raw is `executemany` of
the very same bytes, made beforehand, by the same statements into the same tables of a file of the same settings
(write-ahead log, synchronous FULL), in as many transactions. New rows, then the same rows once more as changes: half
of what a run writes is a step's second document. CPU time of the process, the two measured alternately.

The last line is one JSON object: `insert_ratio` and `update_ratio`, and `save_ratio`, of the two together.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.engine.model.store import Batch, StepDocument, WorkflowChange, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.rows import INSERT_WORKFLOW, UPDATE_WORKFLOW, UPSERT_INPUTS, UPSERT_STEP, ChangeRows
from afl.stores.sqlite.schema import open_store_file
from afl.stores.sqlite.store import SqliteStore
from benchmarks.evaluator import program
from benchmarks.measure import PairedSeconds, cpu_seconds, paired

_RUN: Final = "benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A workflow's row and the documents of its steps."""

    workflow: WorkflowRow
    steps: Sequence[StepDocument]

    def batches(self, size: int, first_revision: int) -> list[Batch]:
        """Batches of `size` steps each, the first of which leads to `first_revision`."""
        made = []
        for number, at in enumerate(range(0, len(self.steps), size)):
            revision = first_revision + number
            steps = [step._replace(revision=revision) for step in self.steps[at : at + size]]
            change = WorkflowChange(self.workflow._replace(revision=revision), revision - 1, steps)
            made.append(Batch(now_ms=1_000, changes=[change]))
        return made


def written(rows: int) -> Written:
    """Return what a chain of `rows` steps leaves in a store."""
    store = MemoryStore()
    compiled = CompiledProgram(program(rows, "chain"))
    Evaluator(store).execute("benchmark.Run", {}, compiled, workflow_id=_RUN)
    workflow = store.load_workflow(_RUN)
    assert workflow is not None
    return Written(workflow=workflow, steps=store.load_steps(_RUN))


def save_seconds(batches: Sequence[Batch], before: Sequence[Batch] = ()) -> float:
    """CPU seconds that a store takes for the batches, into a file that has those `before`."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "store.db")
        for batch in before:
            store.commit_batch(batch)
        try:
            return cpu_seconds(lambda: store, lambda it: [it.commit_batch(batch) for batch in batches])
        finally:
            store.close()


def raw_seconds(batches: Sequence[Batch], before: Sequence[Batch] = ()) -> float:
    """CPU seconds that `executemany` takes for the same rows, into a file that has those `before`."""
    with tempfile.TemporaryDirectory() as folder:
        db = open_store_file(Path(folder) / "store.db", "afl.", create=True, busy_timeout_s=1)

        def write(rows: Sequence[ChangeRows]) -> None:
            for of_one in rows:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(INSERT_WORKFLOW, of_one.new)
                db.executemany(UPDATE_WORKFLOW, of_one.changed)
                db.executemany(UPSERT_INPUTS, of_one.inputs)
                db.executemany(UPSERT_STEP, of_one.steps)
                db.execute("COMMIT")

        write([ChangeRows(batch) for batch in before])
        try:
            return cpu_seconds(lambda: [ChangeRows(batch) for batch in batches], write)
        finally:
            db.close()


def figures(inserts: PairedSeconds, updates: PairedSeconds) -> dict[str, float]:
    """Return the figures of the last line."""
    whole = PairedSeconds(
        subject=[sum(pair) for pair in zip(inserts.subject, updates.subject, strict=True)],
        floor=[sum(pair) for pair in zip(inserts.floor, updates.floor, strict=True)],
    )
    return {
        "insert_ratio": round(inserts.ratio, 2),
        "update_ratio": round(updates.ratio, 2),
        "save_ratio": round(whole.ratio, 2),
    }


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sqlite_store", description="CPU a saved row against raw"
    )
    parser.add_argument("--rows", type=int, default=20_000, help="steps of the workflow (default: 20,000)")
    parser.add_argument("--batch", type=int, default=500, help="rows a commit (default: 500)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for each figure (default: 5)")
    asked = parser.parse_args(arguments)
    what = written(asked.rows)
    new = what.batches(asked.batch, 1)
    changed = what.batches(asked.batch, 1 + len(new))

    def pair(name: str, batches: Sequence[Batch], before: Sequence[Batch]) -> PairedSeconds:
        measured = paired(lambda: save_seconds(batches, before), lambda: raw_seconds(batches, before), asked.pairs)
        saved_us, raw_us = (1e6 * s / len(what.steps) for s in (measured.subject_s, measured.floor_s))
        print(f"{name:8} {saved_us:6.2f} us a row, raw {raw_us:6.2f}, ratio {measured.ratio:5.2f}", file=out)
        return measured

    result = figures(pair("inserts", new, []), pair("updates", changed, new))
    print(json.dumps(result), file=out)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
