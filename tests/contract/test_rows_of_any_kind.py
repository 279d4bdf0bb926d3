"""Whatever stands in a column of a SQLite store, each read gives what was written or an error that names the row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from afl.core.clock import ManualClock
from afl.engine.errors import ForeignStore, StoreCorrupt, VersionMismatchError
from afl.engine.model.store import Batch, ScheduleChange, ScheduleRow
from afl.engine.model.tombstones import PURGED, Tombstone
from afl.stores.maintenance.check import Inspection
from afl.stores.public.store import ENTITY_TABLES
from afl.stores.sqlite.store import SqliteStore
from tests.contract.inspection_contract import DONE, RULES, WAITING, Case, findings_of
from tests.contract.store_rows import public_step, task

#: As SQL: text that is no UTF-8, bytes that are none, a number, text, a fraction, nothing.
_GARBAGE = ("CAST(X'ff80' AS TEXT)", "X'ff80'", "5", "'text'", "1.5", "NULL")

#: Everything that is asked of a store, by name.
_READS: dict[str, Callable[[SqliteStore], object]] = {
    "load_workflow": lambda store: store.load_workflow(WAITING),
    "load_steps": lambda store: store.load_steps(WAITING),
    "revisions": lambda store: store.revisions([WAITING, DONE, "é"]),
    "list_workflows": lambda store: store.list_workflows(),
    "runnable_workflows": lambda store: store.runnable_workflows(),
    "load_program": lambda store: [
        store.load_program(row.program) for row in map(store.load_workflow, (WAITING, DONE)) if row is not None
    ],
    "outbox": lambda store: store.outbox(),
    "lanes": lambda store: store.lanes(),
    "positions": lambda store: store.positions(),
    "parked": lambda store: store.parked(),
    "parked heads": lambda store: store.parked_heads(),
    "parked workflows": lambda store: store.parked_workflows(),
    "parked due": lambda store: store.parked_due([WAITING, DONE]),
    "parked usage": lambda store: store.parked_usage(),
    "get_step": lambda store: store.get_step("by-hand"),
    "get_all_steps": lambda store: store.get_all_steps(),
    "steps by workflow": lambda store: store.get_steps_by_workflow(WAITING),
    "get_all_events": lambda store: store.get_all_events(),
    "waiting events": lambda store: store.get_waiting_events(WAITING),
    "get_task": lambda store: store.get_task("by hand"),
    "pending names": lambda store: store.pending_task_names(),
    "claim": lambda store: store.claim_task(["shop.Pay"], "default"),
    "expired": lambda store: store.requeue_expired_tasks(),
    "workflow_ids": lambda store: store.workflow_ids(),
    "orphans": lambda store: store.orphans(),
    "examine_steps": lambda store: store.examine_steps(WAITING),
    "examine_step": lambda store: store.examine_step("by-hand"),
    "examine": lambda store: [store.examine(kind) for kind in ENTITY_TABLES],
    "ended": lambda store: store.ended_workflows(created_before_ms=10**15),
    "tombstones": lambda store: store.tombstones(state=PURGED),
    "timers due": lambda store: store.timers_due(10**15),
    "next timer": lambda store: store.next_timer_ms(),
    "timers of": lambda store: store.timers_of(WAITING),
    "history": lambda store: store.history(WAITING),
    "history of an execution": lambda store: store.history(WAITING, execution=1),
    "pending events": lambda store: store.pending_events([WAITING, "soon"]),
    "history sizes": lambda store: store.history_sizes([WAITING, "soon"]),
    "known events": lambda store: store.known_events([(WAITING, "e"), ("soon", "f")]),
    "early workflows": lambda store: store.early_workflows(),
    "schedule": lambda store: store.schedule("nightly"),
    "schedules": lambda store: store.schedules(),
    "schedules due": lambda store: store.schedules_due(10**15),
    "next schedule": lambda store: store.next_schedule_ms(),
    "identity": lambda store: store.identity(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a store with a row in each table that the engine writes."""
    path = tmp_path_factory.mktemp("whole") / "store.sqlite3"
    clock = ManualClock(1_000_000)
    store = SqliteStore(path, clock=clock)
    case = Case(store, clock, cast(Any, None))
    case.send()
    case.park()
    case.move(5)
    case.time(case.first(WAITING, "shop.Pay").id)
    case.remember(WAITING, event_id="e")
    store.commit_batch(Batch(schedules=[ScheduleChange("nightly", 0, ScheduleRow("nightly", 1, 5, {"cron": "x"}))]))
    store.save_step(public_step("by-hand"))
    store.save_task(task("by hand", step_id="anything"))
    store.save_tombstone(Tombstone("gone", "shop.Checkout", "p", "d", "COMPLETED", purged_at_ms=1, state=PURGED))
    store.close()
    return path.read_bytes()


