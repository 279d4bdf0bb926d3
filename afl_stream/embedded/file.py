"""The embedded broker's file: topics, records and committed offsets in SQLite, held by one process at a time."""

import fcntl
import json
import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from afl.core.process.database_headers import SQLITE_MAGIC, read_database_header
from afl.core.process.file_holders import holders_text
from afl.core.process.private_files import PRIVATE_FILE, make_private_file, tighten_file
from afl.core.text.exception_text import exception_text
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Headers,
    Record,
    TopicPartition,
    TransportError,
    UnreadableHeaders,
)

#: Marks the SQLite file as ours ("AFLS"). Never change it: older files would be refused as foreign.
APPLICATION_ID = 0x41464C53
#: Layout of the tables. A release reads the layouts up to its own.
FILE_FORMAT = 1

#: Errors that may pass: a full disk, a file that another program reads, an I/O error.
_PASSING = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR})
#: How long to wait for a file that another program reads before an error.
_BUSY_TIMEOUT_S = 2.0
_SCHEMA = """
CREATE TABLE cluster (id TEXT NOT NULL);
CREATE TABLE topics (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  partitions INTEGER NOT NULL, replication INTEGER NOT NULL, settings TEXT NOT NULL);
CREATE TABLE bounds (
  topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, low INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition)) WITHOUT ROWID;
CREATE TABLE records (
  topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
  key BLOB, value BLOB, headers BLOB, timestamp_ms INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition, offset)) WITHOUT ROWID;
CREATE TABLE committed (
  group_name TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  offset INTEGER NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (group_name, topic, partition)) WITHOUT ROWID;
"""


class FileInUse(TransportError):
    """Another process, or another broker of this one, holds the file, and one process at a time does."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(
            f"{path} is in use by process {pid}; one process holds an embedded log: stop that one, or use another data "
            "directory (--data-dir), or Kafka"
        )
        self.path, self.pid = path, pid


class FileUnusable(TransportError):
    """The file is not an embedded log, is damaged, or cannot be read or written."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path} cannot be used as an embedded log: {found}")
        self.path, self.found = path, found


