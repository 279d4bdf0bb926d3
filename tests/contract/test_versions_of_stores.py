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
from afl.engine.model.store import Batch, HistoryKind, HistoryRow, ScheduleChange, ScheduleRow, TimerKind, TimerRow
from afl.engine.model.tombstones import PURGING
from afl.engine.model.upkeep import Burial
from afl.engine.states import EventState, StepState
from afl.engine.versions import VERSIONS
from afl.stores.maintenance.purge import tombstone_of
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.compatibility.dumps import in_format_5
from tests.contract.store_rows import (
    WholeStore,
    change,
    step_document,
    without_identity,
    without_waiting,
    workflow_row,
)
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
    assert store.bury([Burial(tombstone_of(row, 5), row.revision, 0)], limit=0) == [PURGING]
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


def test_a_store_of_the_format_before_timers_gets_them_and_its_rows_stay(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    row = workflow_row("w")
    store.commit_batch(Batch(changes=[change(row)], programs={"fingerprint": b"program"}))
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        without_waiting(file)
        file.execute("PRAGMA user_version = 4")
        rows = file.execute("SELECT * FROM workflow").fetchall()

    store = SqliteStore(path, create=False)
    timer, event = TimerRow("w:a", "w", TimerKind.SLEEP, 5), HistoryRow("w", 0, HistoryKind.EXTERNAL_EVENT, 1, 5)
    schedule = ScheduleRow("s", 1, 5, {})
    store.commit_batch(Batch(timers=[timer], history=[event], schedules=[ScheduleChange("s", 0, schedule)]))
    assert store.load_workflow("w") == row
    store.close()

    again = SqliteStore(path, create=False)
    assert (again.timers_due(5), again.history("w"), again.schedules_due(5)) == ([timer], [event], [schedule])
    again.close()
    with closing(sqlite3.connect(path)) as file:
        in_format_5(file)
        assert file.execute("SELECT * FROM workflow").fetchall() == rows


def test_events_that_a_release_without_timers_has_sent_get_the_timers_of_their_deadlines(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asked = step_document("w:a")._replace(
        state=StepState.EVENT_TRANSMIT, attempt=1, event_state=EventState.DISPATCHED, deadline_ms=7_000
    )
    steps = [
        asked,
        asked._replace(id="w:b", number=1, deadline_ms=None),
        asked._replace(id="w:c", number=2, event_state=EventState.COMPLETED),
        asked._replace(id="w:d", number=3, state=StepState.STATEMENT_COMPLETE),
        asked._replace(id="w:e", number=4),
    ]
    store = SqliteStore(path)
    store.commit_batch(Batch(changes=[change(workflow_row("w"), *steps)], programs={"fingerprint": b"program"}))
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        without_waiting(file)
        file.execute("UPDATE step SET document = x'00' WHERE id = 'w:e'")
        file.execute("PRAGMA user_version = 4")

    with closing(SqliteStore(path, create=False)) as again:
        assert again.timers_due(10_000) == [TimerRow("w:a", "w", TimerKind.DEADLINE, 7_000)]


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
