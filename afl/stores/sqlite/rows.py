"""The rows of a SQLite store: the engine's records in its tables, and the statements that read and write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias, cast

from afl.engine.errors import PositionLost
from afl.engine.model.step_rows import BoundStep
from afl.engine.model.store import (
    Batch,
    LiveStep,
    OutboxRecord,
    ParkedRecord,
    Position,
    PositionMove,
    RunningChange,
    StepDocument,
    StoredOutboxRecord,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.states import StepState
from afl.engine.versions import check_versions
from afl.stores.documents import encode_bound, encode_change, encode_live, encode_step, encode_value, encode_workflow
from afl.stores.public.store import ENTITY_TABLES, EntityTable, KeptStep
from afl.stores.public.views import StepNotes
from afl.stores.sqlite.connections import key_of, text_of
from afl.stores.stored_headers import decode_headers, decode_outbox_headers, encode_headers, encode_outbox_headers

#: The key that sorts a workflow's steps by their creation.
by_number: Final = itemgetter(StepDocument._fields.index("number"))

#: Values of one row, in the order of its statement's parameters.
Row: TypeAlias = tuple[Any, ...]

SELECT_WORKFLOW: Final = """
SELECT id, revision, name, status, runnable, created_at_ms, w.document, i.document, w.steps, w.iterations,
    w.updated_at_ms
FROM workflow w JOIN workflow_inputs i USING (id)
"""
INSERT_WORKFLOW: Final = (
    "INSERT OR IGNORE INTO workflow(revision, name, status, runnable, created_at_ms, document, updated_at_ms, id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
#: Name and time of creation stay: an index is written whenever its columns are set, even to the same values.
UPDATE_WORKFLOW: Final = (
    "UPDATE workflow SET revision = ?, status = ?, runnable = ?, document = ?, updated_at_ms = ?,"
    " steps = NULL, iterations = NULL WHERE id = ? AND revision = ?"
)
#: For a workflow that begins anew, and may be another one under the same id.
REPLACE_WORKFLOW: Final = (
    "UPDATE workflow SET revision = ?, name = ?, status = ?, runnable = ?, created_at_ms = ?, document = ?,"
    " updated_at_ms = ?, steps = NULL, iterations = NULL WHERE id = ? AND revision = ?"
)
#: For a workflow that goes on: its document stays, and the columns say what has moved since it was written.
COUNT_WORKFLOW: Final = (
    "UPDATE workflow SET revision = ?, steps = ?, iterations = ?, updated_at_ms = ? WHERE id = ? AND revision = ?"
)
TURN_WORKFLOW: Final = (
    "UPDATE workflow SET revision = ?, steps = ?, iterations = ?, updated_at_ms = ?, status = ?, runnable = ?"
    " WHERE id = ? AND revision = ?"
)
UPSERT_INPUTS: Final = "INSERT OR REPLACE INTO workflow_inputs VALUES (?, ?)"

SELECT_STEP: Final = (
    "SELECT s.id, s.revision, s.state, s.document, s.change, p.notes FROM step s LEFT JOIN public_step p ON p.id = s.id"
)
UPSERT_STEP: Final = (
    "INSERT INTO step(id, revision, state, document) VALUES (?, ?, ?, ?) ON CONFLICT(id) DO UPDATE"
    " SET revision = excluded.revision, state = excluded.state, document = excluded.document, change = NULL"
)
#: For a step whose document the same process has written: that stays.
CHANGE_STEP: Final = "UPDATE step SET revision = ?, state = ?, change = ? WHERE id = ?"
UPSERT_PUBLIC_STEP: Final = (
    "INSERT INTO public_step VALUES (?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET notes = excluded.notes"
)
_SELECT_STEPS_OF: Final = """
SELECT s.id, s.revision, s.state, s.document, s.change, {notes} FROM step s {join}
WHERE s.id >= ?1 AND s.id < ?2 AND s.revision > ?3 {more}
UNION ALL
SELECT s.id, s.revision, s.state, s.document, s.change, p.notes FROM public_step p CROSS JOIN step s ON s.id = p.id
WHERE p.workflow_id = ?4 AND s.revision > ?3 AND NOT (p.id >= ?1 AND p.id < ?2) {more}
"""
#: The steps of a workflow: its range of keys, and the steps with other ids. Parameters from `steps_of`, and a state or
#: null.
SELECT_DOCUMENTS_OF: Final = _SELECT_STEPS_OF.format(notes="NULL", join="", more="AND (?5 IS NULL OR s.state = ?5)")
#: The same with the notes of the public interface, in every state.
SELECT_STEPS_OF: Final = _SELECT_STEPS_OF.format(
    notes="p.notes", join="LEFT JOIN public_step p ON p.id = s.id", more=""
)

SELECT_OUTBOX: Final = """
SELECT sequence, created_at_ms, lane, topic, key, value, headers FROM outbox
WHERE sequence > ?1 AND (?2 IS NULL OR lane = ?2) AND (?3 IS NULL OR created_at_ms < ?3 OR created_at_ms > ?5)
ORDER BY sequence LIMIT ?4
"""
_APPEND_OUTBOX: Final = "INSERT INTO outbox(created_at_ms, lane, topic, key, value, headers) VALUES (?, ?, ?, ?, ?, ?)"

SELECT_PARKED: Final = """
SELECT id, workflow_id, step_id, topic, partition, "offset", key, value, headers, parked_at_ms, expires_at_ms,
    sequence
