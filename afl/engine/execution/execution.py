"""A workflow in memory: its steps, the steps that may run next, and the changes since the last commit.

Iterations. What happens to a step in one iteration is seen by its block and its container from the next one on; steps
made in an iteration run in that same iteration. So endings are collected while an iteration runs and told to those who
wait when it is over (execution/waits.py), which fills the queue of the next. Work is proportional to what happened.

What is made of a workflow's steps is in making.py, events and their answers in events.py, scripts in scripts.py.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping

from afl.core.ids import derived_id
from afl.core.limits import MAX_CLASS_CHARS
from afl.core.text.exception_text import exception_class, exception_text
from afl.core.text.printable import bounded
from afl.engine.errors import RunLimitReached, StepFailure, StoreCorrupt, StoreUnavailable
from afl.engine.execution.generations import LaterGeneration
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.iteration_room import IterationRoom
from afl.engine.execution.leaving import Leaving
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.runtime_waits import withdraw_all
from afl.engine.execution.step_paths import failure_of, line_of, source_location, step_path
from afl.engine.execution.waits import InnerFailure
from afl.engine.limits import MAX_ERROR_CHARS
from afl.engine.model.effects import empty_effects
from afl.engine.model.plan import BlockPlan, WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import BlockIds, BoundStep
from afl.engine.model.store import (
    CANCELLED,
    COMPLETED,
    ENDED_STATUSES,
    ERROR,
    PAUSED,
    RUNNING,
    Batch,
    ErrorRecord,
    StepRow,
    WorkflowRow,
)
from afl.engine.states import StepState
from afl.engine.types import ObjectType, Value

_log = logging.getLogger(__name__)


class Execution:
    """One execution of a workflow, live: its steps, and what has happened since the last commit.

    `Execution.started` makes a new one, `restore` reads one back from its rows. Not thread-safe: one thread has it at a
    time.
    """

    __slots__ = (
        "_effects",
        "_failure_text",
        "bound_steps",
        "bounds",
        "cancelled",
        "count",
        "created_at_ms",
        "deadlines",
        "dirty",
        "dispatch",
        "documents",
        "end_was_reported",
        "ended",
        "ended_at_ms",
        "event_waits",
        "execution",
        "executions_before",
        "has_caught",
        "has_effects",
        "has_timers",
        "held_events",
        "id",
        "inbox",
        "inputs",
        "is_ended",
        "iterations",
        "lane",
        "later",
        "leaving",
        "load_step",
        "made",
        "max_open_events",
        "new_scripts",
        "next_inputs",
        "now_ms",
        "open_events",
        "plan",
        "queue",
        "replaces",
        "revision",
        "room",
        "root",
        "runner_id",
        "runs_scripts",
        "scripts",
        "steps",
        "stored_row",
        "stored_runnable",
        "trace",
        "trace_context",
        "waiting",
        "waiting_foreachs",
    )

    def __init__(
        self,
        plan: WorkflowPlan,
        row: WorkflowRow,
        root: StepRecord,
        environment: RunEnvironment,
        *,
        count: int,
        later: LaterGeneration | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        """Continue what a workflow's row says, with the root as its only step so far.

        `count`: how many steps were made. `later`: what marks the steps of a workflow that was run again.
        `inbox`: its pending external events.
        """
        self.plan = plan
        self.id = row.id
        self.dispatch, self.trace = environment.dispatch, environment.trace
        self._failure_text = environment.failure_text
        self.deadlines = environment.deadlines  #: The time for a facet's event where the program gives none.
        #: What the run may take, and what one iteration of it has left: the rest runs in the next.
        self.bounds = environment.bounds
        self.room = IterationRoom(environment.bounds)
        #: What is stamped from here on is not older, whatever a clock says: who writes the run may change.
        self.now_ms = row.updated_at_ms
        #: The revision in the store that this state continues; 0: nothing is stored yet.
        self.revision = row.revision
        #: Whether the next commit is the first one after an execution that has continued as new as this one.
        self.replaces = False
        self.execution, self.later = row.execution, later
        self.executions_before = row.executions_before
        self.runner_id, self.lane, self.trace_context = row.runner_id, row.lane, row.trace_context
        self.inputs, self.iterations = row.inputs, row.iterations
        self.created_at_ms, self.ended_at_ms = row.created_at_ms, row.ended_at_ms
        self.cancelled = row.status == CANCELLED  #: Its status; `is_ended`: it has completed or failed, too.
        self.is_ended = row.status in ENDED_STATUSES
        self.end_was_reported = self.is_ended  #: The end of the workflow was reported to its subscribers.
        self.root = root
        root.facet = plan.facet
        #: Steps by id, but for those that bound their attributes and were complete: nothing will ever happen to them,
        #: so their rows in the store are all that is left (their block's frame has them). Nor are those of complete
        #: elements of large foreachs there (leaving.py).
        self.steps: dict[str, StepRecord] = {root.id: root}
        self.count = count  #: How many steps were made, those included.
        self.queue: list[StepRecord] = []  #: Steps that something happened to, for the next iteration.
        #: Steps made in this iteration, still to run in it or, where its room is used up, in the next.
        self.made: deque[StepRecord] = deque()
        self.ended: list[StepRecord] = []
        #: Steps of this iteration that are complete already, by block.
        self.bound_steps: list[tuple[StepRecord, Frame, list[BoundStep]]] = []
        #: What the next commit writes: steps changed since the last one, and bound ones.
        self.dirty: list[StepRecord] = []
        self.documents: list[StepRow] = []
        #: The row as this process last wrote the whole of it, None where it has not, and whether the store now has the
        #: workflow as runnable.
        self.stored_row: WorkflowRow | None = None
        self.stored_runnable = False
        #: Unanswered events, and steps that wait for one of them to be answered before theirs is sent.
        self.max_open_events, self.open_events = environment.max_open_events, 0
        self.held_events: deque[StepRecord] = deque()
        #: Large foreachs that make no more elements before the events of those that are there are sent.
        self.waiting_foreachs: dict[str, StepRecord] = {}
        self.load_step = environment.load_step  #: Finds a step in the store.
        self.leaving: dict[str, Leaving] | None = None  #: Large foreachs whose complete elements leave memory.
        #: Steps whose scripts are to run or running, by id, and those among them that are not announced yet.
        #: The driver of this execution runs them (execution/scripts.py), where `runs_scripts` says that it does.
        self.runs_scripts = environment.runs_scripts
        self.scripts: dict[str, StepRecord] = {}
        self.new_scripts: list[StepRecord] = []
        self._begin_waits(inbox)
        #: A step has failed and was caught: what failed blocks have yielded is left out from here on.
        self.has_caught = False
        self._effects: Batch | None = None
        self.has_effects = False  #: Whether a commit has effects to write besides rows.

    def _begin_waits(self, inbox: Inbox | None) -> None:
        #: Pending external events, and steps that wait for one: by name, in order of creation.
        self.inbox = inbox if inbox is not None else Inbox()
        self.event_waits: dict[str, deque[StepRecord]] = {}
        #: Steps that wait for the runtime: for an external event, a time, or their next attempt.
        self.waiting: dict[str, StepRecord] = {}
        self.has_timers = False
        #: The inputs of the next execution, once a step has come to continue as new.
        self.next_inputs: Mapping[str, Value] | None = None

    @classmethod
    def started(
        cls, plan: WorkflowPlan, row: WorkflowRow, environment: RunEnvironment, params: Mapping[str, Value]
    ) -> Execution:
        """Return a new run, of a row that no store has yet: its root is to run. `params`: the row's inputs with the
        workflow's defaults. Raises LimitReached.
        """
        root_id = derived_id(row.id, row.id, f"execution-{row.execution_number}")
        root = StepRecord(root_id, 0, ObjectType.WORKFLOW, row.created_at_ms)
        execution = cls(plan, row, root, environment, count=1)
        execution.give(root, params, root.returns)
        execution.dirty.append(root)
        execution.wake(root)
        return execution

    # --- steps -------------------------------------------------------------------------------------------------------

    def make(self, step_id: str, object_type: str) -> StepRecord:
        """Make a step, to run in this iteration. Raises StepLimitReached. See making.py for each kind of step."""
        if self.count >= self.bounds.max_steps:
            self.bounds.check_room(self)
        if self.later is None:
            step = self.steps[step_id] = StepRecord(step_id, self.count, object_type, self.now_ms)
        else:
            step = self.later.record(step_id, self.count, object_type, self.now_ms)
            self.steps[step.id] = step
        self.count += 1
        self.dirty.append(step)
        self.made.append(step)
        return step

    def open_frame(self, block: StepRecord) -> Frame:
        """Set up a block's running state, and register its statements' waits for steps outside it."""
        assert block.plan is not None
        assert block.container is not None
        owner = block.container
        parent = owner.block.frame if block.plan.is_statement_body and owner.block is not None else None
        frame = block.frame = Frame(block, owner, parent, block.plan)
        make_place = BlockIds if self.later is None else self.later.place
        frame.block_ids = make_place(self.id, self.root.id, owner.id, block.id, len(block.plan.statements))
        frame.bounds = self.bounds
        if self.plan.facet.reads_steps:
            frame.lookup = self
        return frame

    def step_at(self, place: str) -> StepRecord:
        """Return the step whose id, but for its generation, is this."""
        return self.steps[place if self.later is None else self.later.id_at(place)]

    def is_superseded(self, step_id: str) -> bool:
        """Return whether the step has sent an event, and was run again since under another id, or given up when the
        workflow continued as new.

        Ids of steps are known from their events, so one that is not of this execution is of one before it.
        """
        if step_id in self.steps:
            return False
        return self.executions_before > 0 or (self.later is not None and self.later.has_asked(step_id))

    def step_as_value(self, step_id: object) -> StepRecord | None:
        """Return the step of that id; None for one that no program text uses as a value."""
        step = self.steps.get(step_id) if isinstance(step_id, str) else None
        return step if step is not None and step.statement is not None and step.statement.is_value else None

    def leave_made(self) -> None:
        """Leave newly made steps to the next iteration, behind the changed steps in its queue, which are older.

        While there are any, the queue gets at least two steps: one alone would count as the only step left to run.
        """
        if self.later is not None:
            self.later.begin_made(self)
        while self.made and len(self.queue) < 2:
            self.wake(self.made.popleft())

    # --- what happens to steps ------------------------------------------------------------------------------------

    def wake(self, step: StepRecord) -> None:
        """Let a step run in the next iteration."""
        if not step.queued:
            step.queued = True
            self.queue.append(step)

    def touch(self, step: StepRecord) -> None:
        """Note that a step has changed since the last commit."""
        if not step.dirty:
            step.dirty = True
            self.dirty.append(step)

    def give(self, step: StepRecord, params: Mapping[str, Value], returns: Mapping[str, Value]) -> None:
        """Set a step's attributes. Raises LimitReached, and changes nothing then."""
        step.size = self.bounds.admit(params, returns, step.size)
        step.params, step.returns = params, returns

    def complete(self, step: StepRecord) -> None:
        """Mark a step as complete; it never changes again."""
        if step is self.root:
            self.bounds.check_outputs(self)
            self.is_ended = True
            self.ended_at_ms = self.now_ms
        statement = step.statement
        if statement is not None and statement.is_yield and statement.yield_depth is not None:
            frame = step.block.frame  # type: ignore[union-attr]  # a yield stands in a running block
            for _ in range(statement.yield_depth):
                frame = frame.parent  # type: ignore[union-attr]  # the depth was counted over these very frames
            target = frame.owner  # type: ignore[union-attr]
            if target.captured is None:
                target.captured = []
            target.captured.append(step)
        # The catch is over: a complete step has no error.
        step.caught = None
        self.ended.append(step)

    def fail(self, step: StepRecord, error: BaseException) -> None:
        """Fail a step: its catch runs, once; without a catch the step ends.

        The first cause is kept unchanged, whatever else it makes fail on its way out. Raises what is not a failure of
        one step: a limit of the run as a whole, MemoryError, and the errors of a step that is read late: StoreCorrupt,
        StoreUnavailable.
        """
        if isinstance(error, InnerFailure):
            record = error.record
        elif isinstance(error, RunLimitReached | MemoryError | StoreCorrupt | StoreUnavailable):
            raise error
        else:
            record = self.first_cause(step, exception_class(error), exception_text(error))
        if step.caught is None and self.catch_of(step) is not None:
            self._catch(step, record)
        else:
            self.end_in_error(step, record)

    def catch_of(self, step: StepRecord) -> BlockPlan | None:
        """Return the catch of a step: its statement's, or its facet's."""
        calling = step.statement if step.statement is not None else step.facet
        return calling.catch if calling is not None else None

    def _catch(self, step: StepRecord, record: ErrorRecord) -> None:
        if self.trace is not None:
            self.trace.moved(self, step, step.state, StepState.CATCH_BEGIN)
        step.caught, step.failed = record, None
        step.state = StepState.CATCH_BEGIN
        self.has_caught = True
        self.touch(step)
        self.wake(step)

    def end_in_error(self, step: StepRecord, record: ErrorRecord) -> None:
        """End a step that nothing catches; the run too, if it is the root."""
        origin, step.state = step.state, StepState.STATEMENT_ERROR
        step.error = record
        self.touch(step)
        self.ended.append(step)
        if self.trace is not None:
            self.trace.failed(self, step, origin)
        if step is self.root:
            self.is_ended = True
            self.ended_at_ms = self.now_ms

    def first_cause(self, step: StepRecord, error_type: str, message: str) -> ErrorRecord:
        """Return a first cause, with the place of the step that it happened to."""
        path = self.step_path(step)
        message = self.kept_text(step, message)
        # Every enclosing step keeps it too.
        message = bounded(message, MAX_ERROR_CHARS)
        if _log.isEnabledFor(logging.INFO):
            _log.info("workflow %s: %s at %s failed: %s: %s", self.id, path, source_location(step), error_type, message)
        return ErrorRecord(
            type=bounded(error_type, MAX_CLASS_CHARS),
            message=message,
            step_id=step.id,
            path=path,
            facet=step.facet_name,
            line=line_of(step),
        )

    def kept_text(self, step: StepRecord, message: str) -> str:
        """Return the text of a step's failure as it may be kept: without sensitive values."""
        return message if self._failure_text is None else self._failure_text(self, step, message)

    # --- the end of the run ------------------------------------------------------------------------------------------

    def cancel(self, reason: str) -> None:
        """End the workflow now. Later answers are late."""
        self.cancelled = True
        self.abort("Cancelled", reason or "cancelled")

    def exceed(self, error: RunLimitReached) -> None:
        """End the workflow now: it exceeds a limit of the run as a whole."""
        _log.error("workflow %s (%s) ends: %s", self.id, self.plan.name, error)
        self.abort(exception_class(error), exception_text(error), self.plan.facet.line)

    def abort(self, error_type: str, message: str, line: int = 0) -> None:
        """Fail the workflow as a whole, now, even during an iteration."""
        for _, _, bound in self.bound_steps:
            self.documents += bound
        self.bound_steps.clear()
        self.made.clear()
        self.ended.clear()
        self.queue.clear()
        self.held_events.clear()
        self.waiting_foreachs.clear()
        self.scripts.clear()
        self.next_inputs = None
        withdraw_all(self)
        self.end_in_error(self.root, ErrorRecord(error_type, message, self.root.id, self.plan.name, line=line))

    # --- what a commit writes ----------------------------------------------------------------------------------------

    @property
    def effects(self) -> Batch:
        """The outbox records, tasks and log entries that the steps of this unit of work have made."""
        if self._effects is None:
            self._effects, self.has_effects = empty_effects(), True
        return self._effects

    def take_effects(self) -> Batch | None:
        """Return the same, for the next commit, and none from here on; None when there are none."""
        effects, self._effects, self.has_effects = self._effects, None, False
        return effects

    def give_effects(self, effects: Batch) -> None:
        """Let the next commit write these: they were made for this workflow elsewhere."""
        self._effects, self.has_effects = effects, True

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        if not self.is_ended:
            return RUNNING if self.queue or self.scripts else PAUSED
        if self.cancelled:
            return CANCELLED
        return ERROR if self.root.error is not None else COMPLETED

    @property
    def number(self) -> int:
        """Return the number of this execution under its workflow id, from 1."""
        return self.executions_before + self.execution

    @property
    def outputs(self) -> Mapping[str, Value]:
        return self.root.returns

    def failure(self) -> StepFailure | None:
        """Return the first cause of a failed run."""
        return None if self.root.error is None else failure_of(self.root.error)

    def unfinished(self) -> Iterator[StepRecord]:
        return (step for step in self.steps.values() if not step.is_terminal)

    def step_path(self, step: StepRecord) -> str:
        """Return the path of a step from the workflow down: `shop.Checkout.payment`, `fleet.Scan[3].ping`."""
        return step_path(step, self.plan.name)
