"""Steps that only bind their attributes: complete at once, without a live record and a walk through a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.engine.execution.making import make_statement
from afl.engine.model.plan import BlockPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import BoundStep
from afl.engine.states import StepState

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


def make_ready(execution: Execution, block: StepRecord, frame: Frame, plan: BlockPlan) -> None:
    """Create the steps of the block's ready statements, as many as the iteration has room for.

    A step that only binds its attributes is complete at once, with the same result as if it was driven through its
    table: the states in between are never visible. Its block counts it after the iteration, when endings are announced.
    """
    ready, frame.ready = frame.ready, []
    if len(ready) > 1 and len(ready) != frame.sorted:
        # In textual order, whatever completed first: a run that is loaded from the store numbers its steps the same
        # way.
        ready.sort()
    if len(ready) > min(execution.room.units, execution.bounds.max_steps - execution.count):
        ready = _that_fit(execution, frame, ready)
    statements, may_bind = plan.statements, execution.trace is None
    block_ids, revision, now_ms = frame.block_ids, execution.revision + 1, execution.now_ms
    bound: list[BoundStep] = []
    made = len(ready)
    for start in range(0, made, _LOOK_EVERY):
        if start and not execution.room.is_left():
            frame.ready, made = ready[start:] + frame.ready, start
            break
        for index in ready[start : start + _LOOK_EVERY] if made > _LOOK_EVERY else ready:
            statement = statements[index]
            bind = statement.bind
            if bind is None or not may_bind:
                make_statement(execution, block, frame, statement)
                continue
            try:
                params, returns = bind(frame)
            except Exception:  # noqa: BLE001 - the step is made after all, and fails where every step does
                make_statement(execution, block, frame, statement)
                continue
            number = execution.count
            execution.count = number + 1
            bound.append(BoundStep(block_ids, statement, number, revision, params, returns, now_ms))
    execution.room.units -= made
    if frame.ready:
        frame.sorted = len(frame.ready)
        execution.wake(block)
    if bound:
        execution.bound_steps.append((block, frame, bound))


def _that_fit(execution: Execution, frame: Frame, ready: list[int]) -> list[int]:
    """Return the first of them, as many as the iteration and the run have room for, at least one.

    The others stay ready. Raises StepLimitReached when no step may be made.
    """
    left = execution.bounds.max_steps - execution.count
    if left <= 0:
        execution.bounds.check_room(execution)
    room = max(1, min(left, execution.room.units))
    frame.ready = ready[room:]
    return ready[:room]


#: Steps that are made before the room of the iteration is checked again.
_LOOK_EVERY: Final = 32


def bind_links(execution: Execution, block: StepRecord, most: int, bytes_until: int | None = None) -> int:
    """Run up to `most` iterations of a chain, each as a whole; return how many ran.

    The queue holds one block, which has one ready statement that only binds. Most workflows consist of chains, and then
    this is the whole iteration: without other steps to run, a complete step can take effect at once. Returns 0, with
    nothing done, in every other case. Stops early where the run has more than `bytes_until` bytes of values.
    """
    frame, plan = block.frame, block.plan
    if frame is None or plan is None or len(frame.ready) != 1 or frame.waiters is not None:
        return 0
    if block.state != StepState.BLOCK_EXECUTION_CONTINUE or block.failed is not None:
        return 0
    statements, bounds, first = plan.statements, execution.bounds, execution.count
    block_ids, revision, now_ms = frame.block_ids, execution.revision + 1, execution.now_ms
    env, waiting, ready, bind_next = frame.env, frame.waiting, frame.ready, execution.documents.append
    number = first
    while len(ready) == 1 and number - first < most:
        statement = statements[ready[0]]
        bind = statement.bind
        if bind is None or number >= bounds.notice_at:
            # It is not a single link, or the limits of the run need a warning.
            break
        try:
            params, returns = bind(frame)
        except Exception:  # noqa: BLE001 - it is tried again where every step fails
            break
        step = BoundStep(block_ids, statement, number, revision, params, returns, now_ms)
        number += 1
        bind_next(step)
        env[statement.index] = step
        # `can_continue` of a block (waits.py), inlined: what has more to do stays in the queue.
        ready = []
        for waiter in statement.wakes:
            left = waiting[waiter] = waiting[waiter] - 1
            if not left:
                ready.append(waiter)
        if bytes_until is not None and bounds.state_bytes > bytes_until:
            break
    links = number - first
    if links:
        execution.count = number
        frame.ready = ready
        frame.missing -= links
        if not ready and (frame.missing or frame.live or block.blocks_open):
            block.queued = False
            execution.queue = []
    return links
