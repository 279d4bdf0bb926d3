"""The documents in a MongoDB store's collections, for workflows, steps and all else, and how they are read."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from afl.core.clock import epoch_ns
from afl.engine.model.entities import LogDefinition, ServerDefinition, TaskDefinition
from afl.engine.model.store import (
    HistoryKind,
    HistoryRow,
    LiveStep,
    OutboxRecord,
    ParkedRecord,
    Position,
    RunningChange,
    ScheduleRow,
    StepDocument,
    StoredOutboxRecord,
    TimerKind,
    TimerRow,
    WorkflowHead,
    WorkflowRow,
)
from afl.engine.model.tombstones import Tombstone
from afl.engine.versions import VERSIONS, check_versions
from afl.stores.documents import (
    decode_history,
    decode_schedule,
    decode_step,
    decode_value,
    decode_workflow,
    encode_change,
    encode_history,
    encode_live,
    encode_schedule,
    encode_step,
    encode_value,
    encode_workflow,
    with_counters,
)
from afl.stores.entity_documents import decode_entity, encode_entity
from afl.stores.public.store import ENTITY_TABLES, KeptStep
from afl.stores.public.views import StepNotes
from afl.stores.stored_headers import decode_headers, decode_outbox_headers, encode_headers, encode_outbox_headers
from afl.stores.stored_text import key_of, text_of

E = TypeVar("E")

Document: TypeAlias = Mapping[str, Any]
#: Fields to set, by name.
Values: TypeAlias = dict[str, object]

#: Names of the collections; those of entities are in ENTITY_TABLES. They are stored: never change one.
WORKFLOWS: Final = "workflows"
STEPS: Final = "steps"
OUTBOX: Final = "outbox"
POSITIONS: Final = "positions"
PARKED: Final = "parked"
PROGRAMS: Final = "programs"
TIMERS: Final = "timers"
HISTORY: Final = "history"
SCHEDULES: Final = "schedules"
#: The owner of the store, the number of the last outbox record, and the state of document commits.
STORE: Final = "store"

#: Collections of whole entities, by their class.
COLLECTION_OF: Final = {kind: table.name for kind, table in ENTITY_TABLES.items()}
TASKS: Final = COLLECTION_OF[TaskDefinition]
SERVERS: Final = COLLECTION_OF[ServerDefinition]
LOGS: Final = COLLECTION_OF[LogDefinition]
TOMBSTONES: Final = COLLECTION_OF[Tombstone]

#: Fields of a task that are also stored beside its document: tasks are found by them.
_LIVE: Final = frozenset({"state", "owner", "lease_expires"})

#: Entities of which single fields are changed in place.
_CHANGED_IN_PLACE: Final = (TaskDefinition, ServerDefinition)


class Arrivals:
    """Numbers for what a store inserts, each greater than those before. Nanoseconds since the epoch, mostly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """Return the number of what is inserted now."""
        with self._lock:
            self._last = max(self._last + 1, epoch_ns())
            return self._last


def workflow_values(row: WorkflowRow) -> Values:
    """Return the fields of a workflow that a whole write sets. Inputs are excluded: they are large and never change."""
    return {
        "revision": row.revision,
        "status": row.status,
        "runnable": row.runnable,
        "document": encode_workflow(row),
        "updated_at_ms": row.updated_at_ms,
        "moved": None,
    }


def moved_values(change: RunningChange) -> Values:
    """Return the fields of a workflow that goes on. Its document stays; `moved` has what has moved since."""
    return {
        "revision": change.revision,
        "status": change.status,
        "runnable": change.runnable,
        "updated_at_ms": change.updated_at_ms,
        "moved": [change.steps_made, change.iterations],
    }


def workflow_head(found: Document) -> WorkflowHead:
    """Return what is known of a workflow without its document."""
    return WorkflowHead(id_of(found), whole_number(found["revision"]), whole_number(found.get("updated_at_ms", 0)))


def workflow_row(found: Document) -> WorkflowRow:
    """Return the workflow of a document; raises an error of DAMAGE for a damaged one."""
    row = decode_workflow(
        workflow_id=text_of(found["_id"]),
        revision=found["revision"],
        name=text_of(found["name"]),
        status=found["status"],
        runnable=found["runnable"],
        created_at_ms=found["created_at_ms"],
        content=found["document"],
        inputs=found["inputs"],
    )
    moved = found.get("moved")
    if moved is None:
        return row
    return with_counters(row, [whole_number(number) for number in (*moved, found["updated_at_ms"])])


