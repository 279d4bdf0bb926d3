"""What a store keeps, what one commit writes, and the two faces of every store.

`Store` is what the engine and the control loop use: rows and batches. `PersistenceAPI` is the face for users: steps,
events, tasks, locks and registrations as public objects. Each store has both; tests/contract/store_contract.py is the
contract that all of them keep.

Rules for every adapter
  * A batch is all or nothing, and durable when `commit_batch` returns.
  * What is read is the caller's own: changing it changes nothing in the store. What was handed in for writing is
    never changed by the store; a `StepDocument` is immutable by agreement, nested values included.
  * Revisions guard workflows: a change names the revision that it was made from, and the whole batch is refused
    when another writer was first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self, runtime_checkable

from afl.runtime.entities import (
    HandlerRegistration,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
)
from afl.runtime.parked import ParkedHead as ParkedHead
from afl.runtime.parked import ParkedRecord as ParkedRecord
from afl.runtime.parked import ParkedStore as ParkedStore
from afl.runtime.parked import ParkedUsage as ParkedUsage
from afl.runtime.parked import ParkedWorkflow as ParkedWorkflow
from afl.runtime.step import StepDefinition
from afl.runtime.step_rows import ErrorRecord as ErrorRecord
from afl.runtime.step_rows import StepDocument as StepDocument
from afl.runtime.store_identity import IdentifiedStore
from afl.runtime.types import Value
from afl.runtime.upkeep import Upkeep
from afl.runtime.workflow_rows import CANCELLED as CANCELLED
from afl.runtime.workflow_rows import COMPLETED as COMPLETED
from afl.runtime.workflow_rows import ENDED_STATUSES as ENDED_STATUSES
from afl.runtime.workflow_rows import ERROR as ERROR
from afl.runtime.workflow_rows import PAUSED as PAUSED
from afl.runtime.workflow_rows import RUNNING as RUNNING
from afl.runtime.workflow_rows import RunningChange as RunningChange
from afl.runtime.workflow_rows import WorkflowChange as WorkflowChange
from afl.runtime.workflow_rows import WorkflowRow as WorkflowRow


class OutboxRecord(NamedTuple):
    """A record to publish: encoded before the commit that carries it, so that publishing can meet no bad value."""

    #: Who publishes it: `control/<partition>` or `writer/<id>`.
    lane: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class StoredOutboxRecord(NamedTuple):
    """An outbox record that waits in the store. `sequence` grows over the whole store."""

    sequence: int
    created_at_ms: int
    record: OutboxRecord


class Position(NamedTuple):
    """A place in a log: reading goes on at `next_offset`.

    The topic's id is part of what it is: a topic deleted and made again is another log. "": not known, as in rows of
    stores that did not keep it.
    """

    cluster_id: str
    topic: str
    partition: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionMove:
    """Advance a position by compare-and-set. `expected` None: there is none yet.

    With `replaces`, `expected` is what the store has under that other identity of the same place: its row goes, and
    this one takes over. The store must have none under this one's own identity.
    """

    position: Position
    expected: int | None
    next_offset: int
    replaces: Position | None = None


class TaskEnd(NamedTuple):
    """A task that an answer, or its workflow's end, is the end of. Nothing happens to one that has ended already."""

    task_id: str
    #: A TaskState constant.
    state: str
    #: What is said of a failed one.
    message: str = ""

    @classmethod
    def of_answer(cls, task_id: str, error: ErrorRecord | None) -> Self:
        """The end of a task whose event is answered: by a failure when there is an error."""
        if error is None:
            return cls(task_id, TaskState.COMPLETED)
        return cls(task_id, TaskState.FAILED, error.message)


