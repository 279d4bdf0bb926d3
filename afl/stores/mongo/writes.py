"""The writes of one commit to MongoDB: operations, in the two forms that a server accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from afl.engine.errors import DocumentTooLarge
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import (
    Batch,
    HistoryRow,
    LiveStep,
    OutboxRecord,
    PositionMove,
    RunningChange,
    ScheduleChange,
    StepDocument,
    StepRow,
    TaskEnd,
    WorkflowRow,
)
from afl.engine.model.tombstones import Tombstone
from afl.engine.model.upkeep import Burial
from afl.stores.documents import encode_value
from afl.stores.mongo.documents import (
    COLLECTION_OF,
    HISTORY,
    LOGS,
    OUTBOX,
    PARKED,
    POSITIONS,
    PROGRAMS,
    SCHEDULES,
    STEPS,
    TASKS,
    TIMERS,
    WORKFLOWS,
    Arrivals,
    Values,
    entity_id,
    entity_values,
    history_id,
    history_values,
    live_values,
    moved_values,
    outbox_values,
    parked_values,
    position_id,
    program_values,
    schedule_values,
    step_values,
    task_changes,
    timer_values,
    workflow_values,
)
from afl.stores.public.store import PublicRows
from afl.stores.public.views import StepNotes
from afl.stores.stored_text import key_of

#: An operation in the form of the command bulkWrite.
Command: TypeAlias = dict[str, object]

#: The size of one command; MongoDB refuses more than 16 MiB and 100,000 operations.
MAX_COMMAND_BYTES: Final = 8 * 1024 * 1024
MAX_COMMAND_OPERATIONS: Final = 10_000
#: MongoDB documents have at most 16 MiB; some of it is for fields that are not counted.
MAX_DOCUMENT_BYTES: Final = 15 * 1024 * 1024
#: The approximate size of an operation besides its documents.
_OPERATION_BYTES: Final = 300


class Put(NamedTuple):
    """Set fields of the document with an id; create it if it does not exist."""

    collection: str
    id: object
    values: Values
    #: Fields that only a new document gets.
    first: Values | None = None
    #: The document must exist with this field and value; with `creates` it may also not exist.
    expects: tuple[str, object] | None = None
    creates: bool = True


class Removal(NamedTuple):
    """Delete the documents that a filter matches."""

    collection: str
    filter: Values


class Ending(NamedTuple):
    """Set fields of a task's document unless the task has ended or does not exist."""

    collection: str
    id: object
    values: Values


Operation: TypeAlias = Put | Removal | Ending

OPEN: Final = (TaskState.PENDING, TaskState.RUNNING)
#: Collections whose documents lead others to a workflow: a commit document writes them when the workflow's row is new.
_LEADING: Final = frozenset({TASKS, TIMERS})
#: Ids in one operation.
_IDS_AT_ONCE: Final = 1_000