def step_values(document: StepDocument, notes: StepNotes | None = None) -> Values:
    """Return the fields of a step. Without `notes` those of an earlier public write stay."""
    step_id, workflow_id = document.id, document.workflow_id
    values: Values = {
        "workflow_id": key_of(workflow_id),
        "number": document.number,
        "revision": document.revision,
        "state": key_of(document.state),
        "document": encode_step(document),
        "change": None,
    }
    if notes is not None:
        values["notes"] = encode_value(notes)
    if notes is not None or not step_id.startswith(f"{workflow_id}:"):
        # Such a step may name anything as its block: every search for neighbours looks at it.
        values["by_hand"] = True
    return values


def live_values(step: LiveStep) -> Values:
    """Return the fields of a live step: all of them, or those that have changed since the store has it."""
    values: Values = {"revision": step.revision, "state": step.state}
    if step.is_written:
        values["change"] = encode_change(step)
        return values
    return {
        "workflow_id": key_of(step.block_ids.workflow_id),
        "number": step.number,
        **values,
        "document": encode_live(step),
        "change": None,
    }


def id_of(found: Document) -> str:
    """Return the text by which a document is identified."""
    return text_of(found["_id"])


def step_document(found: Document) -> StepDocument:
    """Return the step of a document; raises an error of DAMAGE for a damaged one."""
    content, change = found["document"], found.get("change")
    return decode_step(text_of(found["_id"]), found["revision"], text_of(found["state"]), content, change)


def kept_step(found: Document) -> KeptStep:
    """Return the step of a document with its public notes; raises an error of DAMAGE for a damaged one."""
    notes = found.get("notes")
    return KeptStep(step_document(found), None if notes is None else StepNotes.decode(notes))


def program_values(content: bytes) -> Values:
    """Return the fields of a program."""
    return {"content": content, "versions": VERSIONS}


def program_content(found: Document) -> bytes:
    """Return the program of a document. Raises VersionMismatchError for one that a newer release wrote."""
    # Documents of the release without versions have none.
    if (versions := found.get("versions")) is not None:
        check_versions(versions)
    return bytes(found["content"])


def program_annotations(found: Document) -> bytes | None:
    """Return the annotations in a program's document, on which no behaviour depends."""
    annotations = found.get("annotations")
    return bytes(annotations) if isinstance(annotations, bytes) else None


def position_id(position: Position) -> Values:
    """Return a position's id: a document with its fields in this order."""
    return {
        "cluster_id": key_of(position.cluster_id),
        "topic": key_of(position.topic),
        "partition": position.partition,
        "topic_id": key_of(position.topic_id),
    }


def position_of(found: Document) -> Position:
    """Return the position of an id."""
    return Position(
        text_of(found["cluster_id"]), text_of(found["topic"]), found["partition"], text_of(found["topic_id"])
    )


def outbox_values(record: OutboxRecord, created_at_ms: int) -> Values:
    """Return the fields of an outbox record, whose id is its sequence number."""
    return {
        "created_at_ms": created_at_ms,
        "lane": key_of(record.lane),
        "topic": key_of(record.topic),
        "key": record.key,
        "value": record.value,
        "headers": encode_outbox_headers(record.headers),
    }


def outbox_record(found: Document) -> StoredOutboxRecord:
    """Return the outbox record of a document."""
    headers = found["headers"]
    record = OutboxRecord(
        text_of(found["lane"]),
        text_of(found["topic"]),
        found["key"],
        found["value"],
        _read_headers(headers) if isinstance(headers, list) else decode_outbox_headers(headers),
    )
    return StoredOutboxRecord(found["_id"], found["created_at_ms"], record)


def parked_values(record: ParkedRecord) -> Values:
    """Return the fields of a parked record."""
    return {
        "workflow_id": key_of(record.workflow_id),
        "step_id": key_of(record.step_id),
        "topic": key_of(record.topic),
        "partition": record.partition,
        "offset": record.offset,
        "key": record.key,
        "value": record.value,
        "headers": encode_headers(record.headers) if record.headers else None,
        "size_bytes": record.size_bytes,
        "parked_at_ms": record.parked_at_ms,
        "expires_at_ms": record.expires_at_ms,
    }


def parked_record(found: Document) -> ParkedRecord:
    """Return the parked record of a document."""
    return ParkedRecord(
        id=text_of(found["_id"]),
        workflow_id=text_of(found["workflow_id"]),
        step_id=text_of(found["step_id"]),
        topic=text_of(found["topic"]),
        partition=found["partition"],
        offset=found["offset"],
        key=found["key"],
        value=found["value"],
        headers=_read_headers(found["headers"]),
        parked_at_ms=found["parked_at_ms"],
        expires_at_ms=found["expires_at_ms"],
    )


def timer_values(timer: TimerRow) -> Values:
    """Return the fields of a timer, whose id is its step's."""
    return {"workflow_id": key_of(timer.workflow_id), "kind": timer.kind.value, "due_at_ms": timer.due_at_ms}


