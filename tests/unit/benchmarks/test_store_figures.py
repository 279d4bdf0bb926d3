"""The stores' benchmarks: both sides write the same rows, and the figures are those of the pairs."""

import sqlite3
from contextlib import closing
from pathlib import Path

from afl.stores.sqlite.rows import ChangeRows
from afl.stores.sqlite.store import SqliteStore
from benchmarks import sqlite_store
from benchmarks.durable_steps import our_seconds
from benchmarks.fan_out import Figures, figures
from benchmarks.measure import PairedSeconds
from benchmarks.peers.dbos_steps import result_of


def test_what_is_saved_is_every_step_of_the_workflow_once_a_round() -> None:
    what = sqlite_store.written(20)

    batches = what.batches(7, 1)

    # Root, block, yield and the steps.
    assert len(what.steps) == 23
    assert [len(batch.changes[0].steps) for batch in batches] == [7, 7, 7, 2]
    assert [batch.changes[0].workflow.revision for batch in batches] == [1, 2, 3, 4]


def test_the_raw_side_is_given_the_bytes_that_the_store_writes(tmp_path: Path) -> None:
    (batch,) = sqlite_store.written(5).batches(100, 1)
    store = SqliteStore(tmp_path / "store.db")
    store.commit_batch(batch)
    store.close()

    with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        rows = db.execute("SELECT id, revision, state, document FROM step ORDER BY rowid").fetchall()

    assert rows == ChangeRows(batch).steps


def test_both_sides_run() -> None:
    what = sqlite_store.written(5)
    new = what.batches(3, 1)
    changed = what.batches(3, 1 + len(new))

    assert sqlite_store.save_seconds(changed, new) > 0
    assert sqlite_store.raw_seconds(changed, new) > 0


def test_the_ratio_of_a_save_is_that_of_inserts_and_updates_together() -> None:
    inserts = PairedSeconds(subject=[3.0], floor=[1.0])
    updates = PairedSeconds(subject=[1.0], floor=[1.0])

    assert sqlite_store.figures(inserts, updates) == {"insert_ratio": 3.0, "update_ratio": 1.0, "save_ratio": 2.0}


def test_our_side_of_the_durable_steps_runs_and_checks_its_result() -> None:
    assert result_of(1) == 1
    assert result_of(500) == 999
    assert our_seconds(3) > 0


def test_growth_compares_the_largest_size_with_the_smallest() -> None:
    small = Figures(events=10, seconds=1.0, cpu_us=400.0, peak_mib=90, beside=3, slowest_beside_s=0.2)
    large = Figures(events=100, seconds=9.0, cpu_us=440.0, peak_mib=900, beside=30, slowest_beside_s=0.4)

    assert figures([small, large]) == {
        "events": 100,
        "seconds": 9.0,
        "peak_mib": 900,
        "slowest_beside_s": 0.4,
        "growth": 1.1,
    }
