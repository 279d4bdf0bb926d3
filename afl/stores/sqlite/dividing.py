"""A store divided anew: the rows of some files are copied into others, each row into the file that it belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from afl.core.ids import RESERVED
from afl.engine.errors import StoreCorrupt, StoreUnavailable
from afl.stores.sqlite.schema import open_store_file, speaking
from afl.stores.sqlite.waiting import holders_of
from afl.stores.stored_text import text_of

#: Rows that are read and written together.
_PAGE: Final = 1_000
#: How long to wait for a file that another process has locked: none may be in use.
_BUSY_S: Final = 2.0

#: Tables whose rows belong to a workflow, or to a schedule, and the column that begins with its id.
_OF_WORKFLOWS: Final[Mapping[str, str]] = {
    "workflow": "id",
    "workflow_inputs": "id",
    "step": "id",
    "public_step": "workflow_id",
    "timer": "workflow_id",
    "history": "workflow_id",
    "parked": "workflow_id",
    "events": "workflow_id",
    "tombstones": "key",
    "schedule": "id",
}
#: Tables that every file has whole. Locks are among them: that a store holds encrypted values is one, and each file has
#: to say so.
_IN_ALL: Final = frozenset({"program", "locks"})
#: Tables of what belongs to no workflow: the first file has them.
_IN_FIRST: Final = frozenset({"runners", "tasks", "logs", "servers", "handler_registrations"})
_IDENTITY: Final = "store"
_OUTBOX, _POSITION = "outbox", "position"
#: All tables, for a test: each has to be in one of these.
DIVIDED: Final = frozenset({*_OF_WORKFLOWS, *_IN_ALL, *_IN_FIRST, _IDENTITY, _OUTBOX, _POSITION})

_CONTROL_LANE: Final = "control/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where rows go: the index of the file of a workflow (or schedule), and that of a control partition."""

    of_workflow: Callable[[str], int]
    of_partition: Callable[[int], int]


def copy_divided(
    sources: Sequence[Path],
    targets: Sequence[Path],
    prefix: str,
    placing: Placing,
    decide: Callable[[], None] = lambda: None,
) -> None:
    """Copy all rows of the source files into the targets, which do not exist yet, while no process uses a source.

    `decide` is called when all rows are copied, and nobody can write to a source before it returns.
    The identity of the first source becomes that of the first target; the other targets are new stores. Numbers that
    only order rows are given anew. Raises StoreUnavailable for a source that is in use, and the store's other errors.
    """
    with ExitStack() as opened:
        taken = [opened.enter_context(closing(_taken(path, prefix))) for path in sources]
        made = [
            opened.enter_context(closing(open_store_file(path, prefix, create=True, busy_timeout_s=_BUSY_S)))
            for path in targets
        ]
        for path, source in zip(sources, taken, strict=True):
            try:
                _copy(path, source, made, placing)
            except sqlite3.Error as error:
                raise speaking(path, error) from error
        identity = taken[0].execute("SELECT id, marks FROM store").fetchone()
        made[0].execute("UPDATE store SET id = ?, marks = ?", identity)
        decide()


def _taken(path: Path, prefix: str) -> sqlite3.Connection:
    """Open a source for this process alone: SQLite gives up a write-ahead log only when no other has the file open."""
    connection = open_store_file(path, prefix, create=False, busy_timeout_s=_BUSY_S)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise StoreUnavailable(path=str(path), reason=f"it is in use{holders_of(path)}; end that first")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        raise StoreUnavailable(path=str(path), reason=f"it is in use{holders_of(path)}; end that first") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _copy(path: Path, source: sqlite3.Connection, targets: Sequence[sqlite3.Connection], placing: Placing) -> None:
    public = {row[0]: row[1] for row in source.execute("SELECT id, workflow_id FROM public_step")}
    for target in targets:
        target.execute("BEGIN IMMEDIATE")
    for table in _tables(source):
        if table == _IDENTITY:
            continue
        if table not in DIVIDED:
            raise StoreCorrupt(path=str(path), reason=f"table {table} is not known: no row was moved")
        columns = _columns(source, table)
        rows = source.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {_order(source, table)}")
        names = [name.strip('"') for name in columns]
        for page in _pages(rows):
            _insert(targets, table, columns, [(row, _indexes(table, names, row, placing, public)) for row in page])
    for target in targets:
        target.execute("COMMIT")


def _insert(
    targets: Sequence[sqlite3.Connection],
    table: str,
    columns: Sequence[str],
    placed: Sequence[tuple[Sequence[Any], int | None]],
) -> None:
    into = f"INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    # What every file has, several sources have: the first one's is taken.
    everywhere = [row for row, at in placed if at is None]
    for index, target in enumerate(targets):
        target.executemany(f"INSERT OR IGNORE {into}", everywhere)
        target.executemany(f"INSERT {into}", [row for row, at in placed if at == index])


def _indexes(
    table: str, names: Sequence[str], row: Sequence[Any], placing: Placing, public: Mapping[Any, Any]
) -> int | None:
    """Return the index of the file that a row goes to; None: to all of them."""
    if table in _IN_ALL:
        return None
    if table in _IN_FIRST:
        return 0
    found = dict(zip(names, row, strict=True))
    if table == _POSITION:
        return placing.of_partition(found["partition"])
    if table == _OUTBOX:
        return _index_of_record(text_of(found["lane"]), found["key"], placing)
    key = found[_OF_WORKFLOWS[table]]
    if table == "step":
        key = public.get(key, key)
    name = text_of(key)
    if table == "schedule" and name.startswith(RESERVED):
        return None
    return placing.of_workflow(name.partition(":")[0])


def _index_of_record(lane: str, key: bytes | None, placing: Placing) -> int:
    """Return the file of an outbox record: its lane's, or of a writer's own lane that of the workflow it is about."""
    if lane.startswith(_CONTROL_LANE):
        return placing.of_partition(int(lane.removeprefix(_CONTROL_LANE)))
    return 0 if key is None else placing.of_workflow(key.decode("utf-8", "replace").partition(":")[0])


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in found]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of a table but the number that only orders its rows: two files have given the same ones."""
    found = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [f'"{name}"' for _, name, _, _, _, key in found if not (key and name == "sequence")]


def _order(connection: sqlite3.Connection, table: str) -> str:
    """Return what orders the rows as they came, which later reading relies on."""
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return "1" if "WITHOUT ROWID" in sql else "rowid"


def _pages(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while page := list(islice(rows, _PAGE)):
        yield page
