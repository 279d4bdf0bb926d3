"""The port of a store: the rows that it keeps, and the writes of one commit.

`Store` is what the engine and the control loop use: rows and batches. `PersistenceAPI` (persistence.py) is the face for
users. tests/contract/store_contract.py is the contract that all stores keep.

Rules for every adapter
  * A batch is all or nothing, and durable when `commit_batch` returns.
  * What is read is the caller's own: changing it changes nothing in the store. What was handed in for writing is
    never changed by the store; a `StepDocument` is immutable by agreement, nested values included.
  * Revisions guard workflows: a change names the revision that it was made from, and the whole batch is refused
    when another writer was first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from afl.engine.model.entities import LogDefinition, TaskDefinition, TaskState
from afl.engine.model.history import EarlyWorkflow as EarlyWorkflow
from afl.engine.model.history import HistoryKind as HistoryKind
from afl.engine.model.history import HistoryRow as HistoryRow
from afl.engine.model.history import HistoryStore as HistoryStore
from afl.engine.model.parked import ParkedHead as ParkedHead
from afl.engine.model.parked import ParkedRecord as ParkedRecord
from afl.engine.model.parked import ParkedStore as ParkedStore
from afl.engine.model.parked import ParkedUsage as ParkedUsage
from afl.engine.model.parked import ParkedWorkflow as ParkedWorkflow
from afl.engine.model.schedules import ScheduleChange as ScheduleChange
from afl.engine.model.schedules import ScheduleRow as ScheduleRow
from afl.engine.model.schedules import ScheduleStore as ScheduleStore
from afl.engine.model.step_rows import ErrorRecord as ErrorRecord
from afl.engine.model.step_rows import LiveStep as LiveStep
from afl.engine.model.step_rows import OpenRun as OpenRun
from afl.engine.model.step_rows import RetryRecord as RetryRecord
from afl.engine.model.step_rows import StepDocument as StepDocument
from afl.engine.model.step_rows import StepRow as StepRow
from afl.engine.model.step_rows import StoredStep as StoredStep
from afl.engine.model.timers import TimerKind as TimerKind
from afl.engine.model.timers import TimerRow as TimerRow
from afl.engine.model.timers import TimerStore as TimerStore
from afl.engine.model.visibility import ProgramUse as ProgramUse
from afl.engine.model.visibility import VisibilityStore as VisibilityStore
from afl.engine.model.visibility import WorkflowFilter as WorkflowFilter
from afl.engine.model.visibility import WorkflowPlace as WorkflowPlace
from afl.engine.model.workflow_rows import CANCELLED as CANCELLED
from afl.engine.model.workflow_rows import COMPLETED as COMPLETED
from afl.engine.model.workflow_rows import ENDED_STATUSES as ENDED_STATUSES
from afl.engine.model.workflow_rows import ERROR as ERROR
from afl.engine.model.workflow_rows import PAUSED as PAUSED
from afl.engine.model.workflow_rows import RUNNING as RUNNING
from afl.engine.model.workflow_rows import UNFINISHED_STATUSES as UNFINISHED_STATUSES
from afl.engine.model.workflow_rows import RunningChange as RunningChange
from afl.engine.model.workflow_rows import WorkflowChange as WorkflowChange
from afl.engine.model.workflow_rows import WorkflowHead as WorkflowHead
from afl.engine.model.workflow_rows import WorkflowRow as WorkflowRow


class OutboxRecord(NamedTuple):
    """A record to publish: encoded before the commit that carries it, so that publishing can meet no bad value."""

    #: Who publishes it: `control/<partition>` or `writer/<id>`.
    lane: str
    topic: str
    key: bytes | None
    value: bytes | None
    #: Bytes are headers in a short form of the writer's own, which does not begin with [. Stores keep them as they are.
    headers: tuple[tuple[str, bytes | None], ...] | bytes = ()


class StoredOutboxRecord(NamedTuple):
    """An outbox record that waits in the store. `sequence` grows over the whole store."""

    sequence: int
    created_at_ms: int
    record: OutboxRecord


class Position(NamedTuple):
    """A position in a log: reading continues at `next_offset`.

    The topic's id is part of what it is: a recreated topic is another log. "": not known, as in rows of
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
        """Return the end of a task whose event is answered: by a failure when there is an error."""
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
    #: Entries of the step log; upserts by id, so that repeated work has one entry.
    logs: list[LogDefinition] = field(default_factory=list)
    #: Timers that steps begin with; upserts by step.
    timers: list[TimerRow] = field(default_factory=list)
    #: Ids of steps whose timer is done with; ids without a timer are passed over. A step that is in `timers` too keeps
    #: that one.
    timers_done: list[str] = field(default_factory=list)
    #: New rows of histories. The batch is refused, with WorkflowConflict, when another writer has used a number.
    history: list[HistoryRow] = field(default_factory=list)
    #: Rows of histories that have changed (an event was taken, or dropped).
    history_changes: list[HistoryRow] = field(default_factory=list)
    #: Workflow id to an execution: rows of earlier executions go, except pending events.
    history_trims: dict[str, int] = field(default_factory=dict)
    #: Changes of schedules. The batch is refused, with WorkflowConflict, when one is not at its expected revision.
    schedules: list[ScheduleChange] = field(default_factory=list)
    #: Programs to keep: fingerprint to the compiled program's text.
    programs: dict[str, bytes] = field(default_factory=dict)
    #: The annotations of these programs, by fingerprint.
    annotations: dict[str, bytes] = field(default_factory=dict)
    #: The time of the commit, ms since the epoch (outbox rows remember it).
    now_ms: int = 0
    #: Whether the engine has made it, whose values were looked at where they came in. Stores look at those of others.
    values_checked: bool = False

    @property
    def has_changes_only(self) -> bool:
        """Return whether it changes workflows and their steps and nothing else, as an iteration without events does."""
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
            or self.timers
            or self.timers_done
            or self.history
            or self.history_changes
            or self.history_trims
            or self.schedules
        )


