"""Audit lines in a SQLite database: lines, and how far they go, are written in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from afl.core.process.database_headers import SQLITE_MAGIC, read_database_header
from afl.core.process.private_files import make_private_file, protect
from afl_stream.audit.chain import HashChain, SealedLine
from afl_stream.audit.filters import MOST_STEPS
from afl_stream.audit.sinks import LastWritten
from afl_stream.errors import StreamError
from afl_stream.transport import TopicPartition

#: "AFLa", which marks a database of audit lines.
_APPLICATION_ID: Final = 0x41464C61
_FORMAT: Final = 1
_BUSY_S: Final = 10.0
#: Members of lines that are columns, too, for people's queries. They take room in their indexes only.
_COLUMNS: Final = ("kind", "topic", "partition", "offset", "time", "time_ms", "workflow", "step", "facet")
_INDEXED: Final = ("workflow", "facet", "time_ms")
_TABLES: Final = (
    "CREATE TABLE audit_line (number INTEGER PRIMARY KEY, line TEXT NOT NULL, chain TEXT NOT NULL, "
    + ", ".join(f"\"{name}\" GENERATED ALWAYS AS (json_extract(line, '$.{name}')) VIRTUAL" for name in _COLUMNS)
    + ")",
    *(f"CREATE INDEX audit_line_by_{name} ON audit_line (\"{name}\")" for name in _INDEXED),
    "CREATE TABLE audit_offset (topic TEXT NOT NULL, \"partition\" INTEGER NOT NULL, \"offset\" INTEGER NOT NULL, "
    "time_ms INTEGER NOT NULL, PRIMARY KEY (topic, \"partition\")) WITHOUT ROWID",
)  # fmt: skip


class AuditDatabaseRefused(StreamError):
    """A file is not a database of audit lines, or of a newer release."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"{path} {found}; expected a database that `afl-stream audit --file {path.name}` has made, or a new file"
        )
        self.path = path


class AuditDatabase:
    """Lines in the table `audit_line`, and in `audit_offset` the last record of each partition that was looked at.

    A crash leaves both as they were after some batch. Only one process writes: the database is locked meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises AuditDatabaseRefused and OSError."""
        make_private_file(path)
        protect(path)
        self._path = path
        self._connection = _opened(path)
        head = self._connection.execute("SELECT chain FROM audit_line ORDER BY number DESC LIMIT 1").fetchone()
        self._chain = HashChain(head[0] if head else "")
        self._lines: list[tuple[str, str]] = []

    def write(self, lines: Iterable[bytes]) -> None:
        self._lines += [(line[:-1].decode(), self._chain.add(line)) for line in lines]

    def is_due(self) -> bool:
        return True

    def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:
        """Write the lines, and how far they go, in one transaction. Raises OSError."""
        rows = [(*partition, *end) for partition, end in ends.items()]
        try:
            with self._connection as transaction:
                transaction.execute("BEGIN IMMEDIATE")
                transaction.executemany("INSERT INTO audit_line (line, chain) VALUES (?, ?)", self._lines)
                transaction.executemany("INSERT OR REPLACE INTO audit_offset VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: {error}") from error
        self._lines.clear()

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:  # noqa: ARG002 - it knows all at once
        found = self._connection.execute('SELECT topic, "partition", "offset", time_ms FROM audit_offset')
        return {TopicPartition(topic, number): LastWritten(offset, at) for topic, number, offset, at in found}

    def asking_steps(self) -> Iterable[str]:
        newest = self._connection.execute(
            "SELECT step FROM audit_line WHERE kind = 'event' ORDER BY number DESC LIMIT ?", (MOST_STEPS,)
        )
        return [step for (step,) in newest.fetchall()][::-1]

    def close(self) -> None:
        self._connection.close()


def lines_of_database(path: Path) -> Iterator[SealedLine]:
    """Return the lines of a database, in order. Raises AuditDatabaseRefused and OSError."""
    connection = _opened(path, create=False)
    try:
        for line, chain in connection.execute("SELECT line, chain FROM audit_line ORDER BY number"):
            yield SealedLine(f"{line}\n".encode(), chain)
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from error
    finally:
        connection.close()


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    try:
        return read_database_header(path).startswith(SQLITE_MAGIC)
    except IsADirectoryError:
        return False


def _opened(path: Path, *, create: bool = True) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        _check(connection, path, create=create)
    except sqlite3.Error as error:
        connection.close()
        raise AuditDatabaseRefused(path, f"cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if not is_empty and application != _APPLICATION_ID:
        raise AuditDatabaseRefused(path, "is a database of something else")
    if version > _FORMAT:
        raise AuditDatabaseRefused(path, f"has format {version}, and this release reads {_FORMAT}")
    if not create:
        if is_empty:
            raise AuditDatabaseRefused(path, "has no audit lines")
        return
    connection.execute("PRAGMA journal_mode = WAL")
    # What was written is on disk when the transaction is over: offsets move past it then.
    connection.execute("PRAGMA synchronous = FULL")
    if is_empty:
        with connection as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                transaction.execute(statement)
            transaction.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            transaction.execute(f"PRAGMA user_version = {_FORMAT}")