@dataclass(slots=True, kw_only=True)
class Batch:
    """Everything that one commit writes."""

    changes: list[WorkflowChange] = field(default_factory=list)
    #: Decisions that write nothing: workflow id to the revision they relied on (0: no such workflow). The batch is
    #: refused when it is another one, so that no answer is lost on stale memory.
    confirms: dict[str, int] = field(default_factory=dict)
    outbox: list[OutboxRecord] = field(default_factory=list)
    #: Inclusive ranges of outbox sequence numbers that were published: their rows go.
    published: list[tuple[int, int]] = field(default_factory=list)
    positions: list[PositionMove] = field(default_factory=list)
    parked: list[ParkedRecord] = field(default_factory=list)
    #: Ids of parked records that are done with.
    unparked: list[str] = field(default_factory=list)
    #: Tasks made or changed (dispatch mode `task`).
    tasks: list[TaskDefinition] = field(default_factory=list)
    #: Tasks that end with this commit; ids of tasks that are not there are passed over.
    task_ends: list[TaskEnd] = field(default_factory=list)
    #: Entries of the step log; upserts by id, so that what is done twice is told once.
    logs: list[LogDefinition] = field(default_factory=list)
    #: Programs to keep: fingerprint to the compiled program's text.
    programs: dict[str, bytes] = field(default_factory=dict)
    #: What stands beside the texts of these programs, by fingerprint: their annotations.
    annotations: dict[str, bytes] = field(default_factory=dict)
    #: The time of the commit, ms since the epoch (outbox rows remember it).
    now_ms: int = 0
    #: Whether the engine has made it, whose values were looked at where they came in. Stores look at those of others.
    values_checked: bool = False

    @property
    def has_changes_only(self) -> bool:
        """Whether it changes workflows and their steps and nothing else, as an iteration without events does."""
        return not (
            self.outbox
            or self.tasks
            or self.task_ends
            or self.logs
            or self.positions
            or self.published
            or self.confirms
            or self.parked
            or self.unparked
            or self.programs
        )


class ChangesOnly(Batch):
    """A batch that is never given anything but changes: a commit that repeats for every iteration asks no more."""

    __slots__ = ()

    has_changes_only = True


