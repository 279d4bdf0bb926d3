"""A SQLite store that an earlier release wrote: read, gone on with, and written again to the byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.stores.sqlite.store import SqliteStore
from tests.compatibility.contract import WrittenBefore
from tests.compatibility.dumps import in_format_4, restore_sql, sql_of
from tests.compatibility.generations import differences, reopened, restored_log, text_of
from tests.compatibility.world import World, settings, sqlite_store
from tests.compatibility.write import Told


class TestSqliteWrittenBefore(WrittenBefore):
    @pytest.fixture(params=[1, 2], ids=["generation 1", "generation 2"])
    def generation(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def earlier(self, tmp_path: Path, generation: int) -> Iterator[World]:
        restored_log(tmp_path)
        restore_sql(text_of("store.sql", generation), settings(tmp_path).store_path)
        earlier = reopened(tmp_path, sqlite_store)
        yield earlier
        earlier.close(kill=True)


def test_opening_a_store_changes_none_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    restore_sql(text_of("store.sql"), path)

    SqliteStore(path, create=False).close()

    assert differences(in_format_4(sql_of(path)), text_of("store.sql")) == []


def test_opening_a_store_of_format_5_changes_none_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    restore_sql(text_of("store.sql", 2), path)

    SqliteStore(path, create=False).close()

    assert differences(in_format_4(sql_of(path)), in_format_4(text_of("store.sql", 2))) == []
    with closing(sqlite3.connect(path)) as file:
        assert {row[0] for row in file.execute("SELECT change FROM step")} == {None}


def test_the_same_story_writes_the_same_rows(told_again: Told) -> None:
    assert differences(in_format_4(told_again.store), text_of("store.sql")) == []


def test_a_dump_is_restored_to_the_byte(tmp_path: Path) -> None:
    for name in ("store.sql", "log.sql"):
        path = tmp_path / name
        restore_sql(text_of(name), path)
        assert sql_of(path) == text_of(name)
