"""The tables in a SQLite store's file, and the opening of a file: created, recognised, or refused untouched."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from pathlib import Path
from typing import Final

from afl.core.process.database_headers import (
    APPLICATION_ID_AT,
    HEADER_BYTES,
    SCHEMA_COOKIE_AT,
    SQLITE_MAGIC,
    USER_VERSION_AT,
    read_database_header,
)
from afl.core.process.private_files import make_private_file, protect, warn_of_readers
from afl.core.text.exception_text import exception_text
from afl.core.text.printable import printable
from afl.engine.errors import ForeignStore, StoreCorrupt, StoreUnavailable
from afl.engine.model.store_identity import new_store_id
from afl.engine.versions import VERSIONS, check_maker
from afl.stores.public.store import ENTITY_TABLES, RUNNING_TASK_INDEX, EntityTable
from afl.stores.sqlite.migrations import (
    EVENTS_AND_TIME,
    FORMAT,
    add_what_is_newer,
    check_format,
    migrate,
)
from afl.stores.sqlite.waiting import SLICE_S, holders_of, waited_for

#: The mark of our files, in their header. Never change it.
APPLICATION_ID: Final = 0x41464C53  # "AFLS"
#: Pages kept in memory per connection, in KiB.
_CACHE_KIB: Final = 16_384

# A step's id starts with its workflow's id and ":", so a workflow's steps are a range of the keys. The rows themselves
# are in the order of creation: a batch of many workflows writes few pages, whereas in the order of the keys each step
# would have a page of its own. Steps that were saved through the public interface may have any id: `public_step` finds
# those by workflow. Outbox rows live for a batch or two: every index would cost more than the scan that it saves.
_TABLES: Final = """
CREATE TABLE store(one INTEGER PRIMARY KEY CHECK (one = 1), prefix TEXT NOT NULL, versions TEXT NOT NULL,
    id TEXT NOT NULL DEFAULT '', marks TEXT NOT NULL DEFAULT '');
CREATE TABLE workflow(
    id PRIMARY KEY, revision INTEGER NOT NULL, name NOT NULL, status TEXT NOT NULL, runnable INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL, document BLOB NOT NULL,
    steps INTEGER, iterations INTEGER, updated_at_ms INTEGER) WITHOUT ROWID;
CREATE INDEX workflow_newest ON workflow(created_at_ms, id);
CREATE INDEX workflow_runnable ON workflow(created_at_ms, id) WHERE runnable = 1;
CREATE INDEX workflow_status ON workflow(status, created_at_ms, id);
CREATE INDEX workflow_name ON workflow(name, created_at_ms, id);
CREATE TABLE workflow_inputs(id PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE step(id PRIMARY KEY, revision INTEGER NOT NULL, state NOT NULL, document BLOB NOT NULL, change BLOB);
CREATE TABLE public_step(id PRIMARY KEY, workflow_id NOT NULL, number INTEGER NOT NULL, notes BLOB) WITHOUT ROWID;
CREATE INDEX public_step_workflow ON public_step(workflow_id, number);
CREATE TABLE outbox(
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, created_at_ms INTEGER NOT NULL, lane NOT NULL, topic NOT NULL,
    key BLOB, value BLOB, headers BLOB);
CREATE TABLE position(
    cluster_id, topic, partition INTEGER, topic_id, next_offset INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, topic, partition, topic_id)) WITHOUT ROWID;
CREATE TABLE parked(
    sequence INTEGER PRIMARY KEY, id UNIQUE NOT NULL, workflow_id NOT NULL, step_id NOT NULL, topic NOT NULL,
    partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB,
    parked_at_ms INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL);
CREATE INDEX parked_step ON parked(step_id);
CREATE INDEX parked_workflow ON parked(workflow_id);
CREATE INDEX parked_expiry ON parked(expires_at_ms);
CREATE TABLE program(fingerprint PRIMARY KEY, content BLOB NOT NULL, versions TEXT, annotations BLOB) WITHOUT ROWID;
CREATE UNIQUE INDEX {running} ON tasks(step_id) WHERE state = 'running' AND step_id <> '';
CREATE INDEX tasks_pending ON tasks(task_list_name, name, created, sequence) WHERE state = 'pending';
CREATE INDEX logs_runner ON logs(runner_id);
CREATE INDEX tombstones_age ON tombstones(state, purged_at_ms);
"""


def _entity_table(table: EntityTable) -> str:
    columns = "".join(f", {name}" for name in table.columns)
    return (
        f"CREATE TABLE {table.name}(sequence INTEGER PRIMARY KEY, key UNIQUE NOT NULL{columns}, document BLOB NOT NULL)"
    )


def _statements() -> list[str]:
    tables = _TABLES.format(running=RUNNING_TASK_INDEX).split(";")
    return [*map(_entity_table, ENTITY_TABLES.values()), *filter(str.strip, tables), *EVENTS_AND_TIME]


#: Names for which SQLite opens a database of one connection.
_IN_MEMORY: Final = ":memory:"


def open_store_file(path: Path, prefix: str, *, create: bool, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a store's file for reading and writing; create it if it does not exist and `create` is true.

    The file's own header is read first, so that SQLite never touches a foreign file. A new store is made in one
    transaction, its mark included, before the file is switched to a write-ahead log: a crash leaves a file without
    tables or a store, and of two processes that make it at the same time the second finds it made. A store of an older
    format is migrated to this one, in one transaction too, while no other process has it open.

    The wait for a file that another process has locked, or has open in an older format, lasts up to `busy_timeout_s`.

    Raises StoreUnavailable (directory missing or not writable, no such file, in memory, locked), StoreCorrupt (not a
    SQLite file, or damaged), ForeignStore (another program's file, another prefix's, or another format's),
    VersionMismatchError (made by a newer release).
    """
    if str(path) == _IN_MEMORY:
        raise StoreUnavailable(
            path=_IN_MEMORY, reason="it belongs to one connection, a store has several; use MemoryStore"
        )
    header = _read_header(path)
    is_new = not header or _is_without_tables(header)
    if not is_new:
        _check_header(path, header)
    elif not create:
        raise StoreUnavailable(path=str(path), reason="there is no such file")
    elif not path.parent.is_dir():
        raise StoreUnavailable(path=str(path), reason=f"directory {path.parent} does not exist")
    if is_new:
        # SQLite's own files beside it get its mode. If it cannot be made, SQLite reports the reason.
        with contextlib.suppress(OSError):
            make_private_file(path)
    protect(path)
    warn_of_readers(path)
    try:
        return waited_for(path, lambda: _open(path, prefix, busy_timeout_s, is_new=is_new), busy_timeout_s)
    except sqlite3.Error as error:
        raise speaking(path, error) from error


