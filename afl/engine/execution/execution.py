"""A workflow in memory: its steps, the steps that may run next, and the changes since the last commit.

Iterations: a change of a step takes effect for its block and its container in the next iteration; steps made in an
iteration run in the same iteration. So endings are collected while an iteration runs and announced to waiting steps
when it is over (execution/waits.py), which fills the queue of the next. Work is proportional to the number of changes.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Iterator, Mapping
from operator import attrgetter

from afl.core.ids import derived_id, event_id_of
from afl.core.text.exception_text import MAX_CLASS_CHARS, exception_class, exception_text
from afl.core.text.printable import bounded
from afl.engine.errors import NoProgress, RunLimitReached, ScriptsNotAllowed, StepFailure
from afl.engine.execution.mixins import mixin_step_id
from afl.engine.execution.state import ExecutionState
from afl.engine.execution.step_paths import failure_of, line_of, source_location, step_path, stuck_paths
from afl.engine.execution.waits import InnerFailure, notify_waiters
from afl.engine.limits import MAX_ERROR_CHARS
from afl.engine.model.plan import BlockPlan, MixinPlan, StatementPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import BlockIds
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, PAUSED, RUNNING, ErrorRecord
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType, Value
from afl.engine.values.sizes import counting

_log = logging.getLogger(__name__)

_number = attrgetter("number")


class Execution(ExecutionState):
    """One live execution of a workflow. Not thread-safe: one thread has it at a time."""

    __slots__ = ()

    # --- making steps ------------------------------------------------------------------------------------------

    def start(self, inputs: Mapping[str, Value], params: Mapping[str, Value], now_ms: int) -> None:
        """Make the root step: `params` are the inputs with the workflow's defaults."""
        self.now_ms = self.created_at_ms = now_ms
        self.inputs = inputs
        facet = self.plan.facet
        self.root = self._make(derived_id(self.id, self.id, f"execution-{self.execution}"), ObjectType.WORKFLOW)
        self.root.facet = facet
        self.give(self.root, params, self.root.returns)
        if self.trace is not None:
            self.trace.created(self, self.root)
        self.made.clear()
        self.wake(self.root)

    def _make(self, step_id: str, object_type: str) -> StepRecord:
        if self.count >= self.bounds.max_steps:
            self.bounds.check_room(self)
        step = self.steps[step_id] = StepRecord(step_id, self.count, object_type, self.now_ms)
        self.count += 1
        self.dirty.append(step)
        self.made.append(step)
        return step

    def make_statement(self, block: StepRecord, frame: Frame, plan: StatementPlan) -> StepRecord:
        """Create the step of a statement or yield of a running block."""
        step = self._make(frame.block_ids.step_id(plan.key), plan.object_type)
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
            self.trace.bound(self, step, frame, plan)
        return step

    def make_block(self, owner: StepRecord, plan: BlockPlan) -> StepRecord:
        """Create the step of one of the owner's blocks."""
        self.bounds.check_block(self, owner)
        block = self._make(
            derived_id(self.id, owner.id, plan.name), ObjectType.AND_MATCH if plan.cases else ObjectType.AND_THEN
        )
        block.plan = plan
        block.container = owner
        if self.trace is not None:
            self.trace.created(self, block)
        return block

    def make_mixin(self, owner: StepRecord, plan: MixinPlan) -> StepRecord:
        """Create the step of one of the mixins of the owner's signature."""
        self.bounds.check_block(self, owner)
        mixin = self._make(mixin_step_id(self.id, owner.id, plan), ObjectType.FACET)
        mixin.mixin = plan
        mixin.facet = plan.facet
        mixin.container = owner
        if self.trace is not None:
            self.trace.created(self, mixin)
        return mixin

    def make_instance(self, foreach: StepRecord, index: int, value: Value) -> StepRecord:
        """Create the block of one element of a foreach."""
        instance = self._make_part(foreach, str(index), foreach.plan)
        instance.foreach_index, instance.foreach_value = index, value
        instance.size = self.bounds.admit_element(value)
        return instance

    def make_case(self, when: StepRecord, plan: BlockPlan) -> StepRecord:
        """Create the block of a case."""
        return self._make_part(when, plan.name, plan)

    def _make_part(self, whole: StepRecord, key: str, plan: BlockPlan | None) -> StepRecord:
        part = self._make(derived_id(self.id, whole.id, key), ObjectType.AND_THEN)
        part.plan, part.container, part.block = plan, whole.container, whole
        if self.trace is not None:
            self.trace.created(self, part)
        return part

    def open_frame(self, block: StepRecord) -> Frame:
        """Set up a block's running state, and register its statements' waits for steps outside it."""
        assert block.plan is not None
        assert block.container is not None
        owner = block.container
        parent = owner.block.frame if block.plan.is_statement_body and owner.block is not None else None
        frame = block.frame = Frame(block, owner, parent, block.plan)
        frame.block_ids = BlockIds(self.id, self.root.id, owner.id, block.id, len(block.plan.statements))
        frame.bounds = self.bounds
        if self.plan.facet.reads_steps:
            frame.lookup = self
        return frame

    def step_at(self, place: str) -> StepRecord:
        """Return the step of the current generation for an id."""
        return self.steps[place]

    def is_superseded(self, step_id: str) -> bool:  # noqa: ARG002 - a run with generations overrides it
        """Say whether the step with this id has sent something, and has been run again since under another id."""
        return False

    def step_as_value(self, step_id: object) -> StepRecord | None:
        """Return the step of that id; None for one that no program text uses as a value."""
        step = self.steps.get(step_id) if isinstance(step_id, str) else None
        return step if step is not None and step.statement is not None and step.statement.is_value else None

    # --- the room of an iteration ---------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Begin an iteration."""
        bounds = self.bounds
        self.room = bounds.iteration_units
        self.bytes_until = bounds.state_bytes + bounds.iteration_bytes
        self.entries_until = counting.entries_read + bounds.iteration_entries

    def has_room(self) -> bool:
        """Say whether the iteration may move more. Only work counts, so that every process stops at the same place."""
        return (
            self.room > 0
            and self.bounds.state_bytes <= self.bytes_until
            and counting.entries_read <= self.entries_until
        )

    def leave_made(self) -> None:
        """Leave newly made steps to the next iteration, behind the changed steps in its queue, which are older.

        While there are any, the queue gets at least two steps: one alone would count as the only step left to run.
        """
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

    def _give_returns(self, step: StepRecord, more: Mapping[str, Value], size: int | None) -> None:
        """Add to a step's returns. Raises LimitReached, and changes nothing then."""
        before = step.returns
        returns = {**before, **more}
        step.size = self.bounds.admit_returns(returns, before, step.size, None if before else size)
        step.returns = returns

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
        one step: a limit of the run as a whole, and MemoryError.
        """
        if isinstance(error, InnerFailure):
            record = error.record
        elif isinstance(error, RunLimitReached | MemoryError):
            raise error
        else:
            record = self._cause(step, exception_class(error), exception_text(error))
        if step.caught is None and self.catch_of(step) is not None:
            self._catch(step, record)
        else:
            self._end_in_error(step, record)

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

    def _end_in_error(self, step: StepRecord, record: ErrorRecord) -> None:
        origin, step.state = step.state, StepState.STATEMENT_ERROR
        step.error = record
        self.touch(step)
        self.ended.append(step)
        if self.trace is not None:
            self.trace.failed(self, step, origin)
        if step is self.root:
            self.is_ended = True
            self.ended_at_ms = self.now_ms

    def _cause(self, step: StepRecord, error_type: str, message: str) -> ErrorRecord:
        """Return a first cause with the place of its step."""
        path = self.step_path(step)
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

    # --- scripts ------------------------------------------------------------------------------------------------------

    def await_script(self, step: StepRecord) -> None:
        """Leave a step where it is until its script has ended. Raises ScriptsNotAllowed where scripts are not run."""
        if not self.runs_scripts:
            script = step.plan.script if step.plan is not None else step.facet.pre_script if step.facet else None
            raise ScriptsNotAllowed(declaration=script.declaration if script is not None else self.plan.name)
        self.scripts[step.id] = step
        self.new_scripts.append(step)

    # --- events and their answers ------------------------------------------------------------------------------------

    def send_event(self, step: StepRecord) -> bool:
        """Send the step's event, or hold it back while too many are unanswered; return whether it was sent."""
        if self.open_events >= self.max_open_events:
            self.hold_event(step)
            return False
        step.attempt += 1
        event_id = event_id_of(step.id, step.attempt)
        calling = step.statement if step.statement is not None else step.facet
        if calling is not None and calling.timeout_ms is not None:
            step.deadline_ms = self.now_ms + calling.timeout_ms
        try:
            self.bounds.check_payload(self, step)
            self.dispatch.dispatch(self, step, event_id, self.effects)
        except Exception:
            # The free place goes to the next held event.
            self.release_held_event()
            raise
        step.event_state = EventState.CREATED
        self.touch(step)
        self.open_events += 1
        if self.trace is not None:
            self.trace.published(self, step, event_id)
        return True

    def is_waiting(self, step: StepRecord) -> bool:
        """Say whether the step has sent an event and waits for the answer."""
        return step.state == StepState.EVENT_TRANSMIT and bool(step.event_state)

    def continue_with(self, step: StepRecord, result: Mapping[str, Value], size: int | None = None) -> None:
        """Take the answer to a waiting step's event: one write moves it on to its next state.

        `size` is that of the result, where it is known.
        """
        self._give_returns(step, result, size)
        step.event_state = EventState.COMPLETED
        if self.trace is not None:
            self.trace.moved(self, step, StepState.EVENT_TRANSMIT, StepState.STATEMENT_BLOCKS_BEGIN)
        step.state = StepState.STATEMENT_BLOCKS_BEGIN
        self.touch(step)
        self.wake(step)
        self._event_closed(step)

    def fail_with(self, step: StepRecord, error_type: str, message: str) -> None:
        """Take the failure of a waiting step's event."""
        step.event_state = EventState.ERROR
        self.fail(step, InnerFailure(self._cause(step, error_type, message)))
        self._event_closed(step)
        notify_waiters(self)

    def update_with(self, step: StepRecord, partial: Mapping[str, Value], size: int | None = None) -> None:
        """Merge a partial result; the step stays where it is. `size` is that of the result, where it is known."""
        self._give_returns(step, partial, size)
        step.event_state = EventState.PROCESSING
        self.touch(step)

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
        if self.open_events:
            for step in self.steps.values():
                if self.is_waiting(step):
                    step.event_state = EventState.CANCELED
                    self.touch(step)
        self._end_in_error(self.root, ErrorRecord(error_type, message, self.root.id, self.plan.name, line=line))

    def _event_closed(self, step: StepRecord) -> None:
        self.dispatch.answered(self, step, self.effects)
        self.open_events -= 1
        self.release_held_event()

    def hold_event(self, step: StepRecord) -> None:
        """Hold a step's event back, in order: a run loaded from the store also holds events in order of creation."""
        held_events = self.held_events
        if not held_events or held_events[-1].number < step.number:
            held_events.append(step)
        else:
            insort(held_events, step, key=_number)

    def release_held_event(self) -> None:
        """Let the next step with a held event send it; without one, let large foreachs create more steps."""
        if self.held_events:
            self.wake(self.held_events.popleft())
        elif self.waiting_foreachs:
            # All of them are woken: the first may have no event to send, and would then wake no other.
            for foreach in self.waiting_foreachs.values():
                self.wake(foreach)
            self.waiting_foreachs.clear()

    def may_make_more(self, foreach: StepRecord) -> bool:
        """Say whether a large foreach may make more elements now. Not while events are held; it is woken after that."""
        if self.held_events:
            self.waiting_foreachs[foreach.id] = foreach
            return False
        self.waiting_foreachs.pop(foreach.id, None)
        return True

    def fail_if_stuck(self) -> None:
        """Fail a run that nothing can move, not even an answer; the error names the waiting steps."""
        if not (
            self.queue or self.open_events or self.is_ended or self.held_events or self.waiting_foreachs or self.scripts
        ):
            stuck = NoProgress(tuple(stuck_paths(self.unfinished(), self.plan.name)))
            self._end_in_error(self.root, self._cause(self.root, type(stuck).__name__, str(stuck)))
            notify_waiters(self)

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        if not self.is_ended:
            return RUNNING if self.queue or self.scripts else PAUSED
        if self.cancelled:
            return CANCELLED
        return ERROR if self.root.error is not None else COMPLETED

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
