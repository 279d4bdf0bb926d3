"""The SQLite file of an event store: its tables, its opening, and what one thread reads and writes in it."""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from afl.core.process.database_headers import (
    APPLICATION_ID_AT,
    HEADER_BYTES,
    SQLITE_MAGIC,
    USER_VERSION_AT,
    read_database_header,
)
from afl.core.process.file_holders import holders_text
from afl.core.process.long_waits import WAITS
from afl.core.process.private_files import make_private_file, protect, warn_of_readers
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl.core.text.exception_text import exception_text
from afl_stream.limits import MAX_FILE_EVENT_BYTES
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.rows import Append, StoredRow, stored_request
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest

#: The mark of our files, in their header ("AFLE"). Never change it.
APPLICATION_ID: Final = 0x41464C45
#: The version of the tables below, in the file's header. Raise it with every change.
FORMAT: Final = 1

#: How long a file that another process has locked is waited for.
BUSY_TIMEOUT_S: Final = 30.0
#: Requests whose numbers are remembered.
_REMEMBERED: Final = 10_000
#: How many requests, and of how many events together, are removed in one transaction. A request with more goes alone.
_REQUESTS_AT_ONCE: Final = 500
_EVENTS_AT_ONCE: Final = 20_000

#: The longest wait inside SQLite, where a request to stop is not noticed. A longer wait is several of these.
_SLICE_S: Final = 0.5
#: How long a process that is to end still waits for others' transactions.
_LAST_WAIT_S: Final = 1.0
_CACHE_KIB: Final = 16_384
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

# Events are in the order in which they were appended, whichever request is theirs: what is appended for many requests
# at once goes into few pages.
_TABLES: Final = """
CREATE TABLE request(
    id INTEGER PRIMARY KEY, workflow TEXT NOT NULL, request_id TEXT NOT NULL, status TEXT NOT NULL,
    events INTEGER NOT NULL, created_at_ms INTEGER NOT NULL, updated_at_ms INTEGER NOT NULL, context TEXT NOT NULL,
    UNIQUE (workflow, request_id));
CREATE INDEX request_status ON request(workflow, status, id);
CREATE INDEX request_finished ON request(workflow, updated_at_ms) WHERE status = 'finished';
CREATE TABLE event(
    request INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, event_id TEXT NOT NULL, topic TEXT NOT NULL,
    "offset" INTEGER NOT NULL, publisher TEXT NOT NULL, publisher_type TEXT NOT NULL, consumed TEXT NOT NULL,
    timestamp_ms INTEGER NOT NULL, data TEXT NOT NULL);
CREATE UNIQUE INDEX event_number ON event(request, number);
"""
_EVENT_COLUMNS: Final = 'kind, event_id, topic, "offset", publisher, publisher_type, consumed, timestamp_ms, data'

T = TypeVar("T")