class ChangesOnly(Batch):
    """A batch that is never given anything but changes: a commit that repeats for every iteration asks no more."""

    __slots__ = ()

    has_changes_only = True


class Store(ParkedStore, TimerStore, HistoryStore, ScheduleStore, VisibilityStore, Protocol):
    """The engine's face of a store."""

    def commit_batch(self, batch: Batch) -> int:
        """Write all of the batch in one transaction; return the sequence number of its first outbox record (they are
        numbered without gaps; 0 when it has none).

        Raises ValueRefused, before any other check, for a value that is not an AFL value in a batch that is not the
        engine's own. The order is: revisions and confirms, then new numbers of histories, then schedules
        (WorkflowConflict names every workflow or schedule that lost), positions (PositionLost), then the rows. A change
        that `replaces` deletes the workflow's other rows first: steps, timers, and ended tasks and log entries. If one
        of them is refused, nothing is written. Steps and parked records are upserts by id; programs are written once,
        and the newest annotations of each are kept.
        """

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        """Do what a commit takes of this thread's time; the function that is returned waits for the rest.

        Both together are `commit_batch`, and either may raise what that raises. The function must be called once, and
        any thread may call it. Until it returns, other writers of this object may wait, and readers may see either
        state. The batch is encoded when this returns: what it was made of may change.
        """

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        """Return the workflow's steps in order of creation.

        With `newer_than` those that later revisions wrote only, with `state` those in that state only.
        """

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        """Return the workflow's steps, in any order: complete ones in the form in which they are stored, where that is
        cheaper. It is all that is needed to continue the run.
        """

    def load_open(self, workflow_id: str) -> OpenRun | None:
        """Return the workflow's steps that are not complete; None: the complete ones are read as cheaply with them."""

    def load_step(self, step_id: str) -> StepDocument | None:
        """Return a step of a workflow by its id."""

    def revisions(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the current revision of each; unknown ones are left out."""

    def list_workflows(
        self, *, status: str | None = None, name: str | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Newest first."""

    def workflow_heads(self, *, status: str, limit: int = 1_000) -> list[WorkflowHead]:
        """Return what is known of the workflows in a status without their documents, newest first."""

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
        """Return the waiting records with a sequence above `after`, in sequence order; of one lane, or of all; with
        `older_than_ms`, those created before that time, and with `newer_than_ms` too, also those created after that.
        """

    def lanes(self) -> list[str]:
        """Return the lanes that have waiting records."""

    def positions(self) -> dict[Position, int]: ...

    def prefix(self) -> str:
        """Return the topic prefix that this store belongs to."""

    def close(self) -> None: ...