def columns() -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as scratch:
        from afl.stores.sqlite.schema import _statements

        for statement in _statements():
            scratch.execute(statement)
        tables = [name for (name,) in scratch.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for _, column, *_ in scratch.execute(f"PRAGMA table_info({table})"):
                if not table.startswith("sqlite_"):
                    yield table, column


def spoilt(path: Path, content: bytes, table: str, column: str, garbage: str) -> bool:
    """Write the store with such a column in all of the table's rows; False where SQLite itself takes no such value."""
    path.write_bytes(content)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for (index,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL").fetchall():
            file.execute(f'DROP INDEX "{index}"')
        try:
            rows = file.execute(
                f'UPDATE {table} SET "{column}" = {garbage} WHERE rowid = (SELECT min(rowid) FROM {table})'
                if table not in _WITHOUT_ROWID
                else f'UPDATE {table} SET "{column}" = {garbage}'
                f' WHERE "{column}" = (SELECT min("{column}") FROM {table})'
            ).rowcount
        except sqlite3.Error:
            return False
        return rows > 0


_WITHOUT_ROWID = {"workflow", "workflow_inputs", "public_step", "position", "program", "timer", "schedule"}


@pytest.mark.long
@pytest.mark.parametrize(("table", "column"), list(columns()))
def test_each_read_gives_what_was_written_or_names_the_row(
    whole: bytes, tmp_path: Path, table: str, column: str
) -> None:
    path = tmp_path / "store.sqlite3"
    for garbage in _GARBAGE:
        if not spoilt(path, whole, table, column, garbage):
            continue
        for name, error in errors_of(path):
            assert str(path) in str(error), (name, garbage)


def errors_of(path: Path) -> Iterator[tuple[str, Exception]]:
    """Return the errors that speak of the store, raised by opening it or by a read; any other one is raised on."""
    spoken = (StoreCorrupt, VersionMismatchError, ForeignStore)
    try:
        store = SqliteStore(path, clock=ManualClock(2_000_000))
    except spoken as error:
        yield "open", error
        return
    with closing(store):
        for name, read in _READS.items():
            try:
                read(store)
            except spoken as error:
                yield name, error


@pytest.mark.parametrize(
    ("table", "column", "named"),
    [
        ("workflow", "id", r"workflow \\xff\\x80"),
        ("workflow", "name", f"workflow {DONE}"),
        ("step", "state", f"step {WAITING}:"),
        ("outbox", "lane", "outbox 1"),
        ("parked", "step_id", "parked "),
        ("tasks", "key", "tasks "),
        ("position", "topic", r"position \\xff\\x80"),
    ],
)
@pytest.mark.parametrize("garbage", _GARBAGE[:2], ids=["text", "bytes"])
def test_undecodable_text_is_found_by_a_check_with_table_and_key(
    whole: bytes, tmp_path: Path, table: str, column: str, named: str, garbage: str
) -> None:
    path = tmp_path / "store.sqlite3"
    assert spoilt(path, whole, table, column, garbage)

    with closing(SqliteStore(path, clock=ManualClock(2_000_000))) as store:
        found = findings_of(store)

    assert any(".unreadable" in line and named.replace("\\\\", "\\") in line for line in found), found


def test_a_damaged_index_is_found_by_sqlites_own_check(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        # An index whose entries are not those of its rows, as a lost write leaves one.
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX workflow_newest ON workflow(created_at_ms, revision)'"
            " WHERE name = 'workflow_newest'"
        )

    with closing(SqliteStore(path)) as store:
        found = [str(finding) for finding in Inspection(store=store, records=RULES, pause=lambda _: None).findings()]

    assert any(line.startswith("database.check ") and "workflow_newest" in line for line in found), found


def test_a_sound_store_passes_its_own_check(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    path.write_bytes(whole)
    with closing(SqliteStore(path)) as store:
        assert store.check_itself() == ((), ())
