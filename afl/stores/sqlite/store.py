"""The store in a SQLite file: durable, for one machine, shared by threads and by processes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import AbstractContextManager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TypeVar, cast

from afl.core.clock import Clock, SystemClock
from afl.core.probes import Probe, no_probe
from afl.engine.errors import ConcurrencyError, StoreCorrupt, WorkflowConflict
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import Batch, OpenRun, Position, StepDocument, StoredStep, WorkflowRow
from afl.engine.versions import VERSIONS
from afl.stores.damaged_rows import damaged, taken
from afl.stores.documents import DAMAGE, decode_step, decode_workflow, encode_value, with_counters
from afl.stores.entity_documents import decode_entity, encode_entity
from afl.stores.public.leases import claimed_task
from afl.stores.public.store import ENTITY_TABLES, RUNNING_TASK_INDEX, KeptStep, PublicRows, PublicStore
from afl.stores.public.store_checks import check_changes, check_keys, check_values
from afl.stores.public.tasks import ended_task
from afl.stores.public.views import StepNotes
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.history import SqliteHistory
from afl.stores.sqlite.lists import SqliteLists
from afl.stores.sqlite.more_rows import MoreRows
from afl.stores.sqlite.parked import SqliteParked
from afl.stores.sqlite.rows import (
    CHANGE_STEP,
    COUNT_WORKFLOW,
    INSERT_PROGRAM,
    INSERT_WORKFLOW,
    REPLACE_WORKFLOW,
    SELECT_ANNOTATIONS,
    SELECT_DOCUMENTS_OF,
    SELECT_OLDEST_PENDING,
    SELECT_PENDING_NAMES,
    SELECT_PROGRAM,
    SELECT_RUNNING_TASKS,
    SELECT_STEP,
    SELECT_STEPS_OF,
    SELECT_WORKFLOW,
    TURN_WORKFLOW,
    UPDATE_WORKFLOW,
    UPSERT_ENTITY,
    UPSERT_INPUTS,
    UPSERT_PARKED,
    UPSERT_PUBLIC_STEP,
    UPSERT_STEP,
    ChangeRows,
    Row,
    append_outbox,
    by_number,
    column_value,
    first_text,
    in_order,
    move_position,
    program_content,
    public_step_row,
    step_row,
    steps_of,
    stored_position,
    workflow_update,
)
from afl.stores.sqlite.schedules import SqliteSchedules
from afl.stores.sqlite.schema import open_store_file
from afl.stores.sqlite.stored_runs import open_run_of, run_of
from afl.stores.sqlite.timers import SqliteTimers, write_timers
from afl.stores.sqlite.upkeep import SqliteUpkeep, drop_executions
from afl.stores.sqlite.visibility import SqliteVisibility

E = TypeVar("E")


class SqliteStore(
    SqliteParked, SqliteTimers, SqliteHistory, SqliteSchedules, SqliteLists, SqliteVisibility, SqliteUpkeep, PublicStore
):
    """A store in one file.

    Commits are durable when they return (write-ahead log, synchronous FULL). Any number of threads may read while one
    writes; several processes may open the file. Writers wait for each other up to `busy_timeout_s`, and the later of
    two writers of a workflow gets a conflict. `prefix` is the topic prefix that the store belongs to.

    Opening raises StoreUnavailable, StoreCorrupt, ForeignStore; each names the path. Any call may raise
    StoreUnavailable (disk full, held by another process for too long) and StoreCorrupt.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        prefix: str = "afl.",
        create: bool = True,
        clock: Clock | None = None,
        *,
        busy_timeout_s: float = 30.0,
        probe: Probe = no_probe,
    ) -> None:
        self._path = Path(path)
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._probe = probe
        writer = open_store_file(self._path, prefix, create=create, busy_timeout_s=busy_timeout_s)
        self._file = Connections(self._path, writer, busy_timeout_s)

    # The interface for the engine.

    def commit_batch(self, batch: Batch) -> int:
        """Write all of the batch in one transaction; see `Store`. In this order:
          1. encode everything: a value that cannot be stored fails before a transaction is open, and other writers wait
             only for the file's work,
          2. begin, write the workflows' rows and move the positions, each by comparing,
          3. write the other rows,
          4. commit: the log is on the disk when this returns.

        A crash before the end of 4 leaves nothing of the batch, one after it everything.
        """
        first_sequence = self._write(batch)
        self._probe("store.committed")
        return first_sequence

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        """Do 1 to 3 of `commit_batch`, and return what does 4: it waits for the disk, and nothing else."""
        commit = self._file.staged(partial(self._write, batch))

        def finish() -> int:
            first_sequence = commit()
            self._probe("store.committed")
            return first_sequence

        return finish

    def _write(self, batch: Batch) -> int:
        if not batch.values_checked:
            check_values(batch)
        check_changes(batch.changes)
        check_keys(batch)
        rows = ChangeRows(batch)
        # Most commits of a run that is driven here are one iteration's steps.
        more = None if batch.has_changes_only else MoreRows(batch)
        with self._file.writing() as db:
            if not (self._write_workflows(db, batch, rows) and (more is None or more.compare(db))):
                # Our own rows hide the other writers' ones: read the conflicts after the rollback.
                db.execute("ROLLBACK")
                raise WorkflowConflict(workflow_ids=self._losers(batch))
            for move in batch.positions:
                move_position(db, move)
            self._probe("store.compared")
            if rows.emptied:
                drop_executions(db, rows.emptied)
            if rows.inputs:
                db.executemany(UPSERT_INPUTS, rows.inputs)
            if rows.steps:
                db.executemany(UPSERT_STEP, rows.steps)
            self._change_steps(db, rows.step_changes)
            if rows.elsewhere:
                db.executemany(UPSERT_PUBLIC_STEP, rows.elsewhere)
            first_sequence = 0 if more is None else self._write_more(db, batch, more)
            self._probe("store.written")
        return first_sequence

    def _write_more(self, db: sqlite3.Connection, batch: Batch, more: MoreRows) -> int:
        """Write what is neither a workflow nor a step; return the number of the first outbox record."""
        for published in batch.published:
            db.execute("DELETE FROM outbox WHERE sequence BETWEEN ? AND ?", published)
        db.executemany(UPSERT_PARKED, more.parked)
        for parked_id in batch.unparked:
            db.execute("DELETE FROM parked WHERE id = ?", (key_of(parked_id),))
        write_timers(db, batch)
        more.history.write_changes(db)
        self._write_tasks(db, batch.tasks)
        for ending in batch.task_ends:
            task = self._get(TaskDefinition, ending.task_id)
            if task is not None and (ended := ended_task(task, ending, batch.now_ms)) is not None:
                self._write_entity(db, ended)
        for log in batch.logs:
            self._write_entity(db, log)
        for fingerprint, program in batch.programs.items():
            db.execute(INSERT_PROGRAM, (fingerprint, program, VERSIONS, batch.annotations.get(fingerprint)))
        return append_outbox(db, more.outbox)

    def _write_workflows(self, db: sqlite3.Connection, batch: Batch, rows: ChangeRows) -> bool:
        """Write the workflows' rows; return False when one of them, or of the confirms, is not as expected."""
        written = 0
        for statement, values in (
            (COUNT_WORKFLOW, rows.counted),
            (TURN_WORKFLOW, rows.turned),
            (UPDATE_WORKFLOW, rows.changed),
            (INSERT_WORKFLOW, rows.new),
            (REPLACE_WORKFLOW, rows.replaced),
        ):
            if values:
                written += db.executemany(statement, values).rowcount
        return written == len(batch.changes) and self._confirmed(batch)

    def _change_steps(self, db: sqlite3.Connection, changes: Sequence[Row]) -> None:
        if changes and db.executemany(CHANGE_STEP, changes).rowcount != len(changes):
            raise StoreCorrupt(path=str(self._path), reason=f"of {len(changes)} steps to change one is missing")

    def _confirmed(self, batch: Batch) -> bool:
        # A workflow that the batch itself changes was compared by that change, if both expect the same revision.
        if not batch.confirms:
            return True
        expected = {change.workflow_id: change.expected_revision for change in batch.changes}
        others = [workflow_id for workflow_id in batch.confirms if workflow_id not in expected]
        found = {**self.revisions(others), **expected}
        return all(found.get(workflow_id, 0) == revision for workflow_id, revision in batch.confirms.items())

    def _losers(self, batch: Batch) -> tuple[str, ...]:
        expected = [(change.workflow_id, change.expected_revision) for change in batch.changes]
        expected += batch.confirms.items()
        found = self.revisions({workflow_id for workflow_id, _ in expected})
        lost = [workflow_id for workflow_id, revision in expected if found.get(workflow_id, 0) != revision]
        lost += self._lost_histories(batch.history) + self._lost_schedules(batch.schedules)
        return tuple(dict.fromkeys(lost))

    def _write_tasks(self, db: sqlite3.Connection, tasks: Iterable[TaskDefinition]) -> None:
        # Tasks that free a step come first: the index is checked row by row.
        for task in sorted(tasks, key=lambda task: task.state == TaskState.RUNNING):
            try:
                self._write_entity(db, task)
            except sqlite3.IntegrityError as error:
                raise ConcurrencyError(
                    step_id=task.step_id,
                    message=f"task {task.uuid} can't run while another task of the step does ({RUNNING_TASK_INDEX})",
                ) from error

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        """Return the workflow's row."""
        rows = self._file.rows(f"{SELECT_WORKFLOW} WHERE id = ?", (key_of(workflow_id),))
        return self._workflow(rows[0]) if rows else None

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        """Return the workflow's steps in order of creation; see `Store`."""
        documents = []
        step_id: str | bytes = ""
        try:
            wanted = (*steps_of(workflow_id, newer_than or -1), None if state is None else key_of(state))
            for step_id, revision, its_state, content, change, _ in self._file.rows(SELECT_DOCUMENTS_OF, wanted):
                document = decode_step(text_of(step_id), revision, text_of(its_state), content, change)
                if document.workflow_id == workflow_id:
                    documents.append(document)
        except DAMAGE as error:
            raise damaged(str(self._path), "step", step_id, error) from error
        documents.sort(key=by_number)
        return documents

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        """Return the workflow's steps, the complete ones undecoded; see `Store`."""
        return run_of(self._file, self._path, workflow_id)

    def load_open(self, workflow_id: str) -> OpenRun:
        """Return the workflow's steps that are not complete; see `Store`."""
        return open_run_of(self._file, self._path, workflow_id)

    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the current revision of each workflow; unknown ones are left out."""
        wanted = set(workflow_ids)
        plain = [workflow_id for workflow_id in wanted if workflow_id.isascii() and workflow_id.isprintable()]
        found = self._file.rows(
            "SELECT id, revision FROM workflow WHERE id IN (SELECT value FROM json_each(?))",
            (encode_value(plain).decode(),),
        )
        # SQLite's JSON cannot hold some ids (NUL, lone surrogates): these are looked up one by one.
        for workflow_id in wanted.difference(plain):
            found += self._file.rows("SELECT id, revision FROM workflow WHERE id = ?", (key_of(workflow_id),))
        return dict(taken(str(self._path), "workflow", found, lambda row: (text_of(row[0]), row[1]), itemgetter(0)))

    def load_program(self, fingerprint: str) -> bytes | None:
        """Return a compiled program."""
        rows = self._file.rows(SELECT_PROGRAM, (key_of(fingerprint),))
        try:
            return program_content(rows[0]) if rows else None
        except ValueError as error:
            raise damaged(str(self._path), "program", fingerprint, error) from error

    def load_annotations(self, fingerprint: str) -> bytes | None:
        """Return the annotations beside a compiled program's text."""
        rows = self._file.rows(SELECT_ANNOTATIONS, (key_of(fingerprint),))
        # They are optional: a value that is not a blob is treated as missing.
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None

    def positions(self) -> dict[Position, int]:
        """Return every position with its next offset."""
        query = "SELECT topic, partition, cluster_id, topic_id, next_offset FROM position"
        return dict(self._file.read("position", query, (), stored_position))

    def prefix(self) -> str:
        """Return the topic prefix that this store belongs to."""
        return self._prefix

    def close(self) -> None:
        """Close the file. Later calls raise StoreUnavailable."""
        self._file.close()

    # The base of the public interface.

    def step_count(self) -> int:
        """Return the number of steps."""
        return cast(int, self._file.rows("SELECT count(*) FROM step")[0][0])

    def _exclusive(self) -> AbstractContextManager[object]:
        return self._file.writing()

    def _find_step(self, step_id: str) -> KeptStep | None:
        rows = self._file.rows(f"{SELECT_STEP} WHERE s.id = ?", (key_of(step_id),))
        return self._kept(rows[0]) if rows else None

    def _steps_of(self, workflow_id: str) -> list[KeptStep]:
        rows = self._file.rows(SELECT_STEPS_OF, steps_of(workflow_id))
        return in_order(kept for kept in map(self._kept, rows) if kept.document.workflow_id == workflow_id)

    def _any_step_of(self, workflow_id: str) -> KeptStep | None:
        rows = self._file.rows(f"{SELECT_STEPS_OF} LIMIT 1", steps_of(workflow_id))
        return self._kept(rows[0]) if rows else None

    def _steps_near(self, related_id: str) -> Iterable[KeptStep]:
        # Blocks and containers are usually steps of the same workflow; steps saved by hand may name anything.
        workflow_id, mark, _ = related_id.partition(":")
        if not mark or not self.revisions([workflow_id]):
            return self._all_steps()
        rows = self._file.rows(
            f"{SELECT_STEP} WHERE s.id IN (SELECT id FROM public_step WHERE workflow_id <> ?)", (key_of(workflow_id),)
        )
        return self._steps_of(workflow_id) + in_order(map(self._kept, rows))

    def _all_steps(self, *, state: str | None = None) -> Iterable[KeptStep]:
        where, values = ("", ()) if state is None else (" WHERE s.state = ?", (key_of(state),))
        return in_order(map(self._kept, self._file.rows(SELECT_STEP + where, values)))

    def _next_number(self, workflow_id: str) -> int:
        rows = self._file.rows("SELECT max(number) FROM public_step WHERE workflow_id = ?", (key_of(workflow_id),))
        return 0 if rows[0][0] is None else cast(int, rows[0][0]) + 1

    def _waiting_keys(self, key: bytes | None = None) -> set[bytes]:
        rows = self._file.rows("SELECT DISTINCT key FROM outbox WHERE ?1 IS NULL OR key = ?1", (key,))
        return {row[0] for row in rows if row[0] is not None}

    def _apply(self, rows: PublicRows) -> None:
        with self._file.writing() as db:
            db.executemany(UPDATE_WORKFLOW, [workflow_update(row, row.revision - 1) for row in rows.workflows.values()])
            db.executemany(UPSERT_STEP, [step_row(kept.document) for kept in rows.steps.values()])
            db.executemany(
                UPSERT_PUBLIC_STEP,
                [public_step_row(kept.document, kept.notes) for kept in rows.steps.values() if kept.notes is not None],
            )
            for event in rows.events:
                self._write_entity(db, event)
            self._write_tasks(db, rows.tasks)

    def _put(self, entity: object) -> None:
        with self._file.writing() as db:
            if isinstance(entity, TaskDefinition):
                self._write_tasks(db, [entity])
            else:
                self._write_entity(db, entity)

    def _write_entity(self, db: sqlite3.Connection, entity: object) -> None:
        table = ENTITY_TABLES[type(entity)]
        db.execute(
            UPSERT_ENTITY[type(entity)],
            (*(column_value(getattr(entity, name)) for name in (table.key, *table.columns)), encode_entity(entity)),
        )

    def _get(self, kind: type[E], key: str) -> E | None:
        found = self._select_where(kind, "key = ?", (key_of(key),))
        return found[0] if found else None

    def _select(self, kind: type[E], **equal: str) -> list[E]:
        condition = " AND ".join(f"{name} = ?" for name in equal) or "TRUE"
        return self._select_where(kind, condition, tuple(map(key_of, equal.values())))

    def _select_where(self, kind: type[E], condition: str, values: Sequence[object]) -> list[E]:
        rows = self._file.rows(
            f"SELECT document FROM {ENTITY_TABLES[kind].name} WHERE {condition} ORDER BY sequence", values
        )
        return [self._entity(kind, row[0]) for row in rows]

    def _remove(self, kind: type, key: str) -> bool:
        with self._file.writing() as db:
            return db.execute(f"DELETE FROM {ENTITY_TABLES[kind].name} WHERE key = ?", (key_of(key),)).rowcount > 0

    def _claim(
        self, task_names: Sequence[str], task_list: str, now_ms: int, owner: str, lease_expires: int, but: Set[str]
    ) -> TaskDefinition | None:
        # Looked for without the write lock first: pollers ask far more often than there is work.
        if self._oldest_pending(task_names, task_list, but) is None:
            return None
        with self._file.writing() as db:
            task = self._oldest_pending(task_names, task_list, but)
            if task is not None:
                task = claimed_task(task, owner, now_ms, lease_expires)
                self._write_entity(db, task)
            return task

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """Return the names of the unclaimed tasks of a list."""
        return self._file.read("tasks", SELECT_PENDING_NAMES, (key_of(task_list),), first_text)

    def _expired_tasks(self, now_ms: int) -> list[TaskDefinition]:
        running = [self._entity(TaskDefinition, row[0]) for row in self._file.rows(SELECT_RUNNING_TASKS)]
        return [task for task in running if 0 < task.lease_expires <= now_ms]

    def _oldest_pending(self, task_names: Sequence[str], task_list: str, but: Set[str]) -> TaskDefinition | None:
        found, excepted = [], json.dumps(list(but))
        for name in set(task_names):
            found += self._file.rows(SELECT_OLDEST_PENDING, (key_of(task_list), key_of(name), excepted))
        return self._entity(TaskDefinition, min(found)[2]) if found else None

    # Rows to objects.

    def _kept(self, row: Row) -> KeptStep:
        step_id, revision, state, content, change, notes = row
        try:
            document = decode_step(text_of(step_id), revision, text_of(state), content, change)
            return KeptStep(document, None if notes is None else StepNotes.decode(notes))
        except DAMAGE as error:
            raise damaged(str(self._path), "step", step_id, error) from error

    def _workflow(self, row: Row) -> WorkflowRow:
        workflow_id, revision, name, status, runnable, created_at_ms, content, inputs, *moved = row
        try:
            whole = decode_workflow(
                workflow_id=text_of(workflow_id),
                revision=revision,
                name=text_of(name),
                status=status,
                runnable=bool(runnable),
                created_at_ms=created_at_ms,
                content=content,
                inputs=inputs,
            )
            return with_counters(whole, moved)
        except DAMAGE as error:
            raise damaged(str(self._path), "workflow", workflow_id, error) from error

    def _entity(self, kind: type[E], content: bytes) -> E:
        try:
            return decode_entity(kind, content)
        except DAMAGE as error:
            raise StoreCorrupt(
                path=str(self._path), reason=f"an entry of {ENTITY_TABLES[kind].name}: {error}"
            ) from error
