"""The store in memory: the reference for every store, for tests and for runs that need not outlive their process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from copy import deepcopy
from itertools import islice
from operator import itemgetter
from typing import TypeVar, cast

from afl.core.clock import Clock, SystemClock
from afl.engine.errors import PositionLost, WorkflowConflict
from afl.engine.model.entities import LogDefinition, TaskDefinition
from afl.engine.model.store import (
    Batch,
    OpenRun,
    ParkedRecord,
    Position,
    RunningChange,
    ScheduleRow,
    StepDocument,
    StoredOutboxRecord,
    StoredStep,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.model.store_identity import StoreIdentity, new_store_id
from afl.engine.states import StepState
from afl.engine.values.sizes import TooDeep, attribute_bytes
from afl.engine.versions import WRITTEN, check_versions
from afl.stores.documents import versions_of
from afl.stores.memory.history import KeptHistory, MemoryHistory
from afl.stores.memory.lists import MemoryLists, own_copy, row_of
from afl.stores.memory.parked import MemoryParked
from afl.stores.memory.schedules import MemorySchedules
from afl.stores.memory.steps import KeptSteps
from afl.stores.memory.tasks import MemoryTasks
from afl.stores.memory.timers import KeptTimers, MemoryTimers
from afl.stores.memory.upkeep import MemoryUpkeep
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.store import ENTITY_TABLES, KeptStep, PublicRows, PublicStore
from afl.stores.public.store_checks import check_changes, check_keys, check_values
from afl.stores.public.views import StepNotes

E = TypeVar("E")

_by_number = itemgetter(StepDocument._fields.index("number"))


class MemoryStore(MemoryParked, MemoryTimers, MemoryHistory, MemorySchedules, MemoryLists, MemoryUpkeep, PublicStore):
    """A store in dictionaries under one lock.

    Step documents are kept without a copy: they are immutable by agreement. Entities are copied on the way in and out.
    `prefix` is the topic prefix that the store belongs to; the default clock is the system's.
    """

    def __init__(self, prefix: str = "afl.", clock: Clock | None = None) -> None:
        self._prefix = prefix
        self._clock = clock or SystemClock()
        # Re-entrant: public writes read the store while they hold it.
        self._lock = threading.RLock()
        self._outbox_sequence = 0
        self._identity = StoreIdentity(new_store_id())
        self._forget()

    def _forget(self) -> None:
        #: Rows of workflows, or the changes from which rows are made when they are read.
        self._workflows: dict[str, WorkflowRow | RunningChange] = {}
        #: Workflow id to its steps.
        self._steps: dict[str, KeptSteps] = {}
        self._notes: dict[str, StepNotes] = {}
        self._runnable: dict[str, None] = {}
        self._outbox: dict[int, StoredOutboxRecord] = {}
        self._positions: dict[Position, int] = {}
        self._parked: dict[str, ParkedRecord] = {}
        self._timers = KeptTimers()
        #: Workflow id to its history.
        self._histories: dict[str, KeptHistory] = {}
        self._schedules: dict[str, ScheduleRow] = {}
        self._programs: dict[str, bytes] = {}
        self._annotations: dict[str, bytes] = {}
        self._entities: dict[type, dict[str, object]] = {kind: {} for kind in ENTITY_TABLES}
        self._task_queue = MemoryTasks()
        self._tasks = self._task_queue.by_id

    # The interface for the engine.

    def commit_batch(self, batch: Batch) -> int:
        """Write all of the batch and return the sequence number of its first outbox record; see `Store`."""
        # Most batches are one iteration's steps and nothing else: this is the engine's hot path.
        changes, has_more = batch.changes, not batch.has_changes_only
        if not batch.values_checked:
            check_values(batch)
        # A `with` of this lock costs twice as much.
        self._lock.acquire()
        try:
            if has_more or len(changes) != 1:
                self._refuse(batch)
            elif not self._follows(changes[0]):
                raise WorkflowConflict(workflow_ids=(changes[0].workflow_id,))
            for change in changes:
                workflow_id = change.workflow_id
                self._workflows[workflow_id] = change if isinstance(change, RunningChange) else change.workflow
                if change.runnable:
                    self._runnable[workflow_id] = None
                else:
                    self._runnable.pop(workflow_id, None)
                if change.replaces:
                    self._drop_execution(workflow_id)
                steps = self._steps.get(workflow_id)
                if steps is None:
                    steps = self._steps[workflow_id] = KeptSteps()
                steps.write(change.rows)
            return self._write_more(batch) if has_more else 0
        finally:
            self._lock.release()

    def _write_more(self, batch: Batch) -> int:
        """Write the parts of a batch other than workflows and steps."""
        for first, last in batch.published:
            self._drop_published(first, last)
        for move in batch.positions:
            if move.replaces is not None:
                del self._positions[move.replaces]
            self._positions[move.position] = move.next_offset
        for parked in batch.parked:
            self._parked[parked.id] = parked
        for parked_id in batch.unparked:
            self._parked.pop(parked_id, None)
        for task in batch.tasks:
            self._task_queue.put(task)
        for ending in batch.task_ends:
            self._task_queue.end(ending, batch.now_ms)
        for log in batch.logs:
            self._entities[LogDefinition][log.uuid] = deepcopy(log)
        for fingerprint, program in batch.programs.items():
            self._programs.setdefault(fingerprint, program)
        self._annotations |= batch.annotations
        for step_id in batch.timers_done:
            self._timers.remove(step_id)
        for timer in batch.timers:
            self._timers.put(timer)
        if batch.history or batch.history_changes or batch.history_trims:
            self._write_history(batch)
        if batch.schedules:
            self._write_schedules(batch.schedules)
        if not batch.outbox:
            return 0
        first_sequence = self._outbox_sequence + 1
        for sequence, record in enumerate(batch.outbox, first_sequence):
            self._outbox[sequence] = StoredOutboxRecord(sequence, batch.now_ms, record)
        self._outbox_sequence += len(batch.outbox)
        return first_sequence

    def _follows(self, change: WorkflowChange) -> bool:
        """Say whether no other writer has changed the workflow since. Raises ValueError for an impossible change."""
        expected = change.expected_revision
        if change.revision != expected + 1:
            check_changes((change,))
        stored = self._workflows.get(change.workflow_id)
        return (0 if stored is None else stored.revision) == expected

    def _refuse(self, batch: Batch) -> None:
        """Refuse the batch for stale workflows or confirms, used numbers of histories, stale schedules, lost positions,
        or a second running task of a step.
        """
        check_changes(batch.changes)
        has_keys = bool(batch.history or batch.schedules)
        if has_keys:
            check_keys(batch)
        lost = [change.workflow_id for change in batch.changes if not self._follows(change)]
        for workflow_id, revision in batch.confirms.items():
            stored = self._workflows.get(workflow_id)
            if (0 if stored is None else stored.revision) != revision:
                lost.append(workflow_id)
        if has_keys:
            lost += self._lost_histories(batch.history)
            lost += self._lost_schedules(batch.schedules)
        if lost:
            raise WorkflowConflict(workflow_ids=tuple(dict.fromkeys(lost)))
        self._task_queue.check(batch.tasks)
        moved: dict[Position, int] = {}
        for move in batch.positions:
            found = moved.get(move.position, self._positions.get(move.position))
            if move.replaces is not None and found is None:
                found = self._positions.get(move.replaces)
            if found != move.expected or (move.replaces is not None and move.position in self._positions):
                raise PositionLost(
                    topic=move.position.topic, partition=move.position.partition, expected=move.expected, found=found
                )
            moved[move.position] = move.next_offset

    def _drop_published(self, first: int, last: int) -> None:
        if last - first < len(self._outbox):
            for sequence in range(first, last + 1):
                self._outbox.pop(sequence, None)
        else:
            for sequence in [sequence for sequence in self._outbox if first <= sequence <= last]:
                del self._outbox[sequence]

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        """Return the workflow's row."""
        with self._lock:
            kept = self._workflows.get(workflow_id)
        if kept is None:
            return None
        row = row_of(kept)
        if (written := versions_of(row)) != WRITTEN:
            check_versions(written.text)
        return own_copy(row)

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        """Return the workflow's steps in order of creation; see `Store`."""
        with self._lock:
            kept = self._steps.get(workflow_id)
            if kept is None:
                return []
            steps = list(kept.by_id().values()) if state is None else kept.in_state(state)
        if newer_than:
            steps = [document for document in steps if document.revision > newer_than]
        steps.sort(key=_by_number)
        return steps

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        """Return the workflow's steps; see `Store`."""
        return [*self.load_steps(workflow_id)]

    def load_open(self, workflow_id: str) -> OpenRun | None:
        """Return the workflow's steps that are not complete; see `Store`."""
        with self._lock:
            kept = self._steps.get(workflow_id)
            steps = {} if kept is None else kept.by_id()
            within, complete = f"{workflow_id}:", StepState.STATEMENT_COMPLETE
            left = {key: step for key, step in steps.items() if step.state == complete and key.startswith(within)}
            others = [step for step in steps.values() if step.id not in left]
        try:
            size = sum(attribute_bytes(step.params) + attribute_bytes(step.returns) for step in left.values())
        except TooDeep:
            return None
        newest = max((step.revision for step in left.values()), default=0)
        return OpenRun(others, len(left), size, newest, left.__getitem__)

    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the current revision of each workflow; unknown ones are left out."""
        with self._lock:
            kept = self._workflows
            return {workflow_id: kept[workflow_id].revision for workflow_id in workflow_ids if workflow_id in kept}

    def load_program(self, fingerprint: str) -> bytes | None:
        """Return a compiled program."""
        with self._lock:
            return self._programs.get(fingerprint)

    def load_annotations(self, fingerprint: str) -> bytes | None:
        """Return the annotations beside a compiled program's text."""
        with self._lock:
            return self._annotations.get(fingerprint)

    def outbox(
        self,
        *,
        lane: str | None = None,
        older_than_ms: int | None = None,
        newer_than_ms: int | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[StoredOutboxRecord]:
        """Return waiting records in sequence order; see `Store`."""
        with self._lock:
            found = (
                stored
                for stored in self._outbox.values()
                if stored.sequence > after
                and (lane is None or stored.record.lane == lane)
                and (
                    older_than_ms is None
                    or stored.created_at_ms < older_than_ms
                    or (newer_than_ms is not None and stored.created_at_ms > newer_than_ms)
                )
            )
            return list(islice(found, limit))

    def lanes(self) -> list[str]:
        """Return the lanes that have waiting records."""
        with self._lock:
            return sorted({stored.record.lane for stored in self._outbox.values()})

    def positions(self) -> dict[Position, int]:
        """Return every position with its next offset."""
        with self._lock:
            return dict(self._positions)

    def prefix(self) -> str:
        """Return the topic prefix that this store belongs to."""
        return self._prefix

    def close(self) -> None:
        """Do nothing: the memory is freed with the last reference."""

    def clear(self) -> None:
        """Delete everything. Outbox sequence numbers keep increasing."""
        with self._lock:
            self._forget()

    # The base of the public interface.

    def step_count(self) -> int:
        """Return the number of steps."""
        with self._lock:
            return sum(map(len, self._steps.values()))

    def _exclusive(self) -> AbstractContextManager[object]:
        return self._lock

    def _find_step(self, step_id: str) -> KeptStep | None:
        with self._lock:
            document = self._by_id(step_id.partition(":")[0]).get(step_id)
            if document is None:
                # Only steps that the engine did not make lack their workflow's id in their own.
                kept = (steps.by_id() for steps in self._steps.values())
                document = next((steps[step_id] for steps in kept if step_id in steps), None)
            return None if document is None else KeptStep(document, self._notes.get(step_id))

    def _steps_of(self, workflow_id: str) -> list[KeptStep]:
        documents = self.load_steps(workflow_id)
        notes = self._notes
        return [KeptStep(document, notes.get(document.id)) for document in documents]

    def _any_step_of(self, workflow_id: str) -> KeptStep | None:
        with self._lock:
            document = next(iter(self._by_id(workflow_id).values()), None)
            return None if document is None else KeptStep(document, self._notes.get(document.id))

    def _steps_near(self, related_id: str) -> Iterator[KeptStep]:
        # Blocks and containers are usually steps of the same workflow; steps saved by hand may name anything.
        workflow_id, mark, _ = related_id.partition(":")
        if not mark or workflow_id not in self._workflows:
            yield from self._all_steps()
            return
        seen = self._steps_of(workflow_id)
        yield from seen
        with self._lock:
            noted = [kept for kept in map(self._find_step, list(self._notes)) if kept is not None]
        yield from (kept for kept in noted if kept.document.workflow_id != workflow_id)

    def _all_steps(self, *, state: str | None = None) -> Iterator[KeptStep]:
        with self._lock:
            workflow_ids = list(self._steps)
        for workflow_id in workflow_ids:
            for document in self.load_steps(workflow_id):
                if state is None or document.state == state:
                    yield KeptStep(document, self._notes.get(document.id))

    def _by_id(self, workflow_id: str) -> Mapping[str, StepDocument]:
        steps = self._steps.get(workflow_id)
        return {} if steps is None else steps.by_id()

    def _next_number(self, workflow_id: str) -> int:
        return len(self._by_id(workflow_id))

    def _waiting_keys(self, key: bytes | None = None) -> set[bytes]:
        with self._lock:
            waiting = {stored.record.key for stored in self._outbox.values() if stored.record.key is not None}
        return waiting if key is None else waiting & {key}

    def _open_of(self, workflow_id: str) -> tuple[set[bytes], set[str]]:
        start = f"{workflow_id}:"
        with self._lock:
            keys = {key for key in self._waiting_keys() if key.startswith(start.encode(errors="surrogatepass"))}
            return keys, {task_id for task_id in self._task_queue.running() if task_id.startswith(start)}

    def _apply(self, rows: PublicRows) -> None:
        self._task_queue.check(rows.tasks)
        events = {event.id: deepcopy(event) for event in rows.events}
        for row in rows.workflows.values():
            self._workflows[row.id] = row
            if not row.runnable:
                self._runnable.pop(row.id, None)
        for kept in rows.steps.values():
            document = kept.document
            self._steps.setdefault(document.workflow_id, KeptSteps()).write((document,))
            if kept.notes is not None:
                self._notes[document.id] = kept.notes
        for task in rows.tasks:
            self._task_queue.put(task)
        self._entities[EventDefinition].update(events)

    def _put(self, entity: object) -> None:
        with self._lock:
            if isinstance(entity, TaskDefinition):
                self._task_queue.check([entity])
                self._task_queue.put(entity)
            else:
                key = getattr(entity, ENTITY_TABLES[type(entity)].key)
                self._entities[type(entity)][key] = deepcopy(entity)

    def _get(self, kind: type[E], key: str) -> E | None:
        with self._lock:
            return cast(E | None, deepcopy(self._held(kind).get(key)))

    def _select(self, kind: type[E], **equal: str) -> list[E]:
        with self._lock:
            return [
                cast(E, deepcopy(entity))
                for entity in self._held(kind).values()
                if all(getattr(entity, name) == value for name, value in equal.items())
            ]

    def _remove(self, kind: type, key: str) -> bool:
        with self._lock:
            return self._entities[kind].pop(key, None) is not None

    def _held(self, kind: type) -> dict[str, object]:
        return cast(dict[str, object], self._tasks) if kind is TaskDefinition else self._entities[kind]

    def _claim(
        self, task_names: Sequence[str], task_list: str, now_ms: int, owner: str, lease_expires: int, but: Set[str]
    ) -> TaskDefinition | None:
        with self._lock:
            return self._task_queue.claim(task_names, task_list, now_ms, owner, lease_expires, but)

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """Return the names of the unclaimed tasks of a list."""
        with self._lock:
            return self._task_queue.pending_names(task_list)

    def _expired_tasks(self, now_ms: int) -> list[TaskDefinition]:
        with self._lock:
            return self._task_queue.expired(now_ms)