class Writes:
    """One commit: its preconditions and its writes."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        #: Workflow id to the revision that was read, 0 for none: of changes and of confirms.
        self.expected: list[tuple[str, int]] = []
        self.moves: list[PositionMove] = []
        #: Workflows that must not exist, and are not written either.
        self.absent: list[str] = []
        #: Tasks that start to run: the step of each must have no other running task.
        self.running: list[TaskDefinition] = []
        #: New rows of histories: their numbers and event ids must not be used.
        self.history: list[HistoryRow] = []
        self.schedules: list[ScheduleChange] = []
        #: Operations that fail when another writer was first.
        self.compared: list[Operation] = []
        #: The same for what is deleted by another operation: for transactions only.
        self.compared_only: list[Operation] = []
        self.others: list[Operation] = []
        self.endings: list[Operation] = []
        #: Workflows that are deleted.
        self.removals: list[Operation] = []
        self.outbox: list[OutboxRecord] = []
        self._now_ms = 0

    @classmethod
    def of_batch(cls, batch: Batch, arrivals: Arrivals) -> Writes:
        """Encode a batch."""
        writes = cls(arrivals)
        writes._now_ms = batch.now_ms
        for change in batch.changes:
            if isinstance(change, RunningChange) and change.is_written:
                writes._move_workflow(change)
            else:
                writes._change(change.workflow, change.expected_revision, replaces=change.replaces)
            if change.replaces:
                writes._drop_execution(change.workflow_id, batch.task_ends)
            writes._steps(change.rows)
        writes._confirm(batch)
        for move in batch.positions:
            writes._move(move)
        for record in batch.parked:
            writes.others.append(Put(PARKED, key_of(record.id), parked_values(record)))
        for parked_id in batch.unparked:
            writes.others.append(Removal(PARKED, {"_id": key_of(parked_id)}))
        for first, last in batch.published:
            writes.others.append(Removal(OUTBOX, {"_id": {"$gte": first, "$lte": last}}))
        if not batch.has_changes_only:
            writes._timers(batch)
            writes._history(batch)
            for scheduled in batch.schedules:
                writes._schedule(scheduled)
        writes._entities(batch.tasks)
        for ending in batch.task_ends:
            writes._end(ending, batch.now_ms)
        writes._entities(batch.logs)
        for fingerprint, program in batch.programs.items():
            beside = batch.annotations.get(fingerprint)
            newest: Values = {} if beside is None else {"annotations": beside}
            writes.others.append(Put(PROGRAMS, key_of(fingerprint), newest, program_values(program)))
        writes.outbox = batch.outbox
        return writes

    @classmethod
    def of_rows(cls, rows: PublicRows, arrivals: Arrivals) -> Writes:
        """Encode what a public write comes to."""
        writes = cls(arrivals)
        for row in rows.workflows.values():
            writes._change(row, row.revision - 1)
        for kept in rows.steps.values():
            writes._steps([kept.document], kept.notes)
        writes._entities(rows.events)
        writes._entities(rows.tasks)
        return writes

    @classmethod
    def of_burials(cls, burials: Sequence[Burial], arrivals: Arrivals) -> Writes:
        """Encode what puts tombstones in the places of workflows that are at these revisions."""
        writes = cls(arrivals)
        for tombstone, revision, _ in burials:
            workflow_id, same = key_of(tombstone.workflow_id), {"revision": revision}
            writes.expected.append((tombstone.workflow_id, revision))
            expects = ("revision", revision)
            writes.compared.append(Put(WORKFLOWS, workflow_id, {**same}, expects=expects, creates=False))
            writes.removals.append(Removal(WORKFLOWS, {"_id": workflow_id, **same}))
        writes._entities([burial.tombstone for burial in burials])
        return writes

    @classmethod
    def of_tombstones(cls, tombstones: Sequence[Tombstone], arrivals: Arrivals) -> Writes:
        """Encode tombstones of workflows that are buried already."""
        writes = cls(arrivals)
        writes._entities(tombstones)
        return writes

    @property
    def is_something(self) -> bool:
        return bool(self.compared or self.compared_only or self.others or self.outbox or self.endings or self.absent)

    def operations(self, first_sequence: int, *, compared_last: bool = False) -> list[Operation]:
        """Return the operations, outbox records included: compared documents come first, or last.

        Endings are included in the second case only, because the number of documents that they find says nothing.
        Raises DocumentTooLarge.
        """
        outbox: list[Operation] = [
            Put(OUTBOX, sequence, {}, outbox_values(record, self._now_ms))
            for sequence, record in enumerate(self.outbox, first_sequence)
        ]
        written = [*self.others, *outbox]
        check_sizes(written)
        check_sizes(self.compared)
        if compared_last:
            # A task can be claimed as soon as it exists: its step must be written before, in a workflow whose row is
            # new. A timer leads to its step, too.
            # A workflow that is deleted was compared before: written once more, it would come back.
            leading = [each for each in written if isinstance(each, Put) and each.collection in _LEADING]
            rest = [each for each in written if not (isinstance(each, Put) and each.collection in _LEADING)]
            return [*rest, *self.endings, *(self.removals or reversed(self.compared)), *leading]
        return [*self.compared, *self.compared_only, *written, *self.removals]

    def _change(self, row: WorkflowRow, expected: int, *, replaces: bool = False) -> None:
        self.expected.append((row.id, expected))
        values = workflow_values(row)
        first: Values = {"name": key_of(row.name), "created_at_ms": row.created_at_ms}
        # Inputs never change during an execution, and may be large: the first commit writes them once.
        if expected == 0 or row.execution > 1 or replaces:
            values["inputs"] = encode_value(row.inputs)
        if replaces:
            values, first = {**values, **first}, {}
        expects = ("revision", expected)
        self.compared.append(Put(WORKFLOWS, key_of(row.id), values, first, expects, creates=expected == 0))

    def _move_workflow(self, change: RunningChange) -> None:
        self.expected.append((change.workflow_id, change.expected_revision))
        expects = ("revision", change.expected_revision)
        self.compared.append(
            Put(WORKFLOWS, key_of(change.workflow_id), moved_values(change), None, expects, creates=False)
        )

    def _steps(self, rows: Iterable[StepRow], notes: StepNotes | None = None) -> None:
        for row in rows:
            if isinstance(row, LiveStep):
                # The store has the step whose changes these are: of a missing one there would be no document.
                self.others.append(Put(STEPS, key_of(row.id), live_values(row), creates=not row.is_written))
            else:
                document = row if isinstance(row, StepDocument) else row.document()
                self.others.append(Put(STEPS, key_of(document.id), step_values(document, notes)))

    def _drop_execution(self, workflow_id: str, task_ends: Sequence[TaskEnd]) -> None:
        """Delete what a workflow's next execution replaces: steps, timers, and ended tasks and log entries."""
        named: Values = {"workflow_id": key_of(workflow_id)}
        # Ids that begin with a step's: ";" follows ":".
        begins = {"$gte": key_of(f"{workflow_id}:"), "$lt": key_of(f"{workflow_id};")}
        ending_now = [key_of(ending.task_id) for ending in task_ends]
        ended = {"_id": {**begins, "$nin": ending_now}, "state": {"$nin": list(OPEN)}}
        self.others += [
            Removal(STEPS, named),
            Removal(TIMERS, named),
            Removal(TASKS, ended),
            Removal(LOGS, {"_id": begins}),
        ]

    def _timers(self, batch: Batch) -> None:
        begun = {timer.step_id: timer for timer in batch.timers}
        done = [key_of(step_id) for step_id in batch.timers_done if step_id not in begun]
        for start in range(0, len(done), _IDS_AT_ONCE):
            self.others.append(Removal(TIMERS, {"_id": {"$in": done[start : start + _IDS_AT_ONCE]}}))
        self.others += [Put(TIMERS, key_of(timer.step_id), timer_values(timer)) for timer in begun.values()]

    def _history(self, batch: Batch) -> None:
        self.history = batch.history
        # One operation for each document: of two in a commit document, the second would find the first.
        new = {(row.workflow_id, row.number): row for row in batch.history}
        changed = {(row.workflow_id, row.number): row for row in batch.history_changes}
        for key, row in new.items():
            # No row has this number: one that has the id is not found, and the server refuses to insert another.
            last = changed.pop(key, row)
            if not _is_trimmed(last, batch):
                self.compared.append(Put(HISTORY, history_id(*key), history_values(last), expects=("number", -1)))
        for key, row in changed.items():
            is_trimmed = _is_trimmed(row, batch)
            gone = Removal(HISTORY, {"_id": history_id(*key)})
            self.others.append(gone if is_trimmed else Put(HISTORY, history_id(*key), history_values(row)))
        for workflow_id, execution in batch.history_trims.items():
            wanted: Values = {"workflow_id": key_of(workflow_id), "is_pending": False}
            self.others.append(Removal(HISTORY, {**wanted, "last_execution": {"$lt": execution}}))

    def _schedule(self, change: ScheduleChange) -> None:
        self.schedules.append(change)
        key, expected = key_of(change.id), change.expected_revision
        if change.row is None:
            same: Values = {"revision": expected}
            self.compared_only.append(Put(SCHEDULES, key, same, expects=("revision", expected), creates=False))
            self.others.append(Removal(SCHEDULES, {"_id": key, **same}))
        else:
            expects = ("revision", expected)
            values = schedule_values(change.row)
            self.compared.append(Put(SCHEDULES, key, values, expects=expects, creates=expected == 0))

    def _confirm(self, batch: Batch) -> None:
        # A workflow that the batch itself changes is compared by that change, if both expect the same revision.
        changed = {change.workflow_id: change.expected_revision for change in batch.changes}
        for workflow_id, revision in batch.confirms.items():
            self.expected.append((workflow_id, revision))
            if changed.get(workflow_id) == revision:
                continue
            if revision == 0:
                self.absent.append(workflow_id)
                continue
            same: Values = {"revision": revision}
            self.compared.append(
                Put(WORKFLOWS, key_of(workflow_id), same, expects=("revision", revision), creates=False)
            )

    def _move(self, move: PositionMove) -> None:
        self.moves.append(move)
        place = position_id(move.position)
        expected = move.expected
        if move.replaces is not None:
            # The replaced identity stays as one without an offset: then all operations are of one kind.
            gone: Values = {"next_offset": None}
            self.compared.append(
                Put(POSITIONS, position_id(move.replaces), gone, expects=("next_offset", expected), creates=False)
            )
            expected = None
        self.compared.append(
            Put(
                POSITIONS,
                place,
                {"next_offset": move.next_offset},
                expects=("next_offset", expected),
                creates=expected is None,
            )
        )

    def _entities(self, entities: Sequence[object]) -> None:
        # Tasks that free a step come first: the index is checked document by document.
        for entity in sorted(entities, key=_is_running):
            if isinstance(entity, TaskDefinition) and _is_running(entity) and entity.step_id:
                self.running.append(entity)
            arrived: Values = {"arrival": self._arrivals.next()}
            self.others.append(Put(COLLECTION_OF[type(entity)], entity_id(entity), entity_values(entity), arrived))

    def _end(self, ending: TaskEnd, now_ms: int) -> None:
        error = {"message": ending.message} if ending.state == TaskState.FAILED else None
        changes = task_changes(state=ending.state, updated=now_ms, error=error, lease_expires=0)
        self.endings.append(Ending(TASKS, key_of(ending.task_id), changes))