def _open(path: Path, prefix: str, busy_timeout_s: float, *, is_new: bool) -> sqlite3.Connection:
    """Do all steps of opening; each step may find itself done already."""
    connection = connect(path, busy_timeout_s)
    try:
        if is_new:
            _make_tables(connection, prefix)
        _check_identity(path, connection, prefix)
        migrate(path, connection)
        add_what_is_newer(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Return a connection whose commits are durable, for one thread at a time, without implicit transactions."""
    connection = sqlite3.connect(
        path, timeout=min(busy_timeout_s, SLICE_S), isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        # The first look into a file may find that it is damaged.
        connection.close()
        raise
    return connection


def speaking(path: Path, error: sqlite3.Error) -> Exception:
    """Return the store's error for an error of SQLite: damaged, unavailable, or else the error itself."""
    if is_undecodable(error):
        return StoreCorrupt(path=str(path), reason=printable(exception_text(error)))
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(path=str(path), reason=exception_text(error))
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(path=str(path), reason=f"it is locked{holders_of(path)} ({exception_text(error)})")
    if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        closed = "" if os.access(path.parent, os.W_OK) else f": directory {path.parent} can't be written to"
        return StoreUnavailable(path=str(path), reason=f"{exception_text(error)}{closed}")
    return error


def is_undecodable(error: sqlite3.Error) -> bool:
    """Say whether an error is about a text column that is not UTF-8. Python's module reports it without a code."""
    return str(error).startswith("Could not decode to UTF-8")


def _read_header(path: Path) -> bytes:
    try:
        return read_database_header(path)
    except OSError as error:
        raise StoreUnavailable(path=str(path), reason=error.strerror or exception_text(error)) from error


def _is_without_tables(header: bytes) -> bool:
    """Say whether a database was begun and has no table yet: by a process that is making it now, or died then."""
    if len(header) < HEADER_BYTES or not header.startswith(SQLITE_MAGIC):
        return False
    # The schema cookie is 0 as long as there never was a table.
    places = (SCHEMA_COOKIE_AT, USER_VERSION_AT, APPLICATION_ID_AT)
    return not any(struct.unpack_from(">I", header, place)[0] for place in places)


def _check_header(path: Path, header: bytes) -> None:
    if not header.startswith(SQLITE_MAGIC):
        raise StoreCorrupt(path=str(path), reason=f"it starts with {header[:16]!r}, expected {SQLITE_MAGIC!r}")
    if len(header) < HEADER_BYTES:
        raise StoreCorrupt(path=str(path), reason=f"it ends after {len(header)} bytes, inside its header")
    (application_id,) = struct.unpack_from(">I", header, APPLICATION_ID_AT)
    if application_id != APPLICATION_ID:
        raise ForeignStore(
            path=str(path),
            found=f"a SQLite database of another program (application id {application_id:#010x})",
            expected=f"a workflow store (application id {APPLICATION_ID:#010x})",
        )
    (found,) = struct.unpack_from(">I", header, USER_VERSION_AT)
    check_format(path, found)


def _make_tables(connection: sqlite3.Connection, prefix: str) -> None:
    # Before the first table: free pages can be given back a few at a time. Without effect on a file that has tables. On
    # an empty one SQLite writes the header, in a transaction of its own.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application_id == tables == 0:
            for statement in _statements():
                connection.execute(statement)
            connection.execute("INSERT INTO store VALUES (1, ?, ?, ?, '')", (prefix, VERSIONS, new_store_id()))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_identity(path: Path, connection: sqlite3.Connection, prefix: str) -> None:
    # Checked again from inside: a newer format may still be in the write-ahead log only.
    check_format(path, connection.execute("PRAGMA user_version").fetchone()[0])
    try:
        row = connection.execute("SELECT prefix, versions FROM store").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) not in (None, sqlite3.SQLITE_ERROR):
            raise
        raise StoreCorrupt(path=str(path), reason=exception_text(error)) from error
    if row is None:
        raise StoreCorrupt(path=str(path), reason="its store row is missing")
    if row[0] != prefix:
        raise ForeignStore(
            path=str(path), found=f"the store of topic prefix {row[0]!r}", expected=f"that of prefix {prefix!r}"
        )
    try:
        check_maker(row[1], str(path))
    except ValueError as error:
        raise StoreCorrupt(path=str(path), reason=exception_text(error)) from error
