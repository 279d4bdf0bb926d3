"""Waits inside a workflow: steps register them, and an ending is announced to the steps that wait for it.

`can_continue` is the rule. It looks at counts that frames and steps keep: for how many steps a statement still waits,
how many statements are not made, how many run. Where every step passes, the rule is inlined, and such a place names it;
test_who_waits_for_whom.py holds all of them against the rule, and the counts against what has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.engine.model.plan import BlockPlan, OuterWait, StatementPlan
from afl.engine.model.records import Frame, StepRecord, awaited_frame
from afl.engine.model.store import ErrorRecord
from afl.engine.states import StepState

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


class InnerFailure(Exception):
    """The first cause with which a step fails because of a step inside it: `record`, which travels up the tree."""

    def __init__(self, record: ErrorRecord) -> None:
        super().__init__(record.message)
        self.record = record


def can_continue(step: StepRecord) -> bool:
    """Return whether a step that waits for others has something to do: then, and only then, it is in the queue.

    * A step waits until its mixins, its blocks or its catch have ended, a foreach or a `when` until its parts have.
    * Before that, a foreach or a `when` waits until what its source or its conditions read is complete; when one of
      those steps has failed, it waits for nothing more.
    * A block goes on when a statement is ready to be made. When none is, it waits until all have been made and have
      ended, its yields too, and until what these read outside is complete.
    * A block of which something has failed makes no more statements: it waits until those that run have ended.
    """
    frame = step.frame
    if frame is None or step.blocks is not None:
        return not step.blocks_open
    if step.state == StepState.BLOCK_EXECUTION_BEGIN:
        return step.failed is not None or not step.blocks_open
    if step.failed is not None:
        return not frame.live
    return bool(frame.ready) or not (frame.live or frame.missing or step.blocks_open)


def wait_for(block: StepRecord, frame: Frame, wait: OuterWait, statement: int | None) -> bool:
    """Register the wait of a block's statement, or of the block itself, for a step outside.

    Returns False when that step is complete already. Raises InnerFailure when it failed or can no longer run.
    """
    outer, index = awaited_frame(frame, wait), wait.index
    step = outer.env[index]
    # A bound step is put into the frame when its end is announced, so one that is in the frame has been announced.
    if step is not None and step.reported:
        if step.error is not None:
            raise InnerFailure(step.error)
        return False
    if step is None and outer.step.failed is not None:
        raise InnerFailure(outer.step.failed)
    if outer.waiters is None:
        outer.waiters = {}
    outer.waiters.setdefault(index, []).append((block, statement))
    return True


def wait_for_yields(block: StepRecord, frame: Frame, plan: BlockPlan) -> None:
    """Register the waits of a block's yields; `blocks_open` counts them, as it does for a foreach's source."""
    for wait in plan.yield_waits:
        if wait_for(block, frame, wait, None):
            block.blocks_open += 1


def notify_waiters(execution: Execution) -> None:
    """Announce all endings to the waiting steps; those that can continue are queued for the next iteration."""
    if execution.bound_steps:
        # Complete steps come before failed ones: a step that waits for a complete one has what it needs.
        _notify_bound(execution)
    if not execution.ended:
        return
    ended, execution.ended = execution.ended, []
    something_failed = False
    for step in ended:
        step.reported = True
        if step.error is not None:
            something_failed = True
        if step.statement is not None:
            block: StepRecord = step.block  # type: ignore[assignment]  # a statement stands in a block
            frame: Frame = block.frame  # type: ignore[assignment]
            _notify_block(execution, block, frame, step.statement, step.error)
        else:
            _notify_owner(execution, step)
    if something_failed:
        _dequeue_failing(execution)


def _dequeue_failing(execution: Execution) -> None:
    """Remove blocks from the queue that were ready to start more when another of their statements failed.

    They start nothing now and wait for running statements, as they do when they are loaded from the store.
    """
    queue = execution.queue
    failing = [
        block
        for block in queue
        if block.failed is not None and block.blocks is None and block.frame is not None and block.frame.live
    ]
    if failing:
        for block in failing:
            block.queued = False
        execution.queue = [step for step in queue if step.queued]


def _notify_owner(execution: Execution, step: StepRecord) -> None:
    """Announce the end of a block: its owner runs when none is left, and so does the foreach that it belongs to."""
    waiting = step.block if step.block is not None else step.container
    if waiting is not None:
        waiting.blocks_open -= 1
        if step.error is not None:
            _mark_failing(execution, waiting, step.error)
        elif execution.leaving is not None and (leaving := execution.leaving.get(waiting.id)) is not None:
            leaving.complete.append(step)
        # `can_continue` of what has blocks, inlined.
        if not waiting.blocks_open:
            execution.wake(waiting)


def _mark_failing(execution: Execution, step: StepRecord, error: ErrorRecord) -> None:
    """Mark a step that will fail when the rest inside it has ended, because a part has failed.

    The first cause is kept, in the store too: after a restart it is still the first.
    """
    if step.failed is None:
        step.failed = error
        execution.touch(step)


def _notify_block(
    execution: Execution, block: StepRecord, frame: Frame, statement: StatementPlan, error: ErrorRecord | None
) -> None:
    """Announce the end of a statement: its block runs when another one becomes ready, or when it was the last one."""
    frame.live -= 1
    if error is None:
        # Counted down on the spot in four places: here, for settled steps, in bind_links and in restore.
        waiting = frame.waiting
        for index in statement.wakes:
            waiting[index] -= 1
            if not waiting[index]:
                frame.ready.append(index)
        if frame.waiters is not None and not statement.is_yield:
            _notify_outer_waiters(execution, frame, statement.index)
    else:
        _mark_failing(execution, block, error)
        if frame.waiters is not None:
            _fail_outer_waiters(execution, frame, error)
    # `can_continue` of a block, inlined.
    if block.failed is not None:
        has_more = not frame.live
    else:
        has_more = bool(frame.ready) or not (frame.live or frame.missing or block.blocks_open)
    if has_more:
        execution.wake(block)


def _notify_bound(execution: Execution) -> None:
    """Return the same for the statements that were complete when they were made: they were never among the live ones.

    `can_continue` of a block is inlined.
    """
    bound, execution.bound_steps = execution.bound_steps, []
    for block, frame, steps in bound:
        env, waiting, ready = frame.env, frame.waiting, frame.ready
        for step in steps:
            statement = step.statement
            env[statement.index] = step
            for waiter in statement.wakes:
                left = waiting[waiter] = waiting[waiter] - 1
                if not left:
                    ready.append(waiter)
            if frame.waiters is not None:
                _notify_outer_waiters(execution, frame, statement.index)
        frame.missing -= len(steps)
        has_more = ready or not (frame.missing or frame.live or block.blocks_open)
        if has_more and not block.queued and block.failed is None:
            block.queued = True
            execution.queue.append(block)
        execution.documents += steps


def _notify_outer_waiters(execution: Execution, frame: Frame, index: int) -> None:
    assert frame.waiters is not None
    for block, statement in frame.waiters.pop(index, ()):
        if block.is_terminal or block.failed is not None:
            continue
        inner = block.frame
        assert inner is not None
        if statement is None:
            block.blocks_open -= 1
        else:
            inner.waiting[statement] -= 1
            if not inner.waiting[statement]:
                inner.ready.append(statement)
        if not block.queued and can_continue(block):
            block.queued = True
            execution.queue.append(block)


def _fail_outer_waiters(execution: Execution, frame: Frame, error: ErrorRecord) -> None:
    """Fail each block that waits for a step which has failed or can no longer run.

    Blocks inside it that wait for statements which it no longer starts fail too.
    """
    assert frame.waiters is not None
    for index in list(frame.waiters):
        step = frame.env[index]
        if step is not None and step.error is None:
            continue
        for block, _ in frame.waiters.pop(index):
            if block.is_terminal:
                continue
            _mark_failing(execution, block, error)
            inner = block.frame
            assert inner is not None
            if inner.waiters is not None:
                _fail_outer_waiters(execution, inner, error)
            if can_continue(block):
                execution.wake(block)
