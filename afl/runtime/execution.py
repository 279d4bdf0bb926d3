"""A workflow in memory: its steps, what may run next, and what has changed since the last commit.

Iterations. What happens to a step in one iteration is seen by its block and its container from the next one on; steps
made in an iteration run in that same iteration. So endings are collected while an iteration runs and told to those who
wait when it is over (`end_iteration`), which fills the queue of the next. Work is proportional to what happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Protocol

from afl.runtime import limits
from afl.runtime.errors import NestingTooDeep, NoProgress, StepFailure
from afl.runtime.identity import DIGEST_BYTES, derived_id, event_id_of
from afl.runtime.persistence import CANCELLED, COMPLETED, ERROR, PAUSED, RUNNING, Batch, ErrorRecord
from afl.runtime.plan import OWN_YIELDS, BlockPlan, StatementPlan, WorkflowPlan
from afl.runtime.records import Frame, StepRecord
from afl.runtime.states import EventState, StepState
from afl.runtime.types import ObjectType, Value


class Cause(Exception):
    """A step fails because a step inside it did; `record` is that first cause. It carries it up the tree."""

    def __init__(self, record: ErrorRecord) -> None:
        super().__init__(record.message)
        self.record = record


class Dispatch(Protocol):
    """Where the events of event facets go: to an outbox, or to a queue of tasks."""

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Add what carries the event to `effects`. An exception fails the step by name: a value that does not fit,
        an event that is too large."""

    def ended(self, execution: Execution, effects: Batch) -> None:
        """The workflow has ended: add what tells subscribers."""


class Trace(Protocol):
    """Sees each transition, when telemetry is on."""

    def created(self, execution: Execution, step: StepRecord) -> None: ...
    def moved(self, execution: Execution, step: StepRecord, origin: str, target: str) -> None: ...
    def failed(self, execution: Execution, step: StepRecord) -> None: ...
    def resolved(self, execution: Execution, step: StepRecord, dependency: StepRecord) -> None: ...
    def published(self, execution: Execution, step: StepRecord, event_id: str) -> None: ...