class Store(ParkedStore, Protocol):
    """The engine's face of a store."""

    def commit_batch(self, batch: Batch) -> int:
        """Write all of the batch in one transaction; return the sequence number of its first outbox record (they are
        numbered without gaps; 0 when it has none).

        ValueRefused, before all else, for what is no AFL value in a batch that is not the engine's own. In this order:
        revisions and confirms (WorkflowConflict names every workflow that lost), positions
        (PositionLost), then the rows. Nothing is written when one of them is refused. Steps and parked records are
        upserts by id; programs are written once, and the newest annotations of each are kept.
        """

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        """The workflow's steps in order of creation.

        With `newer_than` those that later revisions wrote only, with `state` those in that state only.
        """

    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """The current revision of each; unknown ones are left out."""

    def list_workflows(
        self, *, status: str | None = None, name: str | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Newest first."""

    def runnable_workflows(self, *, limit: int = 1_000) -> list[str]:
        """Ids of workflows that have more to do now, oldest first."""

    def load_program(self, fingerprint: str) -> bytes | None: ...

    def load_annotations(self, fingerprint: str) -> bytes | None:
        """Source places and doc comments of a program, as they came with its newest start; None where none came."""

    def outbox(
        self,
        *,
        lane: str | None = None,
        older_than_ms: int | None = None,
        newer_than_ms: int | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[StoredOutboxRecord]:
        """Waiting records with a sequence above `after`, in sequence order; of one lane, or of all; with
        `older_than_ms`, those created before that time, and with `newer_than_ms` too, also those created after that."""

    def lanes(self) -> list[str]:
        """The lanes that have waiting records."""

    def positions(self) -> dict[Position, int]: ...

    def prefix(self) -> str:
        """The topic prefix that this store belongs to."""

    def close(self) -> None: ...


@dataclass
class EventDefinition:
    """A step's event, as a public view."""

    id: str
    step_id: str
    workflow_id: str
    state: str
    event_type: str
    payload: dict[str, Value] = field(default_factory=dict)


@dataclass
class IterationChanges:
    """What one iteration made and changed, as public objects."""

    created_steps: list[StepDefinition] = field(default_factory=list)
    updated_steps: list[StepDefinition] = field(default_factory=list)
    created_events: list[EventDefinition] = field(default_factory=list)
    updated_events: list[EventDefinition] = field(default_factory=list)
    created_tasks: list[TaskDefinition] = field(default_factory=list)
    _created_ids: set[str] = field(default_factory=set, repr=False, compare=False)
    _updated_at: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def add_created_step(self, step: StepDefinition) -> None:
        """Note a new step; a second one of the same id is dropped."""
        if step.id not in self._created_ids:
            self._created_ids.add(step.id)
            self.created_steps.append(step)

    def add_updated_step(self, step: StepDefinition) -> None:
        """Note a changed step; a later change of the same step takes the place of the earlier one."""
        at = self._updated_at.get(step.id)
        if at is None:
            self._updated_at[step.id] = len(self.updated_steps)
            self.updated_steps.append(step)
        else:
            self.updated_steps[at] = step

    def add_created_event(self, event: EventDefinition) -> None:
        self.created_events.append(event)

    def add_updated_event(self, event: EventDefinition) -> None:
        self.updated_events.append(event)

    def add_created_task(self, task: TaskDefinition) -> None:
        self.created_tasks.append(task)

    @property
    def has_changes(self) -> bool:
        return bool(
            self.created_steps or self.updated_steps or self.created_events or self.updated_events or self.created_tasks
        )

    def clear(self) -> None:
        """Forget everything noted so far."""
        for noted in (self.created_steps, self.updated_steps, self.created_events, self.updated_events):
            noted.clear()
        self.created_tasks.clear()
        self._created_ids.clear()
        self._updated_at.clear()


@runtime_checkable
class PersistenceAPI(Protocol):
    """The users' face of a store."""

    def get_step(self, step_id: str) -> StepDefinition | None: ...
    def get_steps_by_block(self, block_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_workflow(self, workflow_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_state(self, state: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_container(self, container_id: str) -> Sequence[StepDefinition]: ...
    def get_blocks_by_step(self, step_id: str) -> Sequence[StepDefinition]:
        """The block steps whose container is that step."""

    def get_workflow_root(self, workflow_id: str) -> StepDefinition | None:
        """The step without container and root."""

    def step_exists(self, statement_id: str, block_id: str | None) -> bool: ...
    def save_step(self, step: StepDefinition) -> None: ...
    def get_event(self, event_id: str) -> EventDefinition | None: ...
    def save_event(self, event: EventDefinition) -> None: ...
    def commit(self, changes: IterationChanges) -> None:
        """Write everything in `changes`, all or nothing."""

    def get_runner(self, runner_id: str) -> RunnerDefinition | None: ...
    def save_runner(self, runner: RunnerDefinition) -> None: ...
    def get_runners_by_state(self, state: str) -> Sequence[RunnerDefinition]: ...
    def get_pending_tasks(self, task_list: str) -> Sequence[TaskDefinition]: ...
    def save_task(self, task: TaskDefinition) -> None: ...
    def claim_task(
        self, task_names: list[str], task_list: str = "default", *, owner: str = "", lease_ms: int = 0
    ) -> TaskDefinition | None:
        """Move the oldest matching pending task to running and return it; no two callers get the same one.

        With `lease_ms`, the claim is the owner's for that long; `renew_leases` holds it for longer.
        """

    def save_log(self, log: LogDefinition) -> None: ...
    def get_logs_by_runner(self, runner_id: str) -> Sequence[LogDefinition]: ...
    def acquire_lock(self, key: str, duration_ms: int, meta: LockMetaData | None = None) -> bool: ...
    def release_lock(self, key: str) -> bool: ...
    def check_lock(self, key: str) -> LockDefinition | None: ...
    def extend_lock(self, key: str, duration_ms: int) -> bool: ...
    def save_handler_registration(self, registration: HandlerRegistration) -> None: ...
    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None: ...
    def list_handler_registrations(self) -> Sequence[HandlerRegistration]: ...
    def delete_handler_registration(self, facet_name: str) -> bool: ...


class TaskStore(Protocol):
    """What pollers and runners need of a store besides `PersistenceAPI`: leases, and the record of themselves."""

    def get_task(self, task_id: str) -> TaskDefinition | None: ...
    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """The names of the tasks of a list that wait to be claimed."""

    def renew_leases(self, task_ids: Sequence[str], owner: str, lease_ms: int) -> list[str]:
        """Hold these claims until that long from now; return the ids of those that are the owner's no longer.
        `lease_ms` 0: for ever."""

    def requeue_expired_tasks(self) -> list[str]:
        """Let the tasks be claimed again whose lease has run out; return their ids."""

    def leased_tasks(self) -> list[TaskDefinition]:
        """The running tasks that are claimed for a time, whether that has run out or not."""

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        """Move a task that runs for this owner to its end state; False when it does not."""

    def give_task_back(self, task_id: str, owner: str) -> bool:
        """Let others claim a task that runs for this owner; False when it does not."""

    def get_server(self, server_id: str) -> ServerDefinition | None: ...
    def save_server(self, server: ServerDefinition) -> None: ...
    def update_server_ping(self, server_id: str, ping_ms: int) -> None: ...
    def get_all_servers(self) -> Sequence[ServerDefinition]: ...


class EngineStore(Store, PersistenceAPI, TaskStore, Upkeep, IdentifiedStore, Protocol):
    """A store with all its faces, as every adapter is."""

    def get_waiting_events(self, workflow_id: str) -> Sequence[EventDefinition]:
        """The events of a workflow's steps that have no answer yet, in order of the steps' creation."""
