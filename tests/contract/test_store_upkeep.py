"""The stores in memory and in a file keep the contract of those who check and purge them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.runtime.clock import ManualClock
from afl.runtime.memory_store import MemoryStore
from afl.runtime.sqlite_store import SqliteStore
from tests.contract.store_rows import WholeStore
from tests.contract.upkeep_contract import PurgeContract, UpkeepContract


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


class TestUpkeepInMemory(UpkeepContract, PurgeContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> WholeStore:
        return MemoryStore(clock=clock)


class TestUpkeepInSqlite(UpkeepContract, PurgeContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Iterator[WholeStore]:
        store = SqliteStore(tmp_path / "store.db", clock=clock)
        yield store
        store.close()
