"""The three versions on every artifact of a SQLite store, and on what the store in memory has of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.store import Batch
from afl.engine.model.tombstones import PURGING
from afl.engine.versions import VERSIONS
from afl.stores.maintenance.purge import tombstone_of
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import WholeStore, change, without_identity, workflow_row
from tests.contract.versions_contract import BEFORE, Rewrite, VersionsContract

_VERSIONS_OF_DOCUMENT = re.compile(rb'^\["([^"]*)"')


class TestVersionsInSqlite(VersionsContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[WholeStore]:
        store = SqliteStore(path, clock=ManualClock(1_000_000))
        yield store
        store.close()

    @pytest.fixture
    def rewrite(self, path: Path) -> Rewrite:
        def write(kind: str, versions: str) -> None:
            with closing(sqlite3.connect(path)) as file, file:
                if kind == "program":
                    file.execute("UPDATE program SET versions = ?", (versions,))
                    return
                # Workflows stand in a table without rowids.
                key = "id" if kind == "workflow" else "rowid"
                for found, document in file.execute(f"SELECT {key}, document FROM {kind}").fetchall():
                    changed = _VERSIONS_OF_DOCUMENT.sub(f'["{versions}"'.encode(), document)
                    file.execute(f"UPDATE {kind} SET document = ? WHERE {key} = ?", (changed, found))

        return write

    @pytest.fixture
    def versions_in(self, path: Path) -> Callable[[str], list[str]]:
        def read(kind: str) -> list[str]:
            with closing(sqlite3.connect(path)) as file, file:
                column = "versions" if kind == "program" else "document"
                found = [row[0] for row in file.execute(f"SELECT {column} FROM {kind}")]
            if kind == "program":
                return found
            return [match[1].decode() for document in found if (match := _VERSIONS_OF_DOCUMENT.match(document))]

        return read

    def test_a_store_that_a_newer_release_made_is_not_opened(self, store: WholeStore, path: Path) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE store SET versions = '1.0 9.0 0.1.0'")

        with pytest.raises(VersionMismatchError, match=rf"store {path}: step_schema_version has version 9\.0.*upgrade"):
            SqliteStore(path)

    def test_a_store_that_the_release_before_made_is_opened(self, store: WholeStore, path: Path) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE store SET versions = ?", (BEFORE,))

        SqliteStore(path).close()

    def test_a_store_whose_versions_are_none_is_damaged(self, store: WholeStore, path: Path) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE store SET versions = 'x'")

        with pytest.raises(StoreCorrupt, match="versions"):
            SqliteStore(path)


def test_a_store_of_the_format_before_tombstones_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.commit_batch(Batch(changes=[change(workflow_row("w"))], programs={"fingerprint": b"program"}))
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE tombstones")
        file.execute("ALTER TABLE program DROP COLUMN versions")
        without_identity(file)
        file.execute("PRAGMA user_version = 2")

    store = SqliteStore(path, create=False)
    row = store.load_workflow("w")
    assert row is not None
    assert store.load_program("fingerprint") == b"program"
    assert store.bury(tombstone_of(row, 5), row.revision)
    store.commit_batch(Batch(programs={"other": b"program"}))
    store.close()

    again = SqliteStore(path, create=False)
    assert [stone.workflow_id for stone in again.tombstones(state=PURGING)] == ["w"]
    assert again.load_program("other") == b"program"
    again.close()


@pytest.mark.parametrize("component", ["workflow_version", "step_schema_version", "runtime_version"])
def test_a_newer_workflow_is_refused_by_the_store_in_memory_too(component: str) -> None:
    store = MemoryStore()
    store.commit_batch(Batch(changes=[change(workflow_row("w")._replace(**{component: "7.0"}))]))  # type: ignore[arg-type]  # by name

    with pytest.raises(VersionMismatchError, match=rf"{component} has version 7\.0.*upgrade"):
        store.load_workflow("w")


def test_a_workflow_of_the_release_before_is_read_by_the_store_in_memory_too() -> None:
    store = MemoryStore()
    workflow, schema, runtime = BEFORE.split(" ")
    row = workflow_row("w")._replace(workflow_version=workflow, step_schema_version=schema, runtime_version=runtime)
    store.commit_batch(Batch(changes=[change(row)]))

    assert store.load_workflow("w") == row
    assert VERSIONS != BEFORE


def test_a_store_of_the_format_before_ids_gets_one_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as file, file:
        without_identity(file)
        file.execute("PRAGMA user_version = 3")

    store = SqliteStore(path, create=False)
    given = store.identity().id
    store.add_mark("mark")
    store.close()

    again = SqliteStore(path, create=False)
    assert given
    assert again.identity().id == given
    assert again.identity().marks == ("mark",)
    again.close()