class Execution:
    """One execution of a workflow, live. Not thread-safe: one thread has it at a time."""

    def __init__(self, plan: WorkflowPlan, workflow_id: str, dispatch: Dispatch, trace: Trace | None = None) -> None:
        self.plan = plan
        self.id = workflow_id
        self.dispatch = dispatch
        self.trace = trace
        self.now_ms = 0
        #: The revision in the store that this state continues; 0: nothing is stored yet.
        self.revision = 0
        self.execution = 1
        self.runner_id = ""
        self.lane = ""
        self.inputs: Mapping[str, Value] = {}
        self.iterations = 0
        self.created_at_ms = 0
        self.ended_at_ms = 0
        self.cancelled = False
        #: The root has completed or failed, or somebody has cancelled the run.
        self.is_ended = False
        #: Subscribers have been told that the workflow has ended.
        self.end_was_told = False
        self.steps: dict[str, StepRecord] = {}
        self.root: StepRecord
        #: Steps that something happened to, for the next iteration.
        self.queue: list[StepRecord] = []
        #: Steps made in this iteration, still to run in it.
        self.made: deque[StepRecord] = deque()
        self.ended: list[StepRecord] = []
        self.dirty: list[StepRecord] = []
        #: Unanswered events, and steps that wait for one of them to be answered before theirs is sent.
        self.open_events = 0
        self.held: deque[StepRecord] = deque()
        self.max_open_events = limits.MAX_OPEN_EVENTS
        #: Outbox records and tasks that the steps of this unit of work have made.
        self.effects = Batch()

    # --- making steps ------------------------------------------------------------------------------------------

    def start(self, inputs: Mapping[str, Value], params: Mapping[str, Value], now_ms: int) -> None:
        """Make the root step: `params` are the inputs with the workflow's defaults."""
        self.now_ms = self.created_at_ms = now_ms
        self.inputs = inputs
        facet = self.plan.facet
        self.root = self._make(ObjectType.WORKFLOW, self.id, f"execution-{self.execution}")
        self.root.facet = facet
        self.root.params = params
        if self.trace is not None:
            self.trace.created(self, self.root)
        self.made.clear()
        self.wake(self.root)

    def _make(self, object_type: str, parent_id: str, key: str) -> StepRecord:
        steps = self.steps
        step_id = derived_id(self.id, parent_id, key)
        step = steps[step_id] = StepRecord(step_id, len(steps), object_type, self.now_ms)
        self.dirty.append(step)
        self.made.append(step)
        return step

    def make_statement(self, block: StepRecord, frame: Frame, plan: StatementPlan) -> StepRecord:
        """Create the step of a statement or yield of a running block."""
        # identity.derived_id, written out, with what all statements of the block share digested once: every step
        # passes here.
        digest = frame.digest
        if digest is None:
            digest = frame.digest = blake2b(f"{block.id}/".encode(), digest_size=DIGEST_BYTES)
        digest = digest.copy()
        digest.update(plan.key)
        step_id = f"{self.id}:{digest.hexdigest()}"
        steps = self.steps
        step = steps[step_id] = StepRecord(step_id, len(steps), plan.object_type, self.now_ms)
        self.dirty.append(step)
        self.made.append(step)
        step.statement = plan
        step.facet = plan.callee
        step.block = block
        step.container = block.container
        frame.live += 1
        if not plan.is_yield:
            frame.env[plan.index] = step
            frame.missing -= 1
        if self.trace is not None:
            self.trace.created(self, step)
            for index in plan.waits:
                dependency = frame.env[index]
                assert dependency is not None
                self.trace.resolved(self, step, dependency)
        return step

    def make_block(self, owner: StepRecord, plan: BlockPlan) -> StepRecord:
        """Create the step of one of the owner's blocks."""
        self._check_depth(owner)
        block = self._make(ObjectType.AND_THEN, owner.id, plan.name)
        block.plan = plan
        block.container = owner
        if self.trace is not None:
            self.trace.created(self, block)
        return block

    def make_instance(self, foreach: StepRecord, index: int, value: Value) -> StepRecord:
        """Create the block of one element of a foreach."""
        instance = self._make(ObjectType.AND_THEN, foreach.id, str(index))
        instance.plan = foreach.plan
        instance.container = foreach.container
        instance.block = foreach
        instance.foreach_index = index
        instance.foreach_value = value
        if self.trace is not None:
            self.trace.created(self, instance)
        return instance

    def _check_depth(self, owner: StepRecord) -> None:
        depth, step = 0, owner
        while step.container is not None:
            depth, step = depth + 1, step.container
            if depth > limits.MAX_NESTING_DEPTH:
                raise NestingTooDeep(step_path=self.path_of(owner)[-200:], limit=limits.MAX_NESTING_DEPTH)

    def open_frame(self, block: StepRecord) -> Frame:
        """Set up a block's running state; its statements' waits for steps outside it are registered there."""
        assert block.plan is not None
        assert block.container is not None
        owner = block.container
        parent = owner.block.frame if block.plan.is_statement_body and owner.block is not None else None
        frame = block.frame = Frame(block, owner, parent, block.plan)
        return frame

    def watch(self, block: StepRecord, frame: Frame, depth: int, index: int, statement: int | None) -> bool:
        """Register a wait for statement `index`, `depth` frames out; False when that step is complete already.

        Raises Cause when it failed or can no longer run.
        """
        outer = frame
        for _ in range(depth):
            assert outer.parent is not None
            outer = outer.parent
        step = outer.env[index]
        if step is not None and step.told:
            if step.error is not None:
                raise Cause(step.error)
            return False
        if step is None and outer.step.failed is not None:
            raise Cause(outer.step.failed)
        if outer.watchers is None:
            outer.watchers = {}
        outer.watchers.setdefault(index, []).append((block, statement))
        return True

    def watch_for_yields(self, block: StepRecord, frame: Frame, plan: BlockPlan) -> None:
        """Register the waits of a block's yields; `blocks_open` counts them, as a foreach's source does its own."""
        for depth, index in plan.yield_waits:
            if self.watch(block, frame, depth, index, None):
                block.blocks_open += 1

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

    def complete(self, step: StepRecord) -> None:
        """A step has reached its end; it never changes again."""
        statement = step.statement
        if statement is not None and statement.is_yield and statement.yield_depth is not None:
            frame = step.block.frame  # type: ignore[union-attr]  # a yield stands in a running block
            for _ in range(statement.yield_depth):
                frame = frame.parent  # type: ignore[union-attr]  # the depth was counted over these very frames
            target = frame.owner  # type: ignore[union-attr]
            if target.captured is None:
                target.captured = []
            target.captured.append(step)
        self.ended.append(step)
        if step is self.root:
            self.is_ended = True
            self.ended_at_ms = self.now_ms

    def fail(self, step: StepRecord, error: BaseException) -> None:
        """A step has failed. The first cause is kept as it was told, whatever it makes fail on its way out."""
        if isinstance(error, Cause):
            step.error = error.record
        else:
            statement = step.statement
            step.error = ErrorRecord(
                type=type(error).__name__,
                message=str(error),
                step_id=step.id,
                path=self.path_of(step),
                facet=statement.facet_name if statement is not None else (step.facet.name if step.facet else ""),
                line=statement.line if statement is not None else 0,
            )
        step.state = StepState.STATEMENT_ERROR
        self.touch(step)
        self.ended.append(step)
        if self.trace is not None:
            self.trace.failed(self, step)
        if step is self.root:
            self.is_ended = True
            self.ended_at_ms = self.now_ms

    def end_iteration(self) -> None:
        """Tell what has ended to those who wait for it; whoever can go on now is in the queue of the next."""
        ended, self.ended = self.ended, []
        for step in ended:
            step.told = True
            statement = step.statement
            if statement is not None:
                self._tell_block(step, statement)
            else:
                self._tell_owner(step)

    def _tell_owner(self, step: StepRecord) -> None:
        """A block has ended: its owner runs when none is left, and so does the foreach that it is an instance of."""
        waiting = step.block if step.block is not None else step.container
        if waiting is not None:
            waiting.blocks_open -= 1
            if step.error is not None:
                self._doom(waiting, step.error)
            if not waiting.blocks_open:
                self.wake(waiting)

    def _doom(self, step: StepRecord, error: ErrorRecord) -> None:
        """What is inside the step has failed, so it will fail when the rest has ended. The first cause is kept, in the
        store too: after a restart it is still the first."""
        if step.failed is None:
            step.failed = error
            self.touch(step)

    def _tell_block(self, step: StepRecord, statement: StatementPlan) -> None:
        """A statement has ended: its block runs when that makes another ready, or was the last one."""
        block: StepRecord = step.block  # type: ignore[assignment]  # a statement stands in a block that runs
        frame: Frame = block.frame  # type: ignore[assignment]
        frame.live -= 1
        if step.error is None:
            waiting = frame.waiting
            for index in statement.wakes:
                waiting[index] -= 1
                if not waiting[index]:
                    frame.ready.append(index)
            if frame.watchers is not None and not statement.is_yield:
                self._tell_watchers(frame, statement.index)
        else:
            self._doom(block, step.error)
            if frame.watchers is not None:
                self._fail_watchers(frame, step.error)
        if block.failed is not None:
            can_go_on = not frame.live
        else:
            can_go_on = bool(frame.ready) or not (frame.live or frame.missing or block.blocks_open)
        if can_go_on:
            self.wake(block)

    def _tell_watchers(self, frame: Frame, index: int) -> None:
        assert frame.watchers is not None
        for block, statement in frame.watchers.pop(index, ()):
            if block.is_terminal:
                continue
            inner = block.frame
            assert inner is not None
            if statement is None:
                block.blocks_open -= 1
                # A foreach begins; another block comes to its yields, when its statements have all ended too.
                begins = block.state == StepState.BLOCK_EXECUTION_BEGIN
                if not block.blocks_open and (begins or not (inner.live or inner.missing)):
                    self.wake(block)
                continue
            inner.waiting[statement] -= 1
            if not inner.waiting[statement]:
                inner.ready.append(statement)
                self.wake(block)

    def _fail_watchers(self, frame: Frame, error: ErrorRecord) -> None:
        """A block that waits for a step which has failed, or can no longer run, fails too; and so do the blocks inside
        it that wait for what it will not start any more."""
        assert frame.watchers is not None
        for index in list(frame.watchers):
            step = frame.env[index]
            if step is not None and step.error is None:
                continue
            for block, _ in frame.watchers.pop(index):
                self._doom(block, error)
                inner = block.frame
                assert inner is not None
                if inner.watchers is not None:
                    self._fail_watchers(inner, error)
                if not inner.live:
                    self.wake(block)

    # --- events and their answers ------------------------------------------------------------------------------------

    def send_event(self, step: StepRecord) -> bool:
        """Send the step's event, or hold it back while too many are unanswered; whether it was sent."""
        if self.open_events >= self.max_open_events:
            self.held.append(step)
            return False
        step.attempt += 1
        event_id = event_id_of(step.id, step.attempt)
        try:
            self.dispatch.dispatch(self, step, event_id, self.effects)
        except Exception:
            # The place that this event does not take goes to the next.
            self.release_held()
            raise
        step.event_state = EventState.CREATED
        self.touch(step)
        self.open_events += 1
        if self.trace is not None:
            self.trace.published(self, step, event_id)
        return True

    def is_waiting(self, step: StepRecord) -> bool:
        """Whether the step has sent an event and waits for the answer."""
        return step.state == StepState.EVENT_TRANSMIT and bool(step.event_state)

    def continue_with(self, step: StepRecord, result: Mapping[str, Value]) -> None:
        """Take the answer to a waiting step's event: one write moves it on to its next state."""
        step.returns = {**step.returns, **result}
        step.event_state = EventState.COMPLETED
        if self.trace is not None:
            self.trace.moved(self, step, StepState.EVENT_TRANSMIT, StepState.STATEMENT_BLOCKS_BEGIN)
        step.state = StepState.STATEMENT_BLOCKS_BEGIN
        self.touch(step)
        self.wake(step)
        self._event_closed()

    def fail_with(self, step: StepRecord, error_type: str, message: str) -> None:
        """Take the answer that a waiting step's event has failed."""
        step.event_state = EventState.ERROR
        statement = step.statement
        record = ErrorRecord(
            type=error_type,
            message=message,
            step_id=step.id,
            path=self.path_of(step),
            facet=statement.facet_name if statement is not None else self.plan.name,
            line=statement.line if statement is not None else 0,
        )
        self.fail(step, Cause(record))
        self._event_closed()
        self.end_iteration()

    def update_with(self, step: StepRecord, partial: Mapping[str, Value]) -> None:
        """Merge a partial result; the step stays where it is."""
        step.returns = {**step.returns, **partial}
        step.event_state = EventState.PROCESSING
        self.touch(step)

    def cancel(self, reason: str) -> None:
        """End the workflow now. Answers that come later are late."""
        self.cancelled = True
        self.queue.clear()
        self.held.clear()
        self.fail(self.root, Cause(ErrorRecord("Cancelled", reason or "cancelled", self.root.id, self.plan.name)))

    def _event_closed(self) -> None:
        self.open_events -= 1
        self.release_held()

    def release_held(self) -> None:
        """Let the next step whose event was held back send it."""
        if self.held:
            self.wake(self.held.popleft())

    def fail_if_stuck(self) -> None:
        """A run that nothing can move on, and no answer either, has failed; it names the steps that wait."""
        if not (self.queue or self.open_events or self.is_ended or self.held):
            self.fail(self.root, NoProgress(tuple(self._stuck())))
            self.end_iteration()

    def _stuck(self) -> Iterator[str]:
        """Paths of the statements that have not ended, those that could not even start among them."""
        for step in self.unfinished():
            if step.statement is not None:
                yield self.path_of(step)
            elif step.frame is not None and step.plan is not None and step.blocks is None:
                around = self.path_of(step)
                for statement in step.plan.statements:
                    if step.frame.env[statement.index] is None:
                        yield f"{around}.{statement.name}"

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        if not self.is_ended:
            return RUNNING if self.queue else PAUSED
        if self.cancelled:
            return CANCELLED
        return ERROR if self.root.error is not None else COMPLETED

    @property
    def outputs(self) -> Mapping[str, Value]:
        return self.root.returns

    def failure(self) -> StepFailure | None:
        """The first cause of a failed run."""
        return None if self.root.error is None else failure_of(self.root.error)

    def unfinished(self) -> Iterator[StepRecord]:
        return (step for step in self.steps.values() if not step.is_terminal)

    def path_of(self, step: StepRecord) -> str:
        """Where a step stands, from the workflow down: `shop.Checkout.payment`, `fleet.Scan[3].ping`."""
        parts: list[str] = []
        at: StepRecord | None = step
        while at is not None and at is not self.root:
            if at.statement is not None:
                parts.append("yield" if at.statement.is_yield else at.statement.name)
            block = at if at.statement is None else at.block
            if block is not None and block.foreach_index is not None:
                parts.append(f"[{block.foreach_index}]")
            at = at.container
        parts.append(self.plan.name)
        return ".".join(reversed(parts)).replace(".[", "[")


def failure_of(error: ErrorRecord) -> StepFailure:
    """The stored first cause as an error."""
    return StepFailure(
        step_id=error.step_id,
        step_path=error.path,
        facet=error.facet,
        error_type=error.type,
        message=error.message,
        line=error.line or None,
    )


def capture_order(yielded: StepRecord) -> list[tuple[int, int, int]]:
    """Where a yield's values come in the merge: block, element, nested bodies before own yields, textual order."""
    assert yielded.statement is not None
    assert yielded.block is not None
    order: list[tuple[int, int, int]] = []
    position = OWN_YIELDS + yielded.statement.index
    frame = yielded.block.frame
    for _ in range((yielded.statement.yield_depth or 0) + 1):
        assert frame is not None
        assert frame.step.plan is not None
        order.append((frame.step.plan.index, frame.step.foreach_index or 0, position))
        if frame.owner.statement is not None:
            position = frame.owner.statement.index
        frame = frame.parent
    order.reverse()
    return order
