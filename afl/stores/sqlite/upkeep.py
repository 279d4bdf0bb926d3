"""Check and purge a SQLite store: read lists in pages by the keys of its tables, and delete rows a slice at a time."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from afl.core.text.printable import printable
from afl.engine.errors import StoreCorrupt
from afl.engine.model.store import ENDED_STATUSES, UNFINISHED_STATUSES, WorkflowRow
from afl.engine.model.store_identity import StoreIdentity, new_store_id, this_host
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone
from afl.engine.model.upkeep import Burial, Created, Ended, Entry, OwnCheck, StepEntry
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.store import ENTITY_TABLES, KeptStep
from afl.stores.public.upkeep import UNREADABLE, PublicUpkeep
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import SELECT_STEPS_OF, SELECT_WORKFLOW, Row, first_text, steps_of

E = TypeVar("E")

#: The most faults that SQLite reports for one damaged file: the first few show what has happened.
_MOST_PROBLEMS: Final = 20
#: Ids in one query; SQLite takes more, but each number of them is a statement of its own.
_IDS_AT_ONCE: Final = 100
#: SQLite's name for files whose free pages can be given back a few at a time.
_INCREMENTAL: Final = 2
#: The free bytes, and the share of the file, from which on space is given back.
_FREE_BYTES: Final = 8 * 1024 * 1024
_FREE_SHARE: Final = 0.25
_SELECT_PAGES: Final = (
    "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_SELECT_ENDED: Final = f"""
SELECT id, created_at_ms FROM workflow
WHERE status IN ({", ".join("?" * len(ENDED_STATUSES))}) AND created_at_ms < ? AND (created_at_ms, id) > (?, ?)
ORDER BY created_at_ms, id LIMIT ?
"""
#: In the order of the other index it would read all that have ended.
_SELECT_UNFINISHED: Final = f"""
SELECT id, created_at_ms FROM workflow INDEXED BY workflow_status
WHERE status IN ({", ".join("?" * len(UNFINISHED_STATUSES))}) AND created_at_ms < ? AND (created_at_ms, id) > (?, ?)
ORDER BY created_at_ms, id LIMIT ?
"""
#: A step's id starts with its workflow's, unless it was saved by hand.
_SELECT_ORPHANS: Final = """
SELECT workflow_id FROM (
    SELECT substr(id, 1, instr(id, ':') - 1) AS workflow_id FROM step WHERE instr(id, ':') > 0
    UNION SELECT workflow_id FROM public_step
    UNION SELECT workflow_id FROM timer
    UNION SELECT workflow_id FROM history WHERE is_pending = 0 OR expires_at_ms = 0)