def _is_trimmed(row: HistoryRow, batch: Batch) -> bool:
    """Say whether a row that a batch writes is deleted by the same batch."""
    return not row.is_pending and row.last_execution < batch.history_trims.get(row.workflow_id, 0)


def _is_running(entity: object) -> bool:
    return isinstance(entity, TaskDefinition) and entity.state == TaskState.RUNNING


def commands(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Split operations into commands of the allowed size."""
    part: list[Operation] = []
    size = 0
    for operation in operations:
        needed = bytes_of(operation)
        if part and (size + needed > MAX_COMMAND_BYTES or len(part) >= MAX_COMMAND_OPERATIONS):
            yield part
            part, size = [], 0
        part.append(operation)
        size += needed
    if part:
        yield part


def check_sizes(operations: Sequence[Operation]) -> None:
    """Raise DocumentTooLarge when one of the documents exceeds MongoDB's limit."""
    for operation in operations:
        size = bytes_of(operation)
        if size > MAX_DOCUMENT_BYTES:
            name = f"{operation.collection}/{getattr(operation, 'id', '')}"
            raise DocumentTooLarge(document=name, size_bytes=size, limit_bytes=MAX_DOCUMENT_BYTES)


def bytes_of(operation: Operation) -> int:
    """Return the approximate size of an operation on the wire, in bytes."""
    if isinstance(operation, Removal):
        return _OPERATION_BYTES
    first = operation.first if isinstance(operation, Put) else None
    fields = [*operation.values.values(), *(first or {}).values()]
    return _OPERATION_BYTES + sum(len(value) for value in fields if isinstance(value, bytes | str))
