"""Steps that only bind their attributes: complete at once, without a live record and a walk through a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.engine.model.plan import BlockPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import SettledStep
from afl.engine.states import StepState

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


def make_ready(execution: Execution, block: StepRecord, frame: Frame, plan: BlockPlan) -> None:
    """Create the steps of the block's statements that have become ready, as many as the iteration has room for.

    One that does nothing but bind its attributes is complete with that, the same as if it was made and driven through
    its table: nobody could see the states in between. Its block counts it when it is told of it, after the iteration.
    """
    ready, frame.ready = frame.ready, []
    if len(ready) > 1 and len(ready) != frame.sorted:
        # In textual order, whatever completed first: a run that is read back numbers its steps alike.
        ready.sort()
    if len(ready) > min(execution.room, execution.bounds.max_steps - execution.count):
        ready = _that_fit(execution, frame, ready)
    statements, may_settle = plan.statements, execution.trace is None
    place, revision, now_ms = frame.place, execution.revision + 1, execution.now_ms
    settled: list[SettledStep] = []
    made = len(ready)
    for start in range(0, made, _LOOK_EVERY):
        if start and not execution.has_room():
            frame.ready, made = ready[start:] + frame.ready, start
            break
        for index in ready[start : start + _LOOK_EVERY] if made > _LOOK_EVERY else ready:
            statement = statements[index]
            bind = statement.bind
            if bind is None or not may_settle:
                execution.make_statement(block, frame, statement)
                continue
            try:
                params, returns = bind(frame)
            except Exception:  # noqa: BLE001 - the step is made after all, and fails where every step does
                execution.make_statement(block, frame, statement)
                continue
            number = execution.count
            execution.count = number + 1
            settled.append(SettledStep(place, statement, number, revision, params, returns, now_ms))
    execution.room -= made
    if frame.ready:
        frame.sorted = len(frame.ready)
        execution.wake(block)
    if settled:
        execution.settled.append((block, frame, settled))


def _that_fit(execution: Execution, frame: Frame, ready: list[int]) -> list[int]:
    """The first of them, as many as the iteration and the run have room for, one at least; the others stay ready.
    Raises StepLimitReached when no step may be made.
    """
    left = execution.bounds.max_steps - execution.count
    if left <= 0:
        execution.bounds.check_room(execution)
    room = max(1, min(left, execution.room))
    frame.ready = ready[room:]
    return ready[:room]


#: Steps that are made before it is looked whether the iteration has room for more.
_LOOK_EVERY: Final = 32


def settle_link(execution: Execution, block: StepRecord) -> bool:
    """Run a whole iteration of a chain: the block that alone is in the queue has one statement ready, which only binds.

    Chains are what most workflows are made of, and this is all that happens then: with nobody else to run, what is
    complete can be seen at once. False, with nothing done, when there is more to it.
    """
    frame, plan = block.frame, block.plan
    if frame is None or plan is None or len(frame.ready) != 1 or frame.watchers is not None:
        return False
    if block.state != StepState.BLOCK_EXECUTION_CONTINUE or block.failed is not None:
        return False
    statement = plan.statements[frame.ready[0]]
    bind, number = statement.bind, execution.count
    if bind is None or number >= execution.bounds.notice_at:
        # More than a link, or there is something to say about the run's limits.
        return False
    try:
        params, returns = bind(frame)
    except Exception:  # noqa: BLE001 - it is tried again where every step fails
        return False
    execution.count = number + 1
    step = SettledStep(frame.place, statement, number, execution.revision + 1, params, returns, execution.now_ms)
    execution.documents.append(step)
    frame.env[statement.index] = step
    frame.missing -= 1
    waiting = frame.waiting
    ready = frame.ready = []
    for waiter in statement.wakes:
        left = waiting[waiter] = waiting[waiter] - 1
        if not left:
            ready.append(waiter)
    if not ready and (frame.missing or frame.live or block.blocks_open):
        block.queued = False
        execution.queue = []
    return True