WHERE NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.id = workflow_id) ORDER BY workflow_id LIMIT ?
"""
#: The rows of one workflow, each with the table that has none where the statement has nothing to do. Keys that begin
#: with a step's id are a range. Parameters: start and end of the range, the workflow's id, and a limit.
_DELETE_ROWS: Final = (
    ("step", "DELETE FROM step WHERE rowid IN (SELECT rowid FROM step WHERE id >= ?1 AND id < ?2 LIMIT ?4)"),
    ("public_step", "DELETE FROM step WHERE id IN (SELECT id FROM public_step WHERE workflow_id = ?3 LIMIT ?4)"),
    ("public_step", "DELETE FROM public_step WHERE id IN (SELECT id FROM public_step WHERE workflow_id = ?3 LIMIT ?4)"),
    ("tasks", "DELETE FROM tasks WHERE sequence IN (SELECT sequence FROM tasks WHERE key >= ?1 AND key < ?2 LIMIT ?4)"),
    ("logs", "DELETE FROM logs WHERE sequence IN (SELECT sequence FROM logs WHERE key >= ?1 AND key < ?2 LIMIT ?4)"),
    ("timer", "DELETE FROM timer WHERE step_id IN (SELECT step_id FROM timer WHERE workflow_id = ?3 LIMIT ?4)"),
    ("history", "DELETE FROM history WHERE sequence IN (SELECT sequence FROM history WHERE workflow_id = ?3 LIMIT ?4)"),
    ("parked", "DELETE FROM parked WHERE sequence IN (SELECT sequence FROM parked WHERE workflow_id = ?3 LIMIT ?4)"),
    (
        ENTITY_TABLES[EventDefinition].name,
        f"DELETE FROM {ENTITY_TABLES[EventDefinition].name} WHERE sequence IN"
        f" (SELECT sequence FROM {ENTITY_TABLES[EventDefinition].name} WHERE workflow_id = ?3 LIMIT ?4)",
    ),
)
#: The row of a workflow that was compared in the same transaction, its inputs, and all steps in its range of keys.
_DELETE_WORKFLOW: Final = "DELETE FROM workflow WHERE id = ?"
_DELETE_INPUTS: Final = "DELETE FROM workflow_inputs WHERE id = ?"
_DELETE_STEPS: Final = "DELETE FROM step WHERE id >= ? AND id < ?"
#: What a workflow's next execution replaces, by the range of its keys and by its id. The same commit ends other tasks.
_DROP_RANGE: Final = (
    "DELETE FROM step WHERE id >= ? AND id < ?",
    "DELETE FROM tasks WHERE key >= ? AND key < ? AND state NOT IN ('pending', 'running')",
    "DELETE FROM logs WHERE key >= ? AND key < ?",
)
_DROP_NAMED: Final = (
    "DELETE FROM step WHERE id IN (SELECT id FROM public_step WHERE workflow_id = ?)",
    "DELETE FROM public_step WHERE workflow_id = ?",
    "DELETE FROM timer WHERE workflow_id = ?",
)


def drop_executions(db: sqlite3.Connection, workflow_ids: Sequence[str]) -> None:
    """Delete what the next executions of workflows replace: steps, timers, and ended tasks and log entries."""
    ranges = [steps_of(workflow_id) for workflow_id in workflow_ids]
    for statement in _DROP_RANGE:
        db.executemany(statement, [(start, end) for start, end, _, _ in ranges])
    for statement in _DROP_NAMED:
        db.executemany(statement, [(key,) for _, _, _, key in ranges])


def _needed(db: sqlite3.Connection, deletions: Sequence[tuple[str, str]]) -> list[str]:
    """Return the statements of deletions whose tables have rows at all: most stores have none in most of them."""
    tables = dict.fromkeys(table for table, _ in deletions)
    query = f"SELECT {', '.join(f'EXISTS(SELECT 1 FROM {table})' for table in tables)}"
    has_rows = dict(zip(tables, db.execute(query).fetchone(), strict=True))
    return [statement for table, statement in deletions if has_rows[table]]


def _delete_small(db: sqlite3.Connection, burials: Sequence[Burial], limit: int) -> set[str]:
    """Delete the rows of buried workflows that have up to `limit` steps together; return those of which none is left.

    All their steps go by one statement for each, which is half of the work of one that keeps to a limit.
    """
    left, small = limit, []
    for burial in burials:
        if burial.steps < left:
            left -= burial.steps
            small.append(burial.tombstone.workflow_id)
    ranges = [steps_of(workflow_id) for workflow_id in small]
    left = limit - db.executemany(_DELETE_STEPS, [(start, end) for start, end, _, _ in ranges]).rowcount
    statements = _needed(db, _DELETE_ROWS[1:])
    done = set()
    for workflow_id, wanted in zip(small, ranges, strict=True):
        if statements and left > 0:
            left -= _delete_rows(db, statements, wanted, left)
        if left > 0:
            done.add(workflow_id)
    return done


def _delete_rows(db: sqlite3.Connection, statements: Sequence[str], wanted: Row, limit: int) -> int:
    """Delete up to `limit` rows of a workflow, whose parameters come from `steps_of`; return how many."""
    start, end, _, key = wanted
    left = limit
    for statement in statements:
        if left:
            left -= db.execute(statement, (start, end, key, left)).rowcount
    return limit - left


class SqliteUpkeep(PublicUpkeep):
    """The part of `SqliteStore` that lists and deletes rows, and gives the store's identity."""

    _file: Connections
    _path: Path

    @abstractmethod
    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]: ...

    @abstractmethod
    def _workflow(self, row: Row) -> WorkflowRow: ...

    @abstractmethod
    def _kept(self, row: Row) -> KeptStep: ...

    @abstractmethod
    def _entity(self, kind: type[E], content: bytes) -> E: ...

    @abstractmethod
    def _write_entity(self, db: sqlite3.Connection, entity: object) -> None: ...

    def identity(self) -> StoreIdentity:
        """Return the identity of this store; see `IdentifiedStore`."""
        (found,) = self._file.read(
            "store", "SELECT id, marks FROM store", (), lambda row: StoreIdentity(row[0], tuple(row[1].split()))
        )
        return found

    def location(self) -> str:
        """Return the location of the store: this machine, and the file's path."""
        return f"{this_host()}:{self._path.resolve()}"

    def add_mark(self, mark: str) -> None:
        """Set a mark; see `IdentifiedStore`."""
        with self._file.writing() as db:
            db.execute("UPDATE store SET marks = ?", (" ".join(self.identity().with_mark(mark).marks),))

    def renew_identity(self) -> StoreIdentity:
        """Give the store a new id; see `IdentifiedStore`."""
        identity = StoreIdentity(new_store_id())
        with self._file.writing() as db:
            db.execute("UPDATE store SET id = ?, marks = ''", (identity.id,))
        return identity

    def workflow_ids(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have a row, in order."""
        query = "SELECT id FROM workflow WHERE id > ? ORDER BY id LIMIT ?"
        return self._file.read("workflow", query, (key_of(after), limit), first_text)

    def check_itself(self) -> OwnCheck:
        """Have SQLite check all pages and indexes of the file."""
        try:
            rows = self._file.rows(f"PRAGMA integrity_check({_MOST_PROBLEMS})")
        except StoreCorrupt as error:
            return OwnCheck(problems=(error.reason,))
        reported = (printable(line) for row in rows for line in str(row[0]).splitlines())
        return OwnCheck(problems=tuple(line for line in reported if line != "ok" and not line.startswith("*** in ")))

    def orphans(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have steps, timers or a history, and no row; see `Upkeep`."""
        return self._file.read("step of workflow", _SELECT_ORPHANS, (limit,), first_text)

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        """Return all steps of a workflow; see `Upkeep`."""
        entries = self._file.read("step", SELECT_STEPS_OF, steps_of(workflow_id), self._step_entry)
        entries.sort(key=lambda entry: -1 if entry.document is None else entry.document.number)
        return [e for e in entries if e.document is None or e.document.workflow_id == workflow_id]

    def _step_entry(self, row: Row) -> StepEntry:
        step_id = text_of(row[0])
        try:
            return StepEntry(step_id, self._kept(row).document)
        except UNREADABLE as error:
            return StepEntry(step_id, None, error)

    def examine(self, kind: type, *, after: str = "", limit: int = 1_000) -> list[Entry]:
        """Return the entities of a kind by their keys."""
        table = ENTITY_TABLES[kind].name
        query = f"SELECT key, document FROM {table} WHERE key > ? ORDER BY key LIMIT ?"
        return self._file.read(
            table, query, (key_of(after), limit), lambda row: self._examined(kind, text_of(row[0]), row[1])
        )

    def _examined(self, kind: type, key: str, content: bytes) -> Entry:
        try:
            return Entry(key, self._entity(kind, content))
        except UNREADABLE as error:
            return Entry(key, None, error)

    def ended_workflows(self, *, created_before_ms: int, after: Ended | None = None, limit: int = 1_000) -> list[Ended]:
        """Return workflows that have ended, in order of creation; see `Upkeep`."""
        at_ms, workflow_id = after or Ended(-1, "")
        wanted = (*sorted(ENDED_STATUSES), created_before_ms, at_ms, key_of(workflow_id), limit)
        return self._file.read("workflow", _SELECT_ENDED, wanted, lambda row: Ended(row[1], text_of(row[0])))

    def unfinished_workflows(
        self, *, created_before_ms: int, after: Created | None = None, limit: int = 1_000
    ) -> list[Created]:
        """Return workflows that have not ended, in order of creation; see `Upkeep`."""
        at_ms, workflow_id = after or Created(-1, "")
        wanted = (*sorted(UNFINISHED_STATUSES), created_before_ms, at_ms, key_of(workflow_id), limit)
        return self._file.read("workflow", _SELECT_UNFINISHED, wanted, lambda row: Created(row[1], text_of(row[0])))

    def load_workflows(self, workflow_ids: Sequence[str]) -> list[WorkflowRow]:
        """Return the rows of these workflows; see `Upkeep`."""
        found: list[Row] = []
        for at in range(0, len(workflow_ids), _IDS_AT_ONCE):
            keys = list(map(key_of, workflow_ids[at : at + _IDS_AT_ONCE]))
            found += self._file.rows(f"{SELECT_WORKFLOW} WHERE id IN ({', '.join('?' * len(keys))})", keys)
        return list(map(self._workflow, found))

    def waiting_keys(self) -> set[bytes]:
        """Return the keys of the records that wait in the outbox."""
        return {row[0] for row in self._file.rows("SELECT key FROM outbox WHERE key IS NOT NULL")}

    def bury(self, burials: Sequence[Burial], *, limit: int) -> list[str]:
        """Replace workflows by tombstones, and delete their other rows; see `Upkeep`.

        All of it is one transaction: a crash before its commit leaves every workflow as it was.
        """
        with self._file.writing() as db:
            # Read inside the transaction: no other writer comes between.
            found = self.revisions([burial.tombstone.workflow_id for burial in burials])
            chosen = [burial for burial in burials if found.get(burial.tombstone.workflow_id) == burial.revision]
            keys = [(key_of(burial.tombstone.workflow_id),) for burial in chosen]
            db.executemany(_DELETE_WORKFLOW, keys)
            db.executemany(_DELETE_INPUTS, keys)
            purged = _delete_small(db, chosen, limit)
            states = {stone.workflow_id: PURGED if stone.workflow_id in purged else PURGING for stone, _, _ in chosen}
            for stone, _, _ in chosen:
                self._write_entity(db, replace(stone, state=states[stone.workflow_id]))
        return [states.get(burial.tombstone.workflow_id, "") for burial in burials]

    def delete_rows(self, workflow_ids: Sequence[str], *, limit: int) -> int:
        """Delete rows of workflows that have no rows of their own any more; see `Upkeep`."""
        left = limit
        with self._file.writing() as db:
            statements = _needed(db, _DELETE_ROWS)
            for workflow_id in workflow_ids:
                wanted = steps_of(workflow_id)
                if left and db.execute("SELECT 1 FROM workflow WHERE id = ?", wanted[-1:]).fetchone() is None:
                    left -= _delete_rows(db, statements, wanted, left)
        return limit - left

    def mark_purged(self, workflow_ids: Sequence[str]) -> None:
        """Set tombstones to state `purged`; see `Upkeep`."""
        with self._file.writing() as db:
            for workflow_id in workflow_ids:
                if (stone := self.tombstone(workflow_id)) is not None:
                    self._write_entity(db, replace(stone, state=PURGED))

    def delete_tombstones(self, workflow_ids: Sequence[str]) -> int:
        """Delete tombstones, in one transaction; return how many there were."""
        statement = f"DELETE FROM {ENTITY_TABLES[Tombstone].name} WHERE key = ?"
        with self._file.writing() as db:
            return db.executemany(statement, [(key_of(workflow_id),) for workflow_id in workflow_ids]).rowcount

    def give_back(self, *, limit: int) -> bool:
        """Give free pages at the end of the file back to the file system, when many are free; see `Upkeep`.

        Pages that are free are used again by the next rows: below a share of the file, all are kept for them. Files
        that were made before this release keep all of them, until `compact` has rewritten the file.
        """
        ((mode,),) = self._file.rows("PRAGMA auto_vacuum")
        if mode != _INCREMENTAL:
            return False
        ((pages, free, page_bytes),) = self._file.rows(_SELECT_PAGES)
        if free * page_bytes < _FREE_BYTES or free < pages * _FREE_SHARE:
            return False
        with self._file.writing() as db:
            # Each row that is fetched is a page.
            db.execute(f"PRAGMA incremental_vacuum({limit})").fetchall()
        return True

    def tombstones(self, *, state: str, purged_before_ms: int | None = None, limit: int = 1_000) -> list[Tombstone]:
        """Return tombstones in a state, the oldest first."""
        rows = self._file.rows(
            f"SELECT document FROM {ENTITY_TABLES[Tombstone].name} WHERE state = ?1"
            " AND (?2 IS NULL OR purged_at_ms < ?2) ORDER BY purged_at_ms, key LIMIT ?3",
            (state, purged_before_ms, limit),
        )
        return [self._entity(Tombstone, row[0]) for row in rows]
