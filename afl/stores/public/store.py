"""The interface for users that all stores share: public objects over the few row primitives of each store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from afl.core.ids import event_id_of, generation_of, split_event_id
from afl.engine.model.entities import (
    HandlerRegistration,
    LockDefinition,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
)
from afl.engine.model.store import Batch, StepDocument, TaskEnd, WorkflowRow
from afl.engine.model.tombstones import Tombstone
from afl.engine.model.waiting import LibraryFacet
from afl.engine.states import EventState, StepState
from afl.stores.public.history import PublicHistory
from afl.stores.public.persistence import EventDefinition, IterationChanges
from afl.stores.public.run_views import UNDER_WAY, view_run
from afl.stores.public.step import StepDefinition
from afl.stores.public.stored_values import check_entity
from afl.stores.public.tasks import PublicTasks, ended_task
from afl.stores.public.upkeep import PublicUpkeep
from afl.stores.public.views import StepNotes, document_of, view_event, view_step

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class EntityTable:
    """The storage of one kind of entity: its name, its key, and the other fields that it can be found by."""

    name: str
    key: str = "uuid"
    columns: tuple[str, ...] = ()


#: The entities that stores keep whole. Names are stored: never change one.
ENTITY_TABLES: Final[dict[type, EntityTable]] = {
    RunnerDefinition: EntityTable("runners", columns=("state",)),
    TaskDefinition: EntityTable("tasks", columns=("name", "state", "task_list_name", "step_id", "created")),
    LogDefinition: EntityTable("logs", columns=("runner_id",)),
    ServerDefinition: EntityTable("servers"),
    LockDefinition: EntityTable("locks", key="key"),
    HandlerRegistration: EntityTable("handler_registrations", key="facet_name"),
    EventDefinition: EntityTable("events", key="id", columns=("workflow_id",)),
    Tombstone: EntityTable("tombstones", key="workflow_id", columns=("state", "purged_at_ms")),
}

#: The name of the rule, and in SQL of the index, that a step has at most one running task.
RUNNING_TASK_INDEX: Final = "event_stepId_running_unique_index"


_OF_THE_RUNTIME: Final = frozenset(LibraryFacet)


class KeptStep(NamedTuple):
    """A stored step. `notes` exist when it was last saved through the public interface."""

    document: StepDocument
    notes: StepNotes | None = None

    def view(self) -> StepDefinition:
        """Return the step as a public object."""
        return view_step(self.document, self.notes)


@dataclass(slots=True, kw_only=True)
class PublicRows:
    """The rows of one public write, stored together."""

    steps: dict[str, KeptStep] = field(default_factory=dict)
    #: Rows of the engine's workflows of these steps, each with its revision increased by one.
    workflows: dict[str, WorkflowRow] = field(default_factory=dict)
    #: Events that belong to no step of the engine.
    events: list[EventDefinition] = field(default_factory=list)
    tasks: list[TaskDefinition] = field(default_factory=list)


class PublicStore(PublicHistory, PublicUpkeep, PublicTasks):
    """`PersistenceAPI`, implemented over row primitives.

    Saving data of an engine's step increases its workflow's revision, so that a process that has the workflow in memory
    notices. Steps of workflows that the engine does not know are kept too, with revision 0.
    """

    # The primitives of a store.

    @abstractmethod
    def commit_batch(self, batch: Batch) -> int: ...

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        """Write the batch at once: there is nothing to wait for."""
        first_sequence = self.commit_batch(batch)
        return lambda: first_sequence

    @abstractmethod
    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    @abstractmethod
    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]: ...

    @abstractmethod
    def _find_step(self, step_id: str) -> KeptStep | None: ...

    @abstractmethod
    def _steps_of(self, workflow_id: str) -> list[KeptStep]:
        """Return the workflow's steps in order of creation."""

    @abstractmethod
    def _any_step_of(self, workflow_id: str) -> KeptStep | None: ...

    @abstractmethod
    def _steps_near(self, related_id: str) -> Iterable[KeptStep]:
        """Return at least every step that names this id as its block or container, workflow by workflow in order."""

    @abstractmethod
    def _all_steps(self, *, state: str | None = None) -> Iterable[KeptStep]:
        """Return all steps, or those in one state; a workflow's in order of creation."""

    @abstractmethod
    def _next_number(self, workflow_id: str) -> int:
        """Return the number of the next step of a workflow without a row."""

    @abstractmethod
    def _waiting_keys(self, key: bytes | None = None) -> set[bytes]:
        """Return the keys of the records in the outbox: all of them, or only this key if it is there."""

    @abstractmethod
    def _open_of(self, workflow_id: str) -> tuple[set[bytes], set[str]]:
        """Return the keys of a workflow's steps in the outbox, and the ids of its running tasks of events."""

    @abstractmethod
    def _apply(self, rows: PublicRows) -> None:
        """Write the rows; called inside `_exclusive`."""

    # Steps.

    def load_step(self, step_id: str) -> StepDocument | None:
        """Return a step by its id; see `Store`."""
        kept = self._find_step(step_id)
        return None if kept is None else kept.document

    def get_step(self, step_id: str) -> StepDefinition | None:
        """Return the step of that id."""
        kept = self._find_step(step_id)
        return None if kept is None else kept.view()

    def get_steps_by_block(self, block_id: str) -> list[StepDefinition]:
        """Return the steps of a block."""
        return [kept.view() for kept in self._steps_near(block_id) if kept.document.block_id == block_id]

    def get_steps_by_workflow(self, workflow_id: str) -> list[StepDefinition]:
        """Return the steps of a workflow in order of creation."""
        return [kept.view() for kept in self._steps_of(workflow_id)]

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        """Return every step in a state."""
        return [kept.view() for kept in self._all_steps(state=state)]

    def get_steps_by_container(self, container_id: str) -> list[StepDefinition]:
        """Return the steps whose container is that step."""
        return [kept.view() for kept in self._steps_near(container_id) if kept.document.container_id == container_id]

    def get_blocks_by_step(self, step_id: str) -> list[StepDefinition]:
        """Return the block steps whose container is that step."""
        return [step for step in self.get_steps_by_container(step_id) if step.is_block]

    def get_workflow_root(self, workflow_id: str) -> StepDefinition | None:
        """Return the step without container and root; after a re-run, the currently valid one."""
        row = self.load_workflow(workflow_id)
        # In a workflow of the engine the root is one that it made, whatever else was saved for the workflow.
        starts_with = "" if row is None else workflow_id
        if row is not None and row.execution > 1:
            roots = [kept for kept in self._steps_of(workflow_id) if _is_root(kept.document, starts_with)]
            return max(roots, key=lambda kept: generation_of(kept.document.id).number).view() if roots else None
        # Every step of a run names its root: a single one is enough to find it.
        sample = self._any_step_of(workflow_id)
        if sample is None:
            return None
        root = sample if sample.document.root_id is None else self._find_step(sample.document.root_id)
        if root is not None and _is_root(root.document, starts_with) and root.document.workflow_id == workflow_id:
            return root.view()
        steps = self._steps_of(workflow_id)
        return next((kept.view() for kept in steps if _is_root(kept.document, starts_with)), None)

    def step_exists(self, statement_id: str, block_id: str | None) -> bool:
        """Say whether the statement has a step in that block."""
        candidates = self._all_steps() if block_id is None else self._steps_near(block_id)
        return any(
            kept.document.statement_id == statement_id and kept.document.block_id == block_id for kept in candidates
        )

    def get_all_steps(self) -> list[StepDefinition]:
        """Return every step."""
        return [kept.view() for kept in self._all_steps()]

    def step_count(self) -> int:
        """Return the number of steps."""
        return sum(1 for _ in self._all_steps())

    def save_step(self, step: StepDefinition) -> None:
        """Insert or replace a step.

        Raises ValueError for a step of another workflow, and for a different version of a step that is complete in a
        workflow of the engine; ValueRefused for an attribute that is not an AFL value.
        """
        self.commit(IterationChanges(updated_steps=[step]))

    def commit(self, changes: IterationChanges) -> None:
        """Write everything in `changes`, all or nothing. Raises as `save_step`."""
        for entity in (*changes.created_events, *changes.updated_events, *changes.created_tasks):
            check_entity(entity)
        with self._exclusive():
            rows = PublicRows(tasks=list(changes.created_tasks))
            numbers: dict[str, int] = {}
            for step in (*changes.created_steps, *changes.updated_steps):
                self._keep_step(step, rows, numbers)
            for event in (*changes.created_events, *changes.updated_events):
                self._keep_event(event, rows)
            self._apply(rows)

    def _keep_step(self, step: StepDefinition, rows: PublicRows, numbers: dict[str, int]) -> None:
        before = rows.steps.get(step.id) or self._find_step(step.id)
        if before is not None and before.document.workflow_id != step.workflow_id:
            raise ValueError(
                f"step {step.id} belongs to workflow {before.document.workflow_id}, not {step.workflow_id}"
            )
        workflow_id = step.workflow_id
        row = self._bumped(workflow_id, rows)
        number = 0
        if before is None:
            if workflow_id not in numbers:
                numbers[workflow_id] = self._next_number(workflow_id) if row is None else row.steps
            number = numbers[workflow_id]
            numbers[workflow_id] = number + 1
            if row is not None:
                rows.workflows[workflow_id] = row._replace(steps=number + 1)
        document, notes = document_of(
            step,
            number=number,
            revision=0 if row is None else row.revision,
            before=None if before is None else before.document,
        )
        if row is not None and before is not None and _is_other(before.document, document):
            raise ValueError(f"step {step.id} is complete: it can't change any more")
        rows.steps[step.id] = KeptStep(document, notes)
        if before is not None and before.document.event_state != document.event_state:
            self._end_task_of(document, rows)

    def _end_task_of(self, document: StepDocument, rows: PublicRows) -> None:
        """Return the end of the task that carried the event of a step which now has its answer."""
        task = self.get_task(event_id_of(document.id, document.attempt))
        if task is not None:
            ended = ended_task(task, TaskEnd.of_answer(task.uuid, document.error), self._clock.now_ms())
            rows.tasks += [] if ended is None else [ended]

    def _bumped(self, workflow_id: str, rows: PublicRows) -> WorkflowRow | None:
        """Return the workflow's row after this write; None for a workflow that the engine does not know."""
        row = rows.workflows.get(workflow_id)
        if row is None:
            row = self.load_workflow(workflow_id)
            if row is not None:
                row = row._replace(revision=row.revision + 1, updated_at_ms=self._clock.now_ms())
                rows.workflows[workflow_id] = row
        return row

    # Events.

    def get_event(self, event_id: str) -> EventDefinition | None:
        """Return the event of that id.

        An event of the engine is a view of its step: it exists for the current attempt. It is Dispatched once its
        record has left the outbox, and Processing while its task is claimed.
        """
        kept = self._step_of_event(event_id)
        if kept is None:
            return self._get(EventDefinition, event_id)
        document = kept.document
        if document.event_state != EventState.CREATED:
            return view_event(document)
        task = self._get(TaskDefinition, event_id)
        claimed = task is not None and task.state == TaskState.RUNNING
        dispatched = not claimed and self._has_lane(document) and not self._waiting_keys(document.id.encode())
        return view_event(document, dispatched=dispatched, claimed=claimed)

    def get_waiting_events(self, workflow_id: str) -> list[EventDefinition]:
        """Return the unanswered events of a workflow's steps, in order of the steps' creation."""
        documents = [
            document
            for document in self.load_steps(workflow_id, state=StepState.EVENT_TRANSMIT)
            if EventState.is_asked(document.event_state)
        ]
        if not documents:
            return []
        has_lane = self._has_lane(documents[0])
        waiting, claimed = self._open_of(workflow_id)
        return [
            view_event(
                document,
                dispatched=has_lane and document.id.encode() not in waiting,
                claimed=event_id_of(document.id, document.attempt) in claimed,
            )
            for document in documents
        ]

    def get_all_events(self) -> list[EventDefinition]:
        """Return every event: those of the engine's steps, then those saved separately."""
        waiting, claimed = self._waiting_keys(), self._claimed_tasks()
        lanes: dict[str, bool] = {}
        events = []
        for kept in self._all_steps():
            document = kept.document
            if _has_event(document):
                if document.workflow_id not in lanes:
                    lanes[document.workflow_id] = self._has_lane(document)
                gone = lanes[document.workflow_id] and document.id.encode() not in waiting
                is_claimed = event_id_of(document.id, document.attempt) in claimed
                events.append(view_event(document, dispatched=gone, claimed=is_claimed))
        return events + self._select(EventDefinition)

    def event_count(self) -> int:
        """Return the number of events."""
        return len(self.get_all_events())

    def save_event(self, event: EventDefinition) -> None:
        """Insert or replace an event; of an engine's event, only the state can change."""
        self.commit(IterationChanges(updated_events=[event]))

    def _keep_event(self, event: EventDefinition, rows: PublicRows) -> None:
        kept = self._step_of_event(event.id, rows)
        if kept is None:
            rows.events.append(event)
        elif kept.document.event_state != event.state:
            row = self._bumped(kept.document.workflow_id, rows)
            document = kept.document._replace(event_state=event.state, revision=0 if row is None else row.revision)
            notes = None if kept.notes is None else kept.notes._replace(revision=document.revision)
            rows.steps[document.id] = KeptStep(document, notes)

    def _step_of_event(self, event_id: str, rows: PublicRows | None = None) -> KeptStep | None:
        parts = split_event_id(event_id)
        if parts is None:
            return None
        step_id, attempt = parts
        kept = (rows.steps.get(step_id) if rows is not None else None) or self._find_step(step_id)
        if kept is None or not _has_event(kept.document) or kept.document.attempt != attempt:
            return None
        return kept

    def _claimed_tasks(self) -> set[str]:
        """Return the ids of the claimed tasks, which are those of their events."""
        return {task.uuid for task in self._select(TaskDefinition, state=TaskState.RUNNING)}

    def _has_lane(self, document: StepDocument) -> bool:
        """Say whether the step's event travels through the outbox."""
        row = self.load_workflow(document.workflow_id)
        return row is not None and row.lane != ""

    # Runners, logs, servers, registrations.

    def get_runner(self, runner_id: str) -> RunnerDefinition | None:
        """Return the runner of that id; the engine's row decides how its workflow ended."""
        run = self._get(RunnerDefinition, runner_id)
        return None if run is None else self._seen_run(run)

    def save_runner(self, runner: RunnerDefinition) -> None:
        """Insert or replace a runner."""
        check_entity(runner)
        self._put(runner)

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        """Return the runners in a state."""
        stored = (run for under_way in dict.fromkeys((state, *UNDER_WAY)) for run in self._runs_stored_as(under_way))
        return [run for run in stored if run.state == state]

    def _runs_stored_as(self, state: str) -> list[RunnerDefinition]:
        return [self._seen_run(run) for run in self._select(RunnerDefinition, state=state)]

    def _seen_run(self, run: RunnerDefinition) -> RunnerDefinition:
        if run.state not in UNDER_WAY:
            return run
        return view_run(run, self.load_workflow(run.workflow_id) or self._get(Tombstone, run.workflow_id))

    def save_log(self, log: LogDefinition) -> None:
        """Insert or replace a log entry."""
        check_entity(log)
        self._put(log)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        """Return a runner's log entries by their order."""
        return sorted(self._select(LogDefinition, runner_id=runner_id), key=lambda log: log.order)

    def get_server(self, server_id: str) -> ServerDefinition | None:
        """Return the server of that id."""
        return self._get(ServerDefinition, server_id)

    def save_server(self, server: ServerDefinition) -> None:
        """Insert or replace a server."""
        check_entity(server)
        self._put(server)

    def update_server_ping(self, server_id: str, ping_ms: int) -> None:
        """Note a server's heartbeat; does nothing for an unknown server."""
        with self._exclusive():
            server = self._get(ServerDefinition, server_id)
            if server is not None:
                self._put(replace(server, ping_time=ping_ms))

    def get_all_servers(self) -> list[ServerDefinition]:
        """Return every server."""
        return self._select(ServerDefinition)

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        """Insert or replace the registration of a facet."""
        check_entity(registration)
        self._put(registration)

    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None:
        """Return the registration of a facet."""
        return self._get(HandlerRegistration, facet_name)

    def list_handler_registrations(self) -> list[HandlerRegistration]:
        """Return every registration."""
        return self._select(HandlerRegistration)

    def delete_handler_registration(self, facet_name: str) -> bool:
        """Delete a registration; False when there is none."""
        return self._remove(HandlerRegistration, facet_name)


def _is_root(document: StepDocument, starts_with: str) -> bool:
    is_top = document.container_id is None and document.root_id is None
    return is_top and document.id.startswith(starts_with)


def _has_event(document: StepDocument) -> bool:
    """Say whether a step has sent an event: one that the runtime itself answers has none."""
    return bool(document.event_state) and document.facet_name not in _OF_THE_RUNTIME


def _is_other(before: StepDocument, after: StepDocument) -> bool:
    """Say whether a write would change a complete step."""
    return before.state == StepState.STATEMENT_COMPLETE and before != after._replace(revision=before.revision)
