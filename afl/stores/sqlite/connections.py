"""The connections of a SQLite store: one for writing, and one for each thread that reads at the same time."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from afl.engine.errors import StoreUnavailable
from afl.stores.damaged_rows import damaged, taken
from afl.stores.sqlite.schema import connect, is_undecodable, speaking
from afl.stores.sqlite.waiting import SLICE_S, is_locked, waited_for
from afl.stores.stored_text import key_of as key_of
from afl.stores.stored_text import text_of as text_of

#: The first table that a query reads.
_TABLE: Final = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)

T = TypeVar("T")


class _Undecodable(bytes):
    """The content of a text column that is not UTF-8."""


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _Undecodable(raw)


class Connections:
    """Connections through which threads share a file.

    Writers take turns; readers do not wait for them and see the last commit. A thread that writes reads its own writes.
    """

    def __init__(self, path: Path, writer: sqlite3.Connection, busy_timeout_s: float) -> None:
        self._path = path
        self._writer = writer
        self._busy_timeout_s = busy_timeout_s
        #: Held by the writer, and until a staged transaction is committed: maybe by another thread.
        self._turn = threading.Lock()
        #: The thread inside `writing`, by its identifier.
        self._writing_thread: int | None = None
        #: The threads inside `staged`.
        self._staging_threads: set[int] = set()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction, which is committed at the end and rolled back by an exception.

        Nested calls use the same transaction. The wait for other processes lasts up to the busy timeout, then
        StoreUnavailable is raised.
        """
        this_thread = threading.get_ident()
        if self._writing_thread == this_thread:
            # A public write consists of smaller ones.
            yield self._writer
            return
        self._turn.acquire()
        is_left_open = False
        try:
            self._refuse_closed()
            db = self._writer
            self._writing_thread = this_thread
            try:
                self._begin(db)
                yield db
                is_left_open = this_thread in self._staging_threads
                if db.in_transaction and not is_left_open:
                    db.execute("COMMIT")
            except sqlite3.Error as error:
                raise speaking(self._path, error) from error
            finally:
                self._writing_thread = None
                # Still open only after an error, also one of the commit itself, or because it is staged.
                if db.in_transaction and not is_left_open:
                    db.execute("ROLLBACK")
        finally:
            if not is_left_open:
                self._turn.release()

    def staged(self, write: Callable[[], T]) -> Callable[[], T]:
        """Write in a transaction that is left open, and return what commits it and returns the result of `write`.

        It must be called once, and any thread may: until then other writers wait, and readers see the commit before.
        `write` enters `writing` once.
        """
        this_thread = threading.get_ident()
        self._staging_threads.add(this_thread)
        try:
            result = write()
        finally:
            self._staging_threads.discard(this_thread)
        return partial(self._commit_staged, result)

    def _commit_staged(self, result: T) -> T:
        db = self._writer
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise speaking(self._path, error) from error
        finally:
            try:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            finally:
                self._turn.release()
        return result

    def _begin(self, db: sqlite3.Connection) -> None:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_locked(error) or self._busy_timeout_s <= SLICE_S:
                raise
            waited_for(self._path, lambda: db.execute("BEGIN IMMEDIATE"), self._busy_timeout_s - SLICE_S)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query."""
        if self._writing_thread == threading.get_ident():
            try:
                return self._writer.execute(sql, parameters).fetchall()
            except sqlite3.OperationalError as error:
                self._refuse_undecodable(self._writer, sql, parameters, error)
                raise
        self._refuse_closed()
        try:
            # Two steps of one bytecode each, so two threads never get the same connection.
            db = self._idle.pop()
        except IndexError:
            db = self._connect()
        try:
            return db.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError as error:
            self._refuse_undecodable(db, sql, parameters, error)
            # Readers do not wait, unless the file is being recovered, or another process has locked it exclusively.
            if not is_locked(error) or self._busy_timeout_s <= SLICE_S:
                raise speaking(self._path, error) from error
            return self._rows_patiently(db, sql, parameters)
        except sqlite3.Error as error:
            raise speaking(self._path, error) from error
        finally:
            self._idle.append(db)
            if self._closed:
                self._close_idle()

    def read(self, what: str, sql: str, parameters: Sequence[Any], take: Callable[[Any], T]) -> list[T]:
        """Return the result of `take` for all rows of a query, whose first column is their key.

        Raises StoreCorrupt for a row that cannot be decoded; `what` names the rows.
        """
        return taken(str(self._path), what, self.rows(sql, parameters), take, itemgetter(0))

    def _refuse_undecodable(
        self, db: sqlite3.Connection, sql: str, parameters: Sequence[Any], error: sqlite3.OperationalError
    ) -> None:
        """Raise StoreCorrupt, with table and key, when the error is about a text that is not UTF-8."""
        if not is_undecodable(error):
            return
        db.text_factory = _text_or_bytes
        try:
            rows = db.execute(sql, parameters).fetchall()
        finally:
            db.text_factory = str
        row = next((row for row in rows if any(isinstance(value, _Undecodable) for value in row)), ("",))
        table = _TABLE.search(sql)
        raise damaged(str(self._path), table[1] if table else "a row", row[0], error) from error

    def _rows_patiently(self, db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Any]:
        try:
            return waited_for(
                self._path, lambda: db.execute(sql, parameters).fetchall(), self._busy_timeout_s - SLICE_S
            )
        except sqlite3.Error as error:
            raise speaking(self._path, error) from error

    def close(self) -> None:
        """Close the file, after the running writer; running readers close their connections when they are done."""
        with self._turn:
            self._closed = True
            self._close_idle()
            # The last connection to close folds the write-ahead log into the file.
            self._writer.close()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self._path, self._busy_timeout_s)
        except sqlite3.Error as error:
            raise speaking(self._path, error) from error

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(path=str(self._path), reason="it has been closed")
