"""The stores in memory and in a file keep the contract of those who check and purge them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.contract.identity_contract import IdentityContract
from tests.contract.store_rows import WholeStore
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
