"""The check of a whole store, workflow by workflow and table by table, while other processes write to it."""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.core.ids import RESERVED, event_id_of, split_event_id
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.schedules import ScheduleRow
from afl.engine.model.store import ENDED_STATUSES, OutboxRecord, StepDocument, TimerRow, WorkflowRow
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone
from afl.engine.model.upkeep import StepEntry
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import EventState
from afl.errors import AFLError
from afl.stores.maintenance.findings import Finding
from afl.stores.maintenance.invariants import check_against_program, check_rows, unreadable
from afl.stores.maintenance.waits import (
    check_waits,
    history_without_workflow,
    pages_of_timers,
    timers_without_workflow,
)
from afl.stores.public.persistence import EngineStore, EventDefinition
from afl.stores.public.store import ENTITY_TABLES

_LANE: Final = re.compile(r"(?:control/[0-9]+|writer/.+)\Z", re.ASCII | re.DOTALL)
#: Waits before a possible fault is read again: where a commit becomes visible in parts, that takes milliseconds, and on
#: a busy server longer.
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.3, 1.0)
_MOST: Final = 1 << 62
#: Parked answers are read in one query: if there are very many, the oldest are enough to see what is wrong.
_MOST_PARKED: Final = 100_000
_PLANS_KEPT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """Facts about outbox records that the engine does not know."""

    #: The lane of the owner of a workflow's partition.
    lane_of: Callable[[str], str]
    #: The step whose event a record carries; None: it carries none.
    step_of: Callable[[OutboxRecord], str | None]