class SQLiteFile:
    """A file with the events of requests. Each call that writes is one transaction, on disk when it returns.

    It is for one thread at a time; other processes may use the file beside it.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        max_event_bytes: int = MAX_FILE_EVENT_BYTES,
        stop: Stop = PROCESS_STOP,
    ) -> None:
        """Open the file, or create it.

        Raises EventStoreUnavailable (its folder is missing or closed, it is locked), EventStoreUnusable (another
        program's file, that of a newer release, or damaged; it is not touched).
        """
        self.name = str(path)
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._max_event_bytes = max_event_bytes
        self._stop = stop
        #: The numbers of requests, as far as they are known: another process may have removed one since.
        self._numbers: dict[RequestKey, int | None] = {}
        is_new = not self._is_ours()
        if is_new:
            # SQLite's own files beside it get its mode. If it cannot be made, SQLite reports the reason.
            with suppress(OSError):
                make_private_file(path)
        protect(path)
        warn_of_readers(path)
        with self._speaking():
            self._db = self._waited_for(lambda: self._open(is_new=is_new))

    def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        """Append events to requests, in one transaction; return what became of each.

        One whose number is not the expected one is refused with RequestConflict, one with too large an event with
        EventsTooLarge, and the others are written. Raises EventStoreUnavailable when none is.
        """
        written: list[tuple[object, ...]] = []
        with self._transaction():
            outcomes = [self._append(each, written) for each in appends]
            self._db.executemany(
                f"INSERT INTO event(request, number, {_EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                written,
            )
        return outcomes

    def _append(self, append: Append, written: list[tuple[object, ...]]) -> Exception | None:
        """Change the request of an append; its events are added to those that are to be written."""
        key, first, rows = append.key, append.first, append.rows
        if append.size > self._max_event_bytes:
            for row in rows:
                if row.size > self._max_event_bytes:
                    what = f"event {row.event_id} of topic {row.topic}"
                    return EventsTooLarge(self.name, what, row.size, self._max_event_bytes)
        number = self._numbers.get(key)
        if number is None or not self._go_on(append, number):
            found = self._db.execute(
                "SELECT id, events FROM request WHERE workflow = ? AND request_id = ?", key
            ).fetchone()
            number, events = found or (None, 0)
            if events != first:
                return RequestConflict(*key, first, events)
            if number is None:
                number = self._begin(append)
            else:
                self._go_on(append, number)
            self._remember(key, number)
        written += [(number, place, *row) for place, row in enumerate(rows, first)]
        return None

    def _begin(self, append: Append) -> int | None:
        return self._db.execute(
            "INSERT INTO request(workflow, request_id, status, events, created_at_ms, updated_at_ms, context)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*append.key, append.status, len(append.rows), append.at_ms, append.at_ms, append.context),
        ).lastrowid

    def _go_on(self, append: Append, number: int) -> bool:
        """Change a request, if it has this number and the events that the append says."""
        changed = self._db.execute(
            "UPDATE request SET status = ?, events = ?, updated_at_ms = ?, context = ?"
            " WHERE id = ? AND events = ? AND request_id = ? AND workflow = ?",
            (
                append.status,
                append.first + len(append.rows),
                append.at_ms,
                append.context,
                number,
                append.first,
                append.key.request_id,
                append.key.workflow,
            ),
        )
        return changed.rowcount == 1

    def _remember(self, key: RequestKey, number: int | None) -> None:
        self._numbers[key] = number
        if len(self._numbers) > _REMEMBERED:
            del self._numbers[next(iter(self._numbers))]

    def request(self, key: RequestKey) -> StoredRequest | None:
        with self._reading():
            row = self._db.execute(
                "SELECT id, events, context, status, created_at_ms, updated_at_ms FROM request"
                " WHERE workflow = ? AND request_id = ?",
                key,
            ).fetchone()
            if row is None:
                return None
            rows = self._db.execute(
                f"SELECT {_EVENT_COLUMNS} FROM event WHERE request = ? ORDER BY number", row[:1]
            ).fetchall()
        if len(rows) != row[1]:
            raise EventStoreUnusable(
                self.name, f"request {key.request_id} has {len(rows)} events", f"{row[1]}, as it says itself"
            )
        stored = StoredRow(*row[2:])
        return stored_request(self.name, key, stored, rows)

    def requests(self, workflow: str, statuses: Sequence[RequestStatus]) -> list[RequestKey]:
        wanted = [status.value for status in statuses]
        only = f" AND status IN ({', '.join('?' * len(wanted))})" if wanted else ""
        with self._reading():
            rows = self._db.execute(
                f"SELECT request_id FROM request WHERE workflow = ?{only} ORDER BY id", (workflow, *wanted)
            ).fetchall()
        return [RequestKey(workflow, request_id) for (request_id,) in rows]

    def forget(self, key: RequestKey) -> None:
        with self._transaction():
            rows = self._db.execute("SELECT id FROM request WHERE workflow = ? AND request_id = ?", key).fetchall()
            self._forget([number for (number,) in rows])

    def workflows(self) -> list[str]:
        with self._reading():
            return [name for (name,) in self._db.execute("SELECT DISTINCT workflow FROM request").fetchall()]

    def forget_old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus]) -> int:
        """Remove requests of a workflow that stand so since before this time, a batch of them; return how many."""
        with self._reading():
            # Mostly there are none, and writers need not wait to be told.
            if not self._old(workflow, before_ms, statuses):
                return 0
        with self._transaction():
            chosen: list[int] = []
            total = 0
            for number, events in self._old(workflow, before_ms, statuses):
                total += events
                if chosen and total > _EVENTS_AT_ONCE:
                    break
                chosen.append(number)
            self._forget(chosen)
        return len(chosen)

    def _old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for status in statuses:
            # As a literal, since the index of finished ones is used for no parameter.
            found += self._db.execute(
                f"SELECT id, events FROM request WHERE workflow = ? AND status = '{status.value}'"
                " AND updated_at_ms < ? LIMIT ?",
                (workflow, before_ms, _REQUESTS_AT_ONCE - len(found)),
            ).fetchall()
        return found

    def _forget(self, numbers: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM event WHERE request = ?", [(number,) for number in numbers])
        self._db.executemany("DELETE FROM request WHERE id = ?", [(number,) for number in numbers])

    def close(self) -> None:
        """Close the file. The last process to do so folds the write-ahead log into it."""
        self._db.close()

    # --- opening ----------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        """Return whether the file is one of ours; False: there is none, or an empty one.

        Its header is read first, so that SQLite never touches a foreign file.
        """
        try:
            header = read_database_header(self._path)
        except OSError as error:
            raise EventStoreUnavailable(self.name, error.strerror or exception_text(error)) from error
        if not header:
            if not self._path.parent.is_dir():
                raise EventStoreUnavailable(self.name, f"directory {self._path.parent} does not exist")
            return False
        if not header.startswith(SQLITE_MAGIC):
            raise EventStoreUnusable(self.name, f"it starts with {header[:16]!r}", repr(SQLITE_MAGIC))
        if len(header) < HEADER_BYTES:
            raise EventStoreUnusable(self.name, f"it ends after {len(header)} bytes, inside its header")
        (application_id,) = struct.unpack_from(">I", header, APPLICATION_ID_AT)
        (user_version,) = struct.unpack_from(">I", header, USER_VERSION_AT)
        self._check(application_id, user_version)
        return True

    def _check(self, application_id: int, user_version: int) -> None:
        if application_id != APPLICATION_ID:
            raise EventStoreUnusable(
                self.name,
                f"it is a SQLite database of something else (application id {application_id:#010x})",
                f"an event store ({APPLICATION_ID:#010x})",
            )
        if user_version != FORMAT:
            raise EventStoreUnusable(
                self.name, f"its format is {user_version}", f"format {FORMAT}: use a newer release of AFL Stream"
            )

    def _open(self, *, is_new: bool) -> sqlite3.Connection:
        """Do all steps of opening. A crash leaves an empty file, or a store; each step may find itself done."""
        db = sqlite3.connect(
            self._path, timeout=min(self._busy_timeout_s, _SLICE_S), isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if is_new:
                _make_tables(db)
            # Checked again from inside: a newer format may still be in the write-ahead log only.
            self._check(*(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")))
            db.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            db.close()
            raise
        return db

    # --- transactions, and errors of SQLite -------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._speaking():
            self._waited_for(lambda: self._db.execute("BEGIN IMMEDIATE"))
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # After a full disk SQLite has rolled back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """See one state of the file in all reads of this context."""
        with self._speaking():
            # Readers do not wait, unless the file is being recovered, or another process has it exclusively.
            self._waited_for(self._begin_read)
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def _begin_read(self) -> None:
        self._db.execute("BEGIN")
        try:
            self._db.execute("SELECT 1 FROM request LIMIT 1").fetchone()
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def _waited_for(self, attempt: Callable[[], T]) -> T:
        """Repeat an attempt while another process has locked the file."""
        began_s = time.monotonic()
        with WAITS.on(f"the event store {self.name}", lambda: f", which is locked{self._holders()}"):
            while True:
                try:
                    return attempt()
                except sqlite3.OperationalError as error:
                    waited_s = time.monotonic() - began_s
                    is_over = waited_s >= self._busy_timeout_s or (self._stop.is_set() and waited_s >= _LAST_WAIT_S)
                    if _code(error) not in _LOCKED or is_over:
                        raise
                    # SQLite does not always wait by itself.
                    time.sleep(0.005)

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """Turn errors of SQLite into those of an event store."""
        try:
            yield
        except sqlite3.Error as error:
            reason = exception_text(error)
            if _code(error) in _DAMAGED or reason.startswith("Could not decode to UTF-8"):
                raise EventStoreUnusable(self.name, f"it is damaged: {reason}") from error
            if _code(error) in _LOCKED:
                reason = f"it is locked{self._holders()} ({reason})"
            elif not os.access(self._path.parent, os.W_OK):
                reason = f"{reason}: directory {self._path.parent} can't be written to"
            raise EventStoreUnavailable(self.name, reason) from error

    def _holders(self) -> str:
        # Writers lock the file's shared memory in write-ahead mode, the file itself in any other.
        found = holders_text([self._path.with_name(f"{self._path.name}-shm"), self._path])
        return f" by {found}" if found else ""


def _make_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN EXCLUSIVE")
    try:
        # Another process may have been faster.
        if db.execute("PRAGMA application_id").fetchone()[0] == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
