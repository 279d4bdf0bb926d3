"""Older formats of a SQLite store's file: brought up to the present one, or refused, when the file is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from afl.engine.errors import ForeignStore
from afl.engine.model.store import StepDocument
from afl.stores.deadlines import ASKING, timers_of_deadlines
from afl.stores.documents import decode_step
from afl.stores.formats import report_migration
from afl.stores.sqlite.waiting import HeldInOlderFormat, is_locked
from afl.stores.stored_text import key_of, text_of

#: The version of a store's tables, in the file's header. Raise it with every change; older formats are migrated to it.
FORMAT: Final = 6
#: The oldest format that is migrated when a store is opened.
OLDEST_FORMAT: Final = 1

#: Timers, histories, schedules. Ordinary workflows have none of them. A history's rows are in the order of their
#: arrival, as steps are; its indexes lead to the pending events of a workflow, and to those of a workflow that is still
#: to come.
_EVENTS_AND_TIME_TEXT: Final = """
CREATE TABLE timer(step_id PRIMARY KEY, workflow_id NOT NULL, kind TEXT NOT NULL, due_at_ms INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE INDEX timer_due ON timer(due_at_ms, step_id);
CREATE INDEX timer_workflow ON timer(workflow_id, due_at_ms, step_id);
CREATE TABLE history(
    sequence INTEGER PRIMARY KEY, workflow_id NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL,
    execution INTEGER NOT NULL, at_ms INTEGER NOT NULL, event_id NOT NULL, is_pending INTEGER NOT NULL,
    until_execution INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL, document BLOB NOT NULL);
CREATE UNIQUE INDEX history_number ON history(workflow_id, number);
CREATE UNIQUE INDEX history_event ON history(workflow_id, event_id) WHERE event_id <> '';
CREATE INDEX history_pending ON history(workflow_id, number) WHERE is_pending = 1;
CREATE INDEX history_early ON history(workflow_id, expires_at_ms) WHERE is_pending = 1 AND expires_at_ms > 0;
CREATE TABLE schedule(id PRIMARY KEY, revision INTEGER NOT NULL, next_at_ms INTEGER, document BLOB NOT NULL)
    WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule(next_at_ms, id) WHERE next_at_ms IS NOT NULL;
"""
#: The same, one statement each.
EVENTS_AND_TIME: Final = tuple(filter(str.strip, _EVENTS_AND_TIME_TEXT.split(";")))

_INDEX_OF_RUNNING_TASKS: Final = (
    "CREATE INDEX IF NOT EXISTS tasks_running ON tasks(task_list_name) WHERE state = 'running'"
)

#: From format 1, whose positions lacked the id of the topic: '' stands for that.
_FROM_FORMAT_1: Final = (
    "ALTER TABLE position RENAME TO position_1",
    """
    CREATE TABLE position(
        cluster_id, topic, partition INTEGER, topic_id, next_offset INTEGER NOT NULL,
        PRIMARY KEY (cluster_id, topic, partition, topic_id)) WITHOUT ROWID
    """,
    "INSERT INTO position SELECT cluster_id, topic, partition, '', next_offset FROM position_1",
    "DROP TABLE position_1",
)

#: From format 2, which lacked tombstones and versions of programs.
_FROM_FORMAT_2: Final = (
    "ALTER TABLE program ADD COLUMN versions TEXT",
    "CREATE TABLE tombstones("
    "sequence INTEGER PRIMARY KEY, key UNIQUE NOT NULL, state, purged_at_ms, document BLOB NOT NULL)",
    "CREATE INDEX tombstones_age ON tombstones(state, purged_at_ms)",
)
#: From format 3, whose stores lacked an id. One statement for each column: SQLite adds one at a time.
_FROM_FORMAT_3: Final = (
    "ALTER TABLE store ADD COLUMN id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE store ADD COLUMN marks TEXT NOT NULL DEFAULT ''",
    "UPDATE store SET id = lower(hex(randomblob(16)))",
)
#: From format 4, which had no timers, histories and schedules.
_FROM_FORMAT_4: Final = EVENTS_AND_TIME
#: From format 5, whose rows were written whole each time, and whose headers were JSON. Rows stay as they are: columns
#: without a value say that nothing has changed since the document, and headers are read in both forms.
_FROM_FORMAT_5: Final = (
    "ALTER TABLE workflow ADD COLUMN steps INTEGER",
    "ALTER TABLE workflow ADD COLUMN iterations INTEGER",
    "ALTER TABLE workflow ADD COLUMN updated_at_ms INTEGER",
    "CREATE INDEX workflow_status ON workflow(status, created_at_ms, id)",
    "CREATE INDEX workflow_name ON workflow(name, created_at_ms, id)",
    "ALTER TABLE step ADD COLUMN change BLOB",
)
#: The last format without timers.
_WITHOUT_TIMERS: Final = 4
#: The migration of each format to the next one.
_MIGRATIONS: Final = {1: _FROM_FORMAT_1, 2: _FROM_FORMAT_2, 3: _FROM_FORMAT_3, 4: _FROM_FORMAT_4, 5: _FROM_FORMAT_5}


def check_format(path: Path, found: int) -> None:
    """Raise ForeignStore for a format that is not read."""
    if not OLDEST_FORMAT <= found <= FORMAT:
        remedy = "upgrade this process" if found > FORMAT else "open it with an older release first"
        raise ForeignStore(
            path=str(path),
            found=f"a workflow store of format {found}",
            expected=f"format {OLDEST_FORMAT} to {FORMAT}: {remedy}",
        )


def migrate(path: Path, connection: sqlite3.Connection) -> None:
    """Bring a store of an older format up to this one, and say so.

    Steps:
      1. take the file for this connection alone, which no process of an older release can then have open,
      2. migrate it in one transaction, the number of its format included,
      3. let others in again.

    A crash before the end of 2 leaves the store as it was, after it the migrated store.
    """
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == FORMAT:
        return
    _take_alone(connection, found)
    try:
        # Another process may have been faster.
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        check_format(path, found)
        for older in range(found, FORMAT):
            for statement in _MIGRATIONS[older]:
                connection.execute(statement)
        if found <= _WITHOUT_TIMERS:
            _add_timers(connection)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("PRAGMA locking_mode = NORMAL")
    if found < FORMAT:
        report_migration(str(path), found, FORMAT)


def _take_alone(connection: sqlite3.Connection, found: int) -> None:
    """Begin a transaction in a file that no other process has open: only then is a write-ahead log given up."""
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise HeldInOlderFormat(found, FORMAT)
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if not is_locked(error):
            raise
        raise HeldInOlderFormat(found, FORMAT) from error


def _add_timers(connection: sqlite3.Connection) -> None:
    """Give the unanswered events of older releases the timers of their deadlines."""
    rows = connection.execute("SELECT id, revision, state, document FROM step WHERE state = ?", (ASKING,))

    def read(row: tuple[str | bytes, int, str | bytes, bytes]) -> StepDocument:
        return decode_step(text_of(row[0]), row[1], text_of(row[2]), row[3])

    timers = [
        (key_of(timer.step_id), key_of(timer.workflow_id), timer.kind.value, timer.due_at_ms)
        for timer in timers_of_deadlines(rows, read)
    ]
    connection.executemany("INSERT INTO timer(step_id, workflow_id, kind, due_at_ms) VALUES (?, ?, ?, ?)", timers)


def add_what_is_newer(connection: sqlite3.Connection) -> None:
    """Create what stores of this format may lack: the index of running tasks, and the column beside a program's text.

    Older releases still work on such a store, beside this one: SQLite maintains the index, and their rows leave the
    column empty.
    """
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'tasks_running'").fetchone() is None:
        connection.execute(_INDEX_OF_RUNNING_TASKS)
    if not _has_annotations(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster.
            if not _has_annotations(connection):
                connection.execute("ALTER TABLE program ADD COLUMN annotations BLOB")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _has_annotations(connection: sqlite3.Connection) -> bool:
    return any(column[1] == "annotations" for column in connection.execute("PRAGMA table_info(program)"))