@dataclass(slots=True, kw_only=True)
class Inspection:
    """One check of one store.

    The check only reads. A store may be in use, and show a commit in parts: possible faults are read again, for a whole
    page together, and only those that persist are findings. Memory is that of the largest workflow.
    """

    store: EngineStore
    records: RecordRules | None = None
    #: What is found in a schedule and what was expected, if it is not as its owner writes it: the engine knows none.
    schedule_fault: Callable[[ScheduleRow], tuple[str, str] | None] | None = None
    pause: Callable[[float], None] = time.sleep
    #: The number of checked items: workflows, steps, tasks, ...
    counts: dict[str, int] = field(default_factory=dict)
    #: Checks that the database did not permit.
    left_out: list[str] = field(default_factory=list)
    #: Workflows that had changed at each reading.
    busy: list[str] = field(default_factory=list)
    _plans: OrderedDict[tuple[str, str], WorkflowPlan | Finding] = field(default_factory=OrderedDict)

    def findings(self) -> Iterator[Finding]:
        """Yield all faults as they are found. Raises StoreUnavailable."""
        own = self.store.check_itself()
        self.left_out += own.left_out
        for problem in own.problems:
            yield Finding("database.check", "", "", problem, "a database that is sound by its own check")
        yield from self._readable("workflow", self._workflows())
        yield from self._readable("step", self._orphans())
        for kind in ENTITY_TABLES:
            yield from self._readable(ENTITY_TABLES[kind].name, self._entities(kind))
        yield from self._readable("timer", self._timers())
        yield from self._readable("schedule", self._schedules())
        yield from self._readable("outbox", self._outbox())
        yield from self._readable("parked", self._parked())
        yield from self._readable("position", self._positions())

    def _readable(self, what: str, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Yield the findings of one part; if a row cannot be read at all, the last finding is about that row."""
        try:
            yield from findings
        except StoreCorrupt as error:
            yield unreadable(what, "", "", error)

    # --- workflows ----------------------------------------------------------------------------------------------

    def _workflows(self) -> Iterator[Finding]:
        after = ""
        while page := self.store.workflow_ids(after=after):
            after = page[-1]
            sizes: dict[str, int] = {}
            yield from self._lasting(page, partial(self._workflow, sizes=sizes))
            self._count("workflows", len(page))
            self._count("steps", sum(sizes.values()))
        for workflow_id in self.store.runnable_workflows(limit=_MOST):
            try:
                row = self.store.load_workflow(workflow_id)
            except (StoreCorrupt, VersionMismatchError):
                continue
            if (row is None or not row.runnable) and workflow_id in self.store.runnable_workflows(limit=_MOST):
                yield Finding("workflow.runnable_index", workflow_id, "", "listed as runnable", "what its row says")

    def _workflow(self, workflow_id: str, sizes: dict[str, int]) -> list[Finding] | None:
        """Return a workflow's faults, and put its number of steps into `sizes`; None when it changed meanwhile."""
        try:
            row = self.store.load_workflow(workflow_id)
        except (StoreCorrupt, VersionMismatchError) as error:
            return [unreadable("workflow", workflow_id, "", error)]
        if row is None:
            return []  # It was purged meanwhile.
        try:
            entries = self.store.examine_steps(workflow_id)
        except StoreCorrupt as error:
            return [unreadable("step", workflow_id, "", error)]
        findings = [*self._of_workflow(row, entries)]
        # What was read in two states may look wrong; what looks right in two states is right.
        if findings and self.store.revisions([workflow_id]).get(workflow_id) != row.revision:
            return None
        sizes[workflow_id] = len(entries)
        return findings

    def _of_workflow(self, row: WorkflowRow, entries: list[StepEntry]) -> Iterator[Finding]:
        findings = list(check_rows(row, entries))
        yield from findings
        documents = sorted((e.document for e in entries if e.document is not None), key=lambda step: step.number)
        yield from self._open_events(row, documents)
        yield from check_waits(self.store, row, documents)
        plan = self._plan(row)
        if isinstance(plan, Finding):
            yield plan
        elif not findings:
            yield from check_against_program(row, documents, plan)

    def _plan(self, row: WorkflowRow) -> WorkflowPlan | Finding:
        key = (row.program, row.name)
        if key not in self._plans:
            self._plans[key] = self._read_plan(row)
            while len(self._plans) > _PLANS_KEPT:
                self._plans.popitem(last=False)
        found = self._plans[key]
        if isinstance(found, Finding):
            return Finding(found.kind, row.id, found.subject, found.found, found.expected)
        return found

    def _read_plan(self, row: WorkflowRow) -> WorkflowPlan | Finding:
        try:
            text = self.store.load_program(row.program)
        except VersionMismatchError as error:
            return unreadable("program", row.id, row.program, error)
        if text is None:
            return Finding("program.missing", row.id, row.program, "no such program", "the program that it runs")
        digest = hashlib.sha256(text).hexdigest()
        if digest != row.program:
            return Finding("program.fingerprint", row.id, row.program, f"a text of fingerprint {digest}", row.program)
        try:
            return plan_workflow(CompiledProgram.stored(row.program, text), row.name)
        except AFLError as error:
            return Finding("program.unreadable", row.id, row.program, str(error), "a program of this release")

    def _open_events(self, row: WorkflowRow, documents: list[StepDocument]) -> Iterator[Finding]:
        """Yield unanswered events without a claimable task, in dispatch mode `task`."""
        if row.lane or row.status in ENDED_STATUSES:
            return
        for step in documents:
            if EventState.is_asked(step.event_state):
                task_id = event_id_of(step.id, step.attempt)
                try:
                    task = self.store.get_task(task_id)
                except (StoreCorrupt, VersionMismatchError):
                    continue  # The check of tasks finds this fault.
                if task is None:
                    yield Finding("event.task", row.id, step.id, f"no task {task_id}", "the task of its event")
                elif task.state not in (TaskState.PENDING, TaskState.RUNNING):
                    yield Finding("event.task", row.id, step.id, f"task {task_id} is {task.state}", "an open task")

    def _orphans(self) -> Iterator[Finding]:
        # Where a commit becomes visible in parts, a new workflow's row comes after its steps.
        yield from self._lasting(self.store.orphans(), self._of_orphan)

    def _of_orphan(self, workflow_id: str) -> list[Finding]:
        stone = self.store.tombstone(workflow_id)
        entries = self.store.examine_steps(workflow_id)
        if self.store.revisions([workflow_id]) or (stone is not None and stone.state == PURGING):
            return []  # It is being started or purged.
        expected = f"workflow {workflow_id}" if stone is None else "nothing left of a purged workflow"
        steps = [
            Finding("step.workflow", workflow_id, entry.step_id, "a step without workflow", expected)
            for entry in entries
            # Steps that were saved by hand for a workflow unknown to the engine have no revision.
            if entry.document is None or entry.document.revision
        ]
        return [*steps, *history_without_workflow(self.store, workflow_id, expected)]

    # --- tables -------------------------------------------------------------------------------------------------

    def _entities(self, kind: type) -> Iterator[Finding]:
        name, after = ENTITY_TABLES[kind].name, ""
        running: dict[str, str] = {}
        while page := self.store.examine(kind, after=after):
            after = page[-1].key
            self._count(name, len(page))
            entities = {entry.key: entry.entity for entry in page if entry.error is None}
            yield from (unreadable(name, "", entry.key, entry.error) for entry in page if entry.error is not None)
            yield from self._lasting(entities, partial(self._entity, entities, running))

    def _entity(self, entities: Mapping[str, object], running: dict[str, str], key: str) -> list[Finding]:
        match entities[key]:
            case TaskDefinition() as task:
                return [*self._task(task, running)]
            case EventDefinition() as event:
                return [*self._event(event)]
            case Tombstone() as stone:
                return [*self._tombstone(stone)]
        return []

    def _task(self, task: TaskDefinition, running: dict[str, str]) -> Iterator[Finding]:
        # An answer may have come between the reading of the page and of the step.
        if self._wrong_task(task) is not None:
            again = self.store.get_task(task.uuid)
            wrong = None if again is None else self._wrong_task(again)
            if wrong is not None:
                yield wrong
        if task.state == TaskState.RUNNING and task.step_id:
            other = running.setdefault(task.step_id, task.uuid)
            if other != task.uuid and self._is_running(other) and self._is_running(task.uuid):
                found, expected = f"running beside {other} of the same step", "one running task of a step"
                yield Finding("tasks.running", task.workflow_id, task.uuid, found, expected)

    def _is_running(self, task_id: str) -> bool:
        task = self.store.get_task(task_id)
        return task is not None and task.state == TaskState.RUNNING

    def _wrong_task(self, task: TaskDefinition) -> Finding | None:
        parts = split_event_id(task.uuid)
        # Only the engine's own tasks: other tasks may name any step, or none.
        if parts is None or parts[0] != task.step_id:
            return None
        entry = self.store.examine_step(task.step_id)
        if entry is None:
            if self._is_purged(task.workflow_id):
                return None
            return Finding("tasks.step", task.workflow_id, task.uuid, "no step of its event", f"step {task.step_id}")
        step = entry.document
        if step is None:
            return None  # The check of its workflow finds this fault.
        is_open = EventState.is_asked(step.event_state) and step.attempt == parts[1]
        if task.state in (TaskState.PENDING, TaskState.RUNNING) and not is_open:
            found = f"{task.state}, its step at {step.state}, attempt {step.attempt}"
            return Finding("tasks.step", task.workflow_id, task.uuid, found, "an ended task, or an unanswered event")
        return None

    def _event(self, event: EventDefinition) -> Iterator[Finding]:
        if self.store.examine_step(event.step_id) is None and not self._is_purged(event.workflow_id):
            yield Finding("events.step", event.workflow_id, event.id, f"no step {event.step_id}", "its step")

    def _tombstone(self, stone: Tombstone) -> Iterator[Finding]:
        if stone.state not in (PURGING, PURGED):
            yield Finding("tombstones.state", stone.workflow_id, "", stone.state, f"{PURGING} or {PURGED}")
        if self.store.revisions([stone.workflow_id]) and self.store.tombstone(stone.workflow_id) is not None:
            yield Finding(
                "tombstones.workflow", stone.workflow_id, "", "a workflow beside its tombstone", "one of both"
            )

    def _timers(self) -> Iterator[Finding]:
        for page in pages_of_timers(self.store):
            self._count("timers", len(page))
            strays = {finding.subject for finding in timers_without_workflow(self.store, page)}
            timers = {timer.step_id: timer for timer in page if timer.step_id in strays}
            yield from self._lasting(timers, partial(self._stray_timer, timers))

    def _stray_timer(self, timers: Mapping[str, TimerRow], step_id: str) -> list[Finding]:
        timer = timers[step_id]
        is_there = timer in self.store.timers_of(timer.workflow_id)
        return [*timers_without_workflow(self.store, [timer])] if is_there else []

    def _schedules(self) -> Iterator[Finding]:
        after = ""
        while page := self.store.schedules(after=after):
            after = page[-1].id
            self._count("schedules", sum(not row.id.startswith(RESERVED) for row in page))
            for row in page:
                fault = None if self.schedule_fault is None else self.schedule_fault(row)
                if fault is not None:
                    yield Finding("schedule.document", "", row.id, *fault)

    def _outbox(self) -> Iterator[Finding]:
        after = before = 0
        while page := self.store.outbox(after=after):
            after = page[-1].sequence
            self._count("outbox", len(page))
            for stored in page:
                subject = f"outbox {stored.sequence}"
                if stored.sequence <= before:
                    yield Finding("outbox.sequence", "", subject, f"behind {before}", "numbers that grow")
                before = stored.sequence
                yield from self._record(stored.record, subject, stored.sequence)

    def _record(self, record: OutboxRecord, subject: str, sequence: int) -> Iterator[Finding]:
        workflow_id = (record.key or b"").decode("utf-8", "replace").partition(":")[0]
        if not _LANE.match(record.lane):
            yield Finding("outbox.lane", workflow_id, subject, record.lane, "control/NUMBER or writer/ID")
            return
        if self.records is None:
            return
        step_id = self.records.step_of(record)
        if step_id is None:
            return
        own = self.records.lane_of(workflow_id)
        if record.lane.startswith("control/") and record.lane != own:
            yield Finding("outbox.lane", workflow_id, subject, record.lane, f"{own}, its workflow's partition")
        if self.store.examine_step(step_id) is None and self._is_waiting(sequence):
            yield Finding("outbox.step", workflow_id, subject, f"no step {step_id}", "the step that sent the event")

    def _is_waiting(self, sequence: int) -> bool:
        """Say whether an outbox record is still there: it may have been published, and its workflow purged."""
        return any(stored.sequence == sequence for stored in self.store.outbox(after=sequence - 1, limit=1))

    def _parked(self) -> Iterator[Finding]:
        for record in self.store.parked_heads(limit=_MOST_PARKED):
            self._count("parked")
            if record.step_id.partition(":")[0] != record.workflow_id:
                found = f"workflow {record.workflow_id}, step {record.step_id}"
                yield Finding("parked.workflow", record.workflow_id, record.id, found, "a step of the workflow")
            if record.expires_at_ms < record.parked_at_ms:
                found = f"expires at {record.expires_at_ms}, parked at {record.parked_at_ms}"
                yield Finding("parked.expiry", record.workflow_id, record.id, found, "an expiry after the parking")

    def _positions(self) -> Iterator[Finding]:
        seen: dict[tuple[str, str, int], str] = {}
        for place, next_offset in self.store.positions().items():
            self._count("positions")
            subject = f"{place.topic}[{place.partition}] of cluster {place.cluster_id}"
            if next_offset < 0:
                yield Finding("position.offset", "", subject, str(next_offset), "0 or more")
            if place[:3] in seen:
                found = f"topics {seen[place[:3]] or 'unknown'} and {place.topic_id or 'unknown'}"
                yield Finding("position.twice", "", subject, found, "one position of a partition")
            seen[place[:3]] = place.topic_id

    # --- looking at things --------------------------------------------------------------------------------------

    def _lasting(self, keys: Iterable[str], look: Callable[[str], list[Finding] | None]) -> Iterator[Finding]:
        """Yield the findings that persist: each possible fault is read again, after one wait for all of them.

        A key for which `look` returns None is busy.
        """
        wrong = {key: found for key in keys if (found := look(key)) != []}
        for pause_s in _PAUSES_S:
            if not wrong:
                return
            self.pause(pause_s)
            wrong = {key: found for key in wrong if (found := look(key)) != []}
        for key, found in wrong.items():
            if found is None:
                self.busy.append(key)
            else:
                yield from found

    def _is_purged(self, workflow_id: str) -> bool:
        return self.store.tombstone(workflow_id) is not None

    def _count(self, what: str, number: int = 1) -> None:
        if number:
            self.counts[what] = self.counts.get(what, 0) + number