def timer_of(found: Document) -> TimerRow:
    """Return the timer of a document; raises an error of DAMAGE for a damaged one."""
    due_at_ms = whole_number(found["due_at_ms"])
    return TimerRow(text_of(found["_id"]), text_of(found["workflow_id"]), TimerKind(found["kind"]), due_at_ms)


def whole_number(value: object) -> int:
    """Return an integer of a document: the driver reads a large one as a type of its own. Raises TypeError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return int(value)


def history_id(workflow_id: str, number: int) -> Values:
    """Return the id of a history's row: a document with its fields in this order."""
    return {"workflow_id": key_of(workflow_id), "number": number}


def history_values(row: HistoryRow) -> Values:
    """Return the fields of a history's row. Rows without an event id lack that field, and so are not in its index."""
    document = encode_history(row)
    values: Values = {
        "workflow_id": key_of(row.workflow_id),
        "number": row.number,
        "kind": row.kind.value,
        "execution": row.execution,
        "at_ms": row.at_ms,
        "is_pending": row.is_pending,
        "until_execution": row.until_execution,
        "last_execution": row.last_execution,
        "expires_at_ms": row.expires_at_ms,
        "document": document,
    }
    if row.event_id:
        values["event_id"] = key_of(row.event_id)
    if row.is_early:
        # Beside the document, and in an index: those of all early events are summed up again and again.
        values["size_bytes"] = len(document)
    return values


def history_of(found: Document) -> HistoryRow:
    """Return a history's row; raises an error of DAMAGE for a damaged one."""
    beside = HistoryRow(
        workflow_id=text_of(found["workflow_id"]),
        number=whole_number(found["number"]),
        kind=HistoryKind(found["kind"]),
        execution=whole_number(found["execution"]),
        at_ms=whole_number(found["at_ms"]),
        event_id=text_of(found.get("event_id", "")),
        is_pending=found["is_pending"],
        until_execution=whole_number(found["until_execution"]),
        expires_at_ms=whole_number(found["expires_at_ms"]),
    )
    return decode_history(beside, found["document"])


def schedule_values(row: ScheduleRow) -> Values:
    """Return the fields of a schedule."""
    return {"revision": row.revision, "next_at_ms": row.next_at_ms, "document": encode_schedule(row.document)}


def schedule_of(found: Document) -> ScheduleRow:
    """Return the schedule of a document; raises an error of DAMAGE for a damaged one."""
    next_at_ms = found["next_at_ms"]
    return ScheduleRow(
        text_of(found["_id"]),
        whole_number(found["revision"]),
        None if next_at_ms is None else whole_number(next_at_ms),
        decode_schedule(found["document"]),
    )


def entity_id(entity: object) -> str | bytes:
    """Return the id of an entity's document."""
    return key_of(getattr(entity, ENTITY_TABLES[type(entity)].key))


def entity_values(entity: object) -> Values:
    """Return the fields of an entity: those by which it is found, and the entity as one document."""
    columns = {name: getattr(entity, name) for name in ENTITY_TABLES[type(entity)].columns}
    values: Values = {name: key_of(value) if isinstance(value, str) else value for name, value in columns.items()}
    values["document"] = encode_entity(entity)
    if isinstance(entity, _CHANGED_IN_PLACE):
        values["changed"] = {}
    if isinstance(entity, TaskDefinition):
        values.update(owner=key_of(entity.owner), lease_expires=entity.lease_expires)
    return values


def task_changes(**fields: Any) -> Values:
    """Return the update that changes these fields of a task in place. Its document stays: `entity_of` merges both."""
    live = {name: _stored_field(name, value) for name, value in fields.items() if name in _LIVE}
    return {**live, **entity_changes(**fields)}


def entity_changes(**fields: Any) -> Values:
    """Return the update that changes fields of an entity in place; no search uses these fields."""
    return {f"changed.{name}": _stored_field(name, value) for name, value in fields.items()}


def _stored_field(name: str, value: object) -> object:
    if name == "error":
        return encode_value(value)
    return key_of(value) if isinstance(value, str) else value


def _read_field(name: str, stored: Any) -> Any:
    if name == "error":
        return decode_value(stored)
    return text_of(stored) if isinstance(stored, str | bytes) else stored


def entity_of(kind: type[E], found: Document) -> E:
    """Return the entity of a document; raises an error of DAMAGE for a damaged one."""
    entity = decode_entity(kind, found["document"])
    changed = found.get("changed")
    if changed and isinstance(entity, _CHANGED_IN_PLACE):
        return replace(entity, **{name: _read_field(name, stored) for name, stored in changed.items()})
    return entity


def _read_headers(found: bytes | list[Any] | None) -> tuple[tuple[str, bytes | None], ...]:
    # Documents of earlier formats have a list.
    if isinstance(found, list):
        return tuple((text_of(name), value) for name, value in found)
    return decode_headers(found)