class FileLock:
    """A lock on a file beside the log, which keeps other processes out. The kernel frees it if the process dies."""

    #: Locks of this process. POSIX locks do not exclude their own process, so these are checked first.
    _held: dict[Path, int] = {}
    _held_lock = Lock()

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises FileInUse, FileUnusable."""
        self._key = path.resolve()
        with self._held_lock:
            if self._key in self._held:
                raise FileInUse(path, self._held[self._key])
            self._descriptor = self._take(path)
            self._held[self._key] = os.getpid()

    @staticmethod
    def _take(path: Path) -> int:
        beside = path.with_name(path.name + ".lock")
        try:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise FileUnusable(path, f"{beside.name} beside it cannot be opened: {error.strerror}") from error
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            written = os.read(descriptor, 32).strip()
            os.close(descriptor)
            raise FileInUse(path, int(written) if written.isdigit() else 0) from error
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        return descriptor

    def release(self) -> None:
        with self._held_lock:
            if self._held.pop(self._key, None) is not None:
                os.close(self._descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """A topic as the file has it; `bounds` are low and high of each partition."""

    topic_id: int
    name: str
    replication: int
    settings: Mapping[str, str]
    bounds: Sequence[tuple[int, int]]


#: One record on its way to the file: topic id, partition, offset, key, value, packed headers, timestamp.
Row = tuple[int, int, int, bytes | None, bytes | None, bytes | None, int]


#: The length that stands for a null value.
_NULL_LENGTH = 0xFFFF_FFFF


def pack_headers(headers: Headers) -> bytes | None:
    """Return names and values, each behind its length in four bytes. Unreadable headers are packed as no bytes."""
    if not headers:
        return b"" if isinstance(headers, UnreadableHeaders) else None
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += (struct.pack("<I", len(encoded)), encoded)
        if value is None:
            parts.append(struct.pack("<I", _NULL_LENGTH))
        else:
            parts += (struct.pack("<I", len(value)), value)
    return b"".join(parts)


def unpack_headers(packed: bytes | None) -> Headers:
    """Reverse `pack_headers`."""
    if packed is None:
        return ()
    if not packed:
        return UnreadableHeaders()
    parts: list[bytes | None] = []
    at = 0
    while at < len(packed):
        (length,) = struct.unpack_from("<I", packed, at)
        at += 4
        if length == _NULL_LENGTH:
            parts.append(None)
            continue
        parts.append(packed[at : at + length])
        at += length
    return tuple(((name or b"").decode(), value) for name, value in zip(parts[::2], parts[1::2], strict=True))


class LogFile:
    """The durable side of a broker. Each call writes one transaction, which is on disk when it returns.

    One thread writes at a time and one reads at a time (they have a connection each): the broker guarantees that.
    """

    def __init__(self, path: Path, new_cluster_id: str) -> None:
        """Open the file or create it. Raises FileInUse, FileUnusable."""
        self.path = path
        self._lock = FileLock(path)
        self._connections: list[sqlite3.Connection] = []
        try:
            self._check_magic()
            self._make_private()
            with self._naming_faults():
                self._writer = self._connect()
                is_new = self._is_new()
                # After the checks: this changes the file, which must be ours.
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute("PRAGMA synchronous=FULL")
                if is_new:
                    self._create(new_cluster_id)
                self._reader = self._connect()
                (self.cluster_id,) = self._writer.execute("SELECT id FROM cluster").fetchone()
        except BaseException:
            self.close()
            raise

    def _check_magic(self) -> None:
        """Refuse a foreign file now. SQLite would take an empty file, and would say "not a database" only later."""
        try:
            head = read_database_header(self.path)[: len(SQLITE_MAGIC)]
        except OSError as error:
            raise FileUnusable(self.path, str(error.strerror)) from error
        if not head and not self.path.parent.is_dir():
            raise FileUnusable(self.path, "its folder does not exist")
        if head and head != SQLITE_MAGIC:
            raise FileUnusable(self.path, f"it starts with {head!r}, not as a SQLite file does")

    def _make_private(self) -> None:
        try:
            make_private_file(self.path)
        except OSError as error:
            raise FileUnusable(self.path, str(error.strerror)) from error
        tighten_file(self.path)
        tighten_file(self.path.with_name(self.path.name + ".lock"))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        self._connections.append(connection)
        return connection

    def _is_new(self) -> bool:
        """Return whether the file is empty. Raises FileUnusable when it is neither that nor a log that can be read."""
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == 0 and tables == 0:
            return True
        if application != APPLICATION_ID:
            raise FileUnusable(self.path, "it is a SQLite file of another program")
        if version > FILE_FORMAT:
            raise FileUnusable(
                self.path, f"its format is {version}; this release reads up to {FILE_FORMAT}: upgrade it"
            )
        return False

    def _create(self, cluster_id: str) -> None:
        """Create all tables in one transaction: a crash leaves an empty file, or a complete one."""
        with self._transaction():
            for statement in _SCHEMA.split(";"):
                self._writer.execute(statement)
            self._writer.execute("INSERT INTO cluster VALUES (?)", (cluster_id,))
            self._writer.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._writer.execute(f"PRAGMA user_version={FILE_FORMAT}")

    @contextmanager
    def _naming_faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _PASSING:
                raise BrokerUnavailable(f"{self.path}: {exception_text(error)}{self._lockers(error)}") from error
            raise FileUnusable(self.path, exception_text(error)) from error
        except (sqlite3.Error, UnicodeDecodeError, TypeError, struct.error) as error:
            raise FileUnusable(self.path, exception_text(error)) from error

    def _lockers(self, error: sqlite3.Error) -> str:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            return ""
        found = holders_text([self.path.with_name(f"{self.path.name}-shm"), self.path])
        return f" by {found}" if found else ""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            # After a full disk SQLite has rolled back by itself.
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def topics(self) -> list[StoredTopic]:
        with self._naming_faults():
            lows: dict[tuple[int, int], int] = {
                (topic_id, partition): low
                for topic_id, partition, low in self._writer.execute("SELECT topic_id, partition, low FROM bounds")
            }
            stored: list[StoredTopic] = []
            rows = self._writer.execute("SELECT id, name, partitions, replication, settings FROM topics ORDER BY id")
            for topic_id, name, partitions, replication, settings in rows.fetchall():
                bounds: list[tuple[int, int]] = []
                for partition in range(partitions):
                    (last,) = self._writer.execute(
                        "SELECT max(offset) FROM records WHERE topic_id=? AND partition=?", (topic_id, partition)
                    ).fetchone()
                    low = lows.get((topic_id, partition), 0)
                    bounds.append((low, low if last is None else max(low, last + 1)))
                stored.append(
                    StoredTopic(
                        topic_id=topic_id,
                        name=name,
                        replication=replication,
                        settings=json.loads(settings),
                        bounds=bounds,
                    )
                )
            return stored

    def committed(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        with self._naming_faults():
            for group, topic, partition, offset, metadata in self._writer.execute("SELECT * FROM committed"):
                yield group, TopicPartition(topic, partition), CommittedOffset(offset=offset, metadata=metadata)

    def create_topic(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> int:
        """Store a topic, and return its id: never that of a deleted one."""
        with self._naming_faults(), self._transaction():
            cursor = self._writer.execute(
                "INSERT INTO topics (name, partitions, replication, settings) VALUES (?, ?, ?, ?)",
                (name, partitions, replication, json.dumps(dict(settings))),
            )
            return int(cursor.lastrowid or 0)

    def delete_topic(self, topic_id: int, name: str) -> None:
        """Drop a topic with its records and with the groups' offsets in it."""
        with self._naming_faults(), self._transaction():
            for statement in ("DELETE FROM records WHERE topic_id=?", "DELETE FROM bounds WHERE topic_id=?"):
                self._writer.execute(statement, (topic_id,))
            self._writer.execute("DELETE FROM topics WHERE id=?", (topic_id,))
            self._writer.execute("DELETE FROM committed WHERE topic=?", (name,))

    def forget_offsets(self, group: str) -> None:
        """Drop what a group has committed."""
        with self._naming_faults(), self._transaction():
            self._writer.execute("DELETE FROM committed WHERE group_name=?", (group,))

    def append(self, rows: Sequence[Row], offsets: Iterable[tuple[str, TopicPartition, CommittedOffset]]) -> None:
        """Write all in one transaction. Raises BrokerUnavailable (a full disk, for one), FileUnusable."""
        with self._naming_faults(), self._transaction():
            if rows:
                self._writer.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._writer.executemany(
                "INSERT OR REPLACE INTO committed VALUES (?, ?, ?, ?, ?)",
                [(group, p.topic, p.partition, at.offset, at.metadata) for group, p, at in offsets],
            )

    def truncate(self, topic_id: int, partition: int, low: int) -> None:
        """Drop the records before `low`."""
        with self._naming_faults(), self._transaction():
            self._writer.execute("INSERT OR REPLACE INTO bounds VALUES (?, ?, ?)", (topic_id, partition, low))
            self._writer.execute(
                "DELETE FROM records WHERE topic_id=? AND partition=? AND offset<?", (topic_id, partition, low)
            )

    def compact(self, topic_id: int, partition: int) -> None:
        """Keep the last record of each key, and all without a key.

        The newest record stays, so offsets are not reused.
        """
        with self._naming_faults(), self._transaction():
            self._writer.execute(
                "DELETE FROM records WHERE topic_id=?1 AND partition=?2 AND key IS NOT NULL AND offset NOT IN"
                " (SELECT max(offset) FROM records WHERE topic_id=?1 AND partition=?2 GROUP BY key)",
                (topic_id, partition),
            )

    def first_since(self, topic_id: int, partition: int, since_ms: int) -> int | None:
        """Return the first offset whose record is not older than `since_ms`."""
        with self._naming_faults():
            row = self._writer.execute(
                "SELECT offset FROM records WHERE topic_id=? AND partition=? AND timestamp_ms>=?"
                " ORDER BY offset LIMIT 1",
                (topic_id, partition, since_ms),
            ).fetchone()
        return None if row is None else int(row[0])

    def read(self, topic_id: int, partition: TopicPartition, offset: int, limit: int) -> list[Record]:
        """Return up to `limit` records from `offset` on."""
        with self._naming_faults():
            rows = self._reader.execute(
                "SELECT offset, key, value, headers, timestamp_ms FROM records"
                " WHERE topic_id=? AND partition=? AND offset>=? ORDER BY offset LIMIT ?",
                (topic_id, partition.partition, offset, limit),
            )
            return [
                Record(
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=at,
                    key=key,
                    value=value,
                    headers=unpack_headers(packed),
                    timestamp_ms=timestamp_ms,
                )
                for at, key, value, packed, timestamp_ms in rows
            ]

    def close(self) -> None:
        """Close the file and release its lock. Unwritten records are not written."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._lock.release()
