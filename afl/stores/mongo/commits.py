"""Atomic commits of several documents in MongoDB: by a transaction, or by a commit document."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import bson
from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from afl.core.probes import Probe
from afl.core.text.exception_text import exception_text
from afl.engine.errors import CommitTooLarge, StoreUnavailable
from afl.stores.mongo.command_forms import in_transaction, of_commit
from afl.stores.mongo.connection import BulkRefused, Connection
from afl.stores.mongo.documents import STORE, WORKFLOWS, Document
from afl.stores.mongo.lock import Deadline
from afl.stores.mongo.refusals import refuse
from afl.stores.mongo.writes import (
    Command,
    Ending,
    Operation,
    Put,
    Removal,
    Writes,
    commands,
)
from afl.stores.stored_text import key_of

#: Called with the name of a numbered step that is done; a test crashes there.
#: How long a commit waits for others. A server keeps the transaction of a process that died for 60 s.
COMMIT_TIMEOUT_S: Final = 90.0
#: The time after which any process applies a commit document that its writer has not applied.
LEASE_MS: Final = 5_000

#: Larger commits are written in parts beside the commit document: a document holds 16 MiB.
_MAX_COMMIT_BYTES: Final = 12 * 1024 * 1024
_PARTS: Final = "commit_parts"
#: The server's code for a transaction that does not fit in its cache.
_TOO_LARGE_FOR_CACHE: Final = 388


class Commits(Protocol):
    """Writer of commits, each atomic."""

    def write(self, writes: Writes, first_sequence: int) -> None:
        """Write all of it. Raises WorkflowConflict, PositionLost or ConcurrencyError; then nothing was written."""

    def settle(self) -> None:
        """Finish interrupted commits; called before each read, at nearly no cost."""


class TransactionCommits:
    """Commits as transactions, on a replica set or a cluster. In this order:
      1. begin, and write everything: each workflow and position only if it is as expected,
      2. commit: a majority has it on disk when this returns.

    A crash before the end of 2 leaves nothing: the server forgets the transaction, and frees its documents after its
    transactionLifetimeLimitSeconds at the latest. When two transactions write one document, the server refuses the
    second, which is tried again from its beginning.
    """

    def __init__(self, connection: Connection, probe: Probe, timeout_s: float) -> None:
        self._connection = connection
        self._probe = probe
        self._timeout_s = timeout_s

    def settle(self) -> None:
        """Do nothing: an interrupted transaction leaves nothing behind."""

    def write(self, writes: Writes, first_sequence: int) -> None:
        """Write all of it, in one transaction. Raises CommitTooLarge when the server cannot hold one of its size."""
        operations = writes.operations(first_sequence)
        deadline = Deadline(self._connection.name, self._timeout_s)
        while True:
            try:
                with self._connection.transaction() as session:
                    refused = not self._write(writes, operations, session)
                    if not refused:
                        self._commit(session, deadline)
            except PyMongoError as error:
                # The search for a server has already waited long; another try would only repeat that.
                is_away = isinstance(error, ServerSelectionTimeoutError)
                if isinstance(error, OperationFailure) and error.code == _TOO_LARGE_FOR_CACHE:
                    reason = exception_text(error).partition(", full error:")[0]
                    raise CommitTooLarge(path=self._connection.name, reason=reason) from error
                if is_away or not error.has_error_label("TransientTransactionError"):
                    raise
                is_lost = isinstance(error, ConnectionFailure)
                deadline.pause(str(error) if is_lost else "other writers are always faster", error)
                continue
            if not refused:
                self._probe("store.committed")
                return
            # Read outside the transaction, which saw an older state.
            refuse(self._connection, writes)
            deadline.pause("the conflict that stopped the commit is gone at each check")

    def _write(self, writes: Writes, operations: Sequence[Operation], session: ClientSession) -> bool:
        absent = [key_of(workflow_id) for workflow_id in writes.absent]
        if absent and self._connection.collection(WORKFLOWS).find_one({"_id": {"$in": absent}}, session=session):
            return False
        for part in commands(operations):
            names, sent = _named(part, in_transaction)
            try:
                found = self._connection.bulk_write(sent, names, session)
            except BulkRefused:
                return False
            # Each update finds or creates one document, or finds an unexpected state.
            if found != sum("update" in command for command in sent):
                return False
        for part in commands(writes.endings):
            names, sent = _named(part, in_transaction)
            self._connection.bulk_write(sent, names, session)
        self._probe("store.written")
        return True

    def _commit(self, session: ClientSession, deadline: Deadline) -> None:
        while True:
            try:
                return session.commit_transaction()
            except PyMongoError as error:
                # The answer was lost, not the commit: repeating the command only returns the outcome.
                if not error.has_error_label("UnknownTransactionCommitResult"):
                    raise
                deadline.pause("it is unknown whether a commit was written", error)


class DocumentCommits:
    """Commits on a standalone server, which writes one document at a time. In this order:
      1. read the number of the last commit; wait for a commit that is not applied yet, or finish it,
      2. compare the revisions and positions that the commit relies on,
      3. write the commit document, if that number is still the last,
      4. apply it, the workflows after their steps, and tasks after them,
      5. delete the document.

    A crash before 3 is done leaves nothing (of a large commit some parts, which a later large one drops). After 3 the
    commit is valid: the next process that opens the store or commits applies it once its lease has expired. Applying it
    twice is the same as once: each document has the number of the last commit that wrote it, and what a commit deletes
    was written before it; the process that finishes first deletes the commit document. A reader that starts after 4
    began and finds a workflow's row new, also finds all of its steps new; one that finds it old cannot commit on it. A
    process that only reads checks once in the length of a lease for an abandoned commit, and applies it.
    """

    def __init__(self, connection: Connection, probe: Probe, timeout_s: float, lease_ms: int = LEASE_MS) -> None:
        self._connection = connection
        self._probe = probe
        self._timeout_s = timeout_s
        self._lease_ms = lease_ms
        #: The writer in a commit document: this object.
        self._writer = uuid.uuid4().hex
        self._turn = threading.RLock()
        #: The number of the last commit that is known to be applied.
        self._last: int | None = None
        self._unfinished = False
        self._next_look_s = time.monotonic() + lease_ms / 1000
        #: The pending commit at the last check, and the progress of its writer.
        self._sign: tuple[object, ...] | None = None

    def settle(self) -> None:
        """Finish this store's interrupted commit, and at intervals also an abandoned one of another writer."""
        if self._unfinished:
            with self._turn:
                self._await_applied()
        elif time.monotonic() >= self._next_look_s and self._turn.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._turn.release()

    def _look(self) -> None:
        """Apply a commit whose writer has made no progress since the last check; never waits."""
        before, self._sign = self._sign, None
        head = self._connection.collection(STORE).find_one({"_id": "head"})
        self._next_look_s = time.monotonic() + self._lease_ms / 1000
        if head is None or head["pending"] is None:
            return
        self._sign = _sign_of(head)
        if self._sign == before and self._take_over(head) and self._apply(self._read(head), head["number"]):
            self._finish(head["number"])

    def open(self) -> None:
        """Finish an abandoned commit, or wait for the writer that is applying it."""
        with self._turn:
            self._await_applied()

    def write(self, writes: Writes, first_sequence: int) -> None:
        """Write all of it, by a commit document."""
        operations = writes.operations(first_sequence, compared_last=True)
        deadline = Deadline(self._connection.name, self._timeout_s)
        with self._turn:
            while True:
                if self._last is None or self._unfinished:
                    self._await_applied()
                refuse(self._connection, writes)
                self._probe("store.compared")
                number = (self._last or 0) + 1
                began_s = time.monotonic()
                if self._record(operations, number):
                    break
                self._last = None
                deadline.pause("other writers are always faster")
            self._probe("store.written")
            is_applied = self._apply(operations, number, began_s)
            self._probe("store.applied")
            if is_applied:
                self._finish(number)
            else:
                self._await_applied()
        self._probe("store.committed")

    def _record(self, operations: Sequence[Operation], number: int) -> bool:
        """Write the commit document; return False when another commit has that number."""
        content = bson.encode({"operations": [_stored(operation) for operation in operations]})
        pending: dict[str, object] = {"writer": self._writer, "parts": 0, "content": content}
        if len(content) > _MAX_COMMIT_BYTES:
            pieces = [content[at : at + _MAX_COMMIT_BYTES] for at in range(0, len(content), _MAX_COMMIT_BYTES)]
            parts = self._connection.collection(_PARTS)
            parts.delete_many({"number": {"$lt": number}})
            for place, piece in enumerate(pieces):
                part_id = f"{number}/{self._writer}/{place}"
                parts.replace_one({"_id": part_id}, {"number": number, "content": piece}, upsert=True)
            pending = {"writer": self._writer, "parts": len(pieces), "content": b""}
        # After a crash behind the next call the commit is valid.
        self._unfinished = True
        written = self._connection.collection(STORE).update_one(
            {"_id": "head", "number": number - 1, "pending": None},
            {"$set": {"number": number, "pending": {**pending, "first_writer": self._writer}},
             "$inc": {"beats": 1}},
        )  # fmt: skip
        self._unfinished = written.modified_count == 1
        return self._unfinished

    def _await_applied(self) -> None:
        """Return when no commit is pending. Our own is finished now, another writer's when its lease is over."""
        deadline = Deadline(self._connection.name, self._timeout_s)
        seen: tuple[object, ...] | None = None
        seen_at_s = 0.0
        while True:
            # A server that is busy with the commit answers late: that time does not count as silence.
            asked_s = time.monotonic()
            head = self._connection.collection(STORE).find_one({"_id": "head"})
            if head is None or head["pending"] is None:
                self._last = 0 if head is None else head["number"]
                self._unfinished = False
                return
            sign = _sign_of(head)
            if sign != seen:
                seen, seen_at_s = sign, time.monotonic()
            # Measured by this process's clock alone: the progress that has not changed for this long.
            is_over = (asked_s - seen_at_s) * 1000 >= self._lease_ms
            if head["pending"]["writer"] == self._writer or (is_over and self._take_over(head)):
                if self._apply(self._read(head), head["number"]):
                    self._finish(head["number"])
            else:
                deadline.pause("another process does not finish its commit")

    def _take_over(self, head: Document) -> bool:
        taken = self._connection.collection(STORE).update_one(
            {
                "_id": "head",
                "number": head["number"],
                "pending.writer": head["pending"]["writer"],
                "beats": head["beats"],
            },
            {"$set": {"pending.writer": self._writer}, "$inc": {"beats": 1}},
        )
        return taken.modified_count == 1

    def _read(self, head: Document) -> list[Operation]:
        pending = head["pending"]
        content: bytes = pending["content"]
        for place in range(pending["parts"]):
            part_id = f"{head['number']}/{pending['first_writer']}/{place}"
            part = self._connection.collection(_PARTS).find_one({"_id": part_id})
            if part is None:
                raise StoreUnavailable(path=self._connection.name, reason=f"part {part_id} of a commit is missing")
            content += part["content"]
        return [_operation(stored) for stored in bson.decode(content)["operations"]]

    def _apply(self, operations: Sequence[Operation], number: int, renewed_at_s: float | None = None) -> bool:
        """Apply a commit, and record progress. Returns False when another process applies it, or was faster.

        A writer that was paused since `renewed_at_s` asks first: a later commit may have deleted what this one makes.
        """
        if renewed_at_s is None:
            renewed_at_s = time.monotonic()
        for part in commands(operations):
            if (time.monotonic() - renewed_at_s) * 1000 > self._lease_ms / 3:
                renewed_at_s = time.monotonic()
                renewed = self._connection.collection(STORE).update_one(
                    {"_id": "head", "number": number, "pending.writer": self._writer}, {"$inc": {"beats": 1}}
                )
                if renewed.modified_count != 1:
                    return False
            self._send(part, number)
        return True

    def _send(self, part: Sequence[Operation], number: int) -> None:
        names, sent = _named(part, lambda operation, namespace: of_commit(operation, namespace, number))
        while sent:
            try:
                self._connection.bulk_write(sent, names)
                return
            except BulkRefused as refused:
                # Another task of the step was claimed since the comparison: this one does not run.
                del sent[: refused.index + 1]

    def _finish(self, number: int) -> None:
        # Also a commit that another process has taken over meanwhile is applied completely. Two processes that took
        # turns with a commit that takes longer than a lease would never finish it.
        self._connection.collection(STORE).update_one({"_id": "head", "number": number}, {"$set": {"pending": None}})
        self._last, self._unfinished = number, False


def _sign_of(head: Document) -> tuple[object, ...]:
    """Return a mark that changes whenever the pending commit's writer makes progress, or another takes it over."""
    return head["number"], head["pending"]["writer"], head["beats"]


def _named(
    operations: Sequence[Operation], form: Callable[[Operation, int], Command]
) -> tuple[list[str], list[Command]]:
    """Return the collections of operations, and the operations with each collection replaced by its position."""
    places: dict[str, int] = {}
    sent = [form(operation, places.setdefault(operation.collection, len(places))) for operation in operations]
    return list(places), sent


def _stored(operation: Operation) -> list[object]:
    return list(operation)


def _operation(stored: list[Any]) -> Operation:
    kind = next(kind for kind in (Put, Removal, Ending) if len(kind._fields) == len(stored))
    return kind._make(stored)