FROM parked
"""
_INSERT_POSITION: Final = "INSERT OR IGNORE INTO position VALUES (?, ?, ?, ?, ?)"
UPSERT_PARKED: Final = """
INSERT INTO parked(
    id, workflow_id, step_id, topic, partition, "offset", key, value, headers, parked_at_ms, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET
    workflow_id = excluded.workflow_id, step_id = excluded.step_id, topic = excluded.topic,
    partition = excluded.partition, "offset" = excluded."offset", key = excluded.key, value = excluded.value,
    headers = excluded.headers, parked_at_ms = excluded.parked_at_ms, expires_at_ms = excluded.expires_at_ms
"""

#: The oldest claimable task of a list under one name. Parameters: list, name, and ids of workflows whose tasks wait,
#: which ids of steps begin with.
SELECT_OLDEST_PENDING: Final = """
SELECT created, sequence, document FROM tasks t
WHERE state = 'pending' AND task_list_name = ? AND name = ? AND (step_id = '' OR NOT EXISTS (
    SELECT 1 FROM tasks r WHERE r.step_id = t.step_id AND r.state = 'running' AND r.step_id <> ''))
    AND substr(t.step_id, 1, instr(t.step_id, ':') - 1) NOT IN (SELECT value FROM json_each(?))
ORDER BY created, sequence LIMIT 1
"""
#: The names of waiting tasks of a list, each found by one step through the index. Parameter: list.
SELECT_PENDING_NAMES: Final = """
WITH RECURSIVE pending(name) AS (
    SELECT min(name) FROM tasks WHERE state = 'pending' AND task_list_name = ?1
    UNION ALL
    SELECT (SELECT min(name) FROM tasks WHERE state = 'pending' AND task_list_name = ?1 AND name > pending.name)
    FROM pending WHERE pending.name IS NOT NULL)
SELECT name FROM pending WHERE name IS NOT NULL
"""
SELECT_RUNNING_TASKS: Final = "SELECT document FROM tasks INDEXED BY tasks_running WHERE state = 'running'"


#: Written once, except for the annotations: the newest are kept, and equal ones write nothing.
INSERT_PROGRAM: Final = """
INSERT INTO program(fingerprint, content, versions, annotations) VALUES (?, ?, ?, ?)
ON CONFLICT(fingerprint) DO UPDATE SET annotations = excluded.annotations
    WHERE excluded.annotations IS NOT NULL AND excluded.annotations IS NOT program.annotations
"""
SELECT_PROGRAM: Final = "SELECT content, versions FROM program WHERE fingerprint = ?"
SELECT_ANNOTATIONS: Final = "SELECT annotations FROM program WHERE fingerprint = ?"


def _upsert_entity(table: EntityTable) -> str:
    columns = ("key", *table.columns, "document")
    keep = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    return (
        f"INSERT INTO {table.name}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        f" ON CONFLICT(key) DO UPDATE SET {keep}"
    )


#: The statement that writes an entity of each kind.
UPSERT_ENTITY: Final = {kind: _upsert_entity(table) for kind, table in ENTITY_TABLES.items()}


def program_content(row: Row) -> bytes:
    """Return the program of a row of SELECT_PROGRAM. VersionMismatchError for one that a newer release wrote."""
    content, versions = row
    # Rows of the previous format have no versions: their release was the first.
    if versions is not None:
        check_versions(versions)
    return cast(bytes, content)


class ChangeRows:
    """The encoded rows of a batch's workflows and steps."""

    def __init__(self, batch: Batch) -> None:
        self.new: list[Row] = []
        self.changed: list[Row] = []
        #: Of workflows that go on, with the same status and with another one.
        self.counted: list[Row] = []
        self.turned: list[Row] = []
        #: Rows of workflows that begin anew, and the ids of all such: their other rows go.
        self.replaced: list[Row] = []
        self.emptied: list[str] = []
        self.inputs: list[Row] = []
        self.steps: list[Row] = []
        self.step_changes: list[Row] = []
        #: Steps whose ids are outside of their workflow's range of keys.
        self.elsewhere: list[Row] = []
        for change in batch.changes:
            if isinstance(change, RunningChange) and change.is_written:
                self._count(change)
                self._add_steps(change)
                continue
            row = change.workflow
            if change.expected_revision == 0:
                self.new.append(workflow_row(row))
            elif change.replaces:
                self.replaced.append((*workflow_row(row), change.expected_revision))
            else:
                self.changed.append(workflow_update(row, change.expected_revision))
            if change.replaces:
                self.emptied.append(row.id)
            # Inputs never change during an execution, and may be large: the first commit writes them once.
            if change.expected_revision == 0 or row.execution > 1 or change.replaces:
                self.inputs.append((key_of(row.id), encode_value(row.inputs)))
            self._add_steps(change)

    def _count(self, change: RunningChange) -> None:
        moved = (change.revision, change.steps_made, change.iterations, change.updated_at_ms)
        expected = (key_of(change.workflow_id), change.expected_revision)
        if change.keeps_status:
            self.counted.append((*moved, *expected))
        else:
            self.turned.append((*moved, change.status, change.runnable, *expected))

    def _add_steps(self, change: WorkflowChange) -> None:
        start = f"{change.workflow_id}:"
        for step in change.rows:
            if isinstance(step, LiveStep):
                if step.is_written:
                    self.step_changes.append((step.revision, step.state, encode_change(step), _step_key(step.id)))
                else:
                    self.steps.append((_step_key(step.id), step.revision, step.state, encode_live(step)))
            elif isinstance(step, BoundStep):
                step_id = step.id
                self.steps.append((_step_key(step_id), step.revision, StepState.STATEMENT_COMPLETE, encode_bound(step)))
            else:
                self.steps.append(step_row(step))
                if not step.id.startswith(start):
                    self.elsewhere.append(public_step_row(step, None))


def workflow_row(row: WorkflowRow) -> Row:
    """Return the values of INSERT_WORKFLOW."""
    return (
        row.revision,
        key_of(row.name),
        row.status,
        row.runnable,
        row.created_at_ms,
        encode_workflow(row),
        row.updated_at_ms,
        key_of(row.id),
    )


def workflow_update(row: WorkflowRow, expected_revision: int) -> Row:
    """Return the values of UPDATE_WORKFLOW."""
    key = key_of(row.id)
    return row.revision, row.status, row.runnable, encode_workflow(row), row.updated_at_ms, key, expected_revision


def step_row(document: StepDocument) -> Row:
    """Return the values of UPSERT_STEP."""
    return _step_key(document.id), document.revision, document.state, encode_step(document)


def _step_key(step_id: str) -> str | bytes:
    return step_id if step_id.isascii() else key_of(step_id)


def public_step_row(document: StepDocument, notes: StepNotes | None) -> Row:
    """Return the values of UPSERT_PUBLIC_STEP."""
    content = None if notes is None else encode_value(notes)
    return key_of(document.id), key_of(document.workflow_id), document.number, content


def steps_of(workflow_id: str, newer_than: int = -1) -> Row:
    """Return the parameters of SELECT_STEPS_OF. `newer_than` -1: steps of every revision."""
    # ";" follows ":" in every order of bytes, so it ends the range of keys.
    return key_of(f"{workflow_id}:"), key_of(f"{workflow_id};"), newer_than, key_of(workflow_id)


def in_order(steps: Iterable[KeptStep]) -> list[KeptStep]:
    """Return steps workflow by workflow, each one's in order of creation."""
    return sorted(steps, key=lambda kept: (kept.document.workflow_id, kept.document.number))


def column_value(value: object) -> object:
    """Return the value of an entity's field in a column of its own."""
    return key_of(value) if isinstance(value, str) else value


def _position_key(position: Position) -> tuple[object, ...]:
    return key_of(position.cluster_id), key_of(position.topic), position.partition, key_of(position.topic_id)


def move_position(db: sqlite3.Connection, move: PositionMove) -> None:
    """Advance a position. Raises PositionLost when it is not where the move expects it."""
    position = move.position
    key = _position_key(position)
    where = "WHERE cluster_id = ? AND topic = ? AND partition = ? AND topic_id = ?"
    if move.replaces is not None:
        went = db.execute(
            f"DELETE FROM position {where} AND next_offset = ?", (*_position_key(move.replaces), move.expected)
        ).rowcount
        moved = db.execute(_INSERT_POSITION, (*key, move.next_offset)).rowcount if went else 0
    elif move.expected is None:
        moved = db.execute(_INSERT_POSITION, (*key, move.next_offset)).rowcount
    else:
        moved = db.execute(
            f"UPDATE position SET next_offset = ? {where} AND next_offset = ?", (move.next_offset, *key, move.expected)
        ).rowcount
    if moved != 1:
        query = f"SELECT next_offset FROM position {where}"
        found = db.execute(query, key).fetchone()
        if found is None and move.replaces is not None:
            found = db.execute(query, _position_key(move.replaces)).fetchone()
        raise PositionLost(
            topic=position.topic,
            partition=position.partition,
            expected=move.expected,
            found=None if found is None else found[0],
        )


def first_text(row: Row) -> str:
    """Return the text in a row's first column."""
    return text_of(row[0])


def stored_position(row: Row) -> tuple[Position, int]:
    """Return a position and its next offset."""
    topic, partition, cluster_id, topic_id, next_offset = row
    if type(next_offset) is not int:
        # A SQLite column may hold any type.
        raise TypeError(f"{next_offset!r} is not an offset")
    return Position(text_of(cluster_id), text_of(topic), partition, text_of(topic_id)), next_offset


def outbox_row(record: OutboxRecord, created_at_ms: int) -> Row:
    """Return the values of an outbox row."""
    lane, topic, key, value, headers = record
    return created_at_ms, lane, topic, key, value, encode_outbox_headers(headers)


def append_outbox(db: sqlite3.Connection, rows: Sequence[Row]) -> int:
    """Append rows and return the sequence number of the first; 0 when there are none."""
    if not rows:
        return 0
    db.executemany(_APPEND_OUTBOX, rows)
    # One transaction appends without gaps: no other writer can take a number in between.
    (last,) = db.execute("SELECT last_insert_rowid()").fetchone()
    return cast(int, last) - len(rows) + 1


def outbox_record(row: Row) -> StoredOutboxRecord:
    """Return the record of a row of SELECT_OUTBOX."""
    sequence, created_at_ms, lane, topic, key, value, headers = row
    given = decode_outbox_headers(headers)
    return StoredOutboxRecord(sequence, created_at_ms, OutboxRecord(text_of(lane), text_of(topic), key, value, given))


def parked_row(record: ParkedRecord) -> Row:
    """Return the values of UPSERT_PARKED."""
    return (
        key_of(record.id),
        key_of(record.workflow_id),
        key_of(record.step_id),
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        encode_headers(record.headers) if record.headers else None,
        record.parked_at_ms,
        record.expires_at_ms,
    )


def parked_record(row: Row) -> ParkedRecord:
    """Return the record of a row of SELECT_PARKED."""
    parked_id, workflow_id, step_id, topic, partition, offset, key, value, headers, parked_at_ms, expires_at_ms = row
    return ParkedRecord(
        id=text_of(parked_id),
        workflow_id=text_of(workflow_id),
        step_id=text_of(step_id),
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=decode_headers(headers),
        parked_at_ms=parked_at_ms,
        expires_at_ms=expires_at_ms,
    )
