"""The stores in memory and in a file keep the contract of those who check and purge them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.engine.model.store import COMPLETED, Batch, WorkflowRow
from afl.stores.maintenance.purge import Purge
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.contract.identity_contract import IdentityContract
from tests.contract.store_rows import WholeStore, change, step_document, workflow_row
from tests.contract.upkeep_contract import PurgeContract, UpkeepContract


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


class TestUpkeepInMemory(UpkeepContract, PurgeContract, IdentityContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> WholeStore:
        return MemoryStore(clock=clock)


class TestUpkeepInSqlite(UpkeepContract, PurgeContract, IdentityContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Iterator[WholeStore]:
        store = SqliteStore(tmp_path / "store.db", clock=clock)
        yield store
        store.close()


def test_a_copy_of_a_file_has_its_id_and_other_marks_from_then_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.add_mark("before")
    store.close()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "store.db", tmp_path / "copy" / "store.db")

    store, copy = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "copy" / "store.db")
    copy.add_mark("after")

    assert copy.identity().id == store.identity().id
    assert (store.identity().marks, copy.identity().marks) == (("before",), ("before", "after"))
    assert store.location() != copy.location()
    store.close()
    copy.close()


def _fill(store: SqliteStore, count: int) -> list[WorkflowRow]:
    rows = [workflow_row(f"w{number}", status=COMPLETED) for number in range(count)]
    for row in rows:
        store.commit_batch(Batch(changes=[change(row, step_document(f"{row.id}:a", params={"text": "x" * 100_000}))]))
    return rows


def test_a_file_gives_the_space_of_purged_runs_back_a_step_at_a_time(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, clock=clock)
    rows = _fill(store, 300)
    store.close()
    full_bytes = path.stat().st_size
    store = SqliteStore(path, clock=clock)
    purge = Purge(store, clock)

    assert not purge.give_back()
    purge.purge_all(rows[:200], ())
    steps = 0
    while purge.give_back():
        steps += 1
    store.close()

    assert steps > 2
    # Some free pages are kept for the next rows.
    assert full_bytes / 3 < path.stat().st_size < full_bytes * 0.7
    store = SqliteStore(path, clock=clock)
    assert (store.check_itself().problems, store.step_count()) == ((), 100)
    store.close()


def test_few_free_pages_are_kept_for_the_next_rows(tmp_path: Path, clock: ManualClock) -> None:
    store = SqliteStore(tmp_path / "store.db", clock=clock)
    rows = _fill(store, 20)
    purge = Purge(store, clock)

    purge.purge_all(rows, ())

    assert not purge.give_back()
    store.close()
