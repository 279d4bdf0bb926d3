"""A block: creates the steps whose dependencies are complete, then its yields, and ends when all have."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.execution.fast_path import make_ready
from afl.engine.execution.making import make_statement
from afl.engine.execution.scripts import wait_for_script
from afl.engine.execution.states.blocks import await_parts
from afl.engine.execution.states.branching import begin_foreach, begin_when
from afl.engine.execution.waits import InnerFailure, wait_for, wait_for_yields
from afl.engine.model.plan import BlockPlan
from afl.engine.model.records import Frame, StepRecord


def begin_block(execution: Execution, step: StepRecord) -> bool:
    """Set the block up. A foreach and a `when` evaluate what they go by, once, and make the blocks that are to run."""
    plan = step.plan
    assert plan is not None
    if plan.splits and step.block is None:
        return begin_when(execution, step, plan) if plan.cases else begin_foreach(execution, step, plan)
    if plan.script is not None:
        wait_for_script(execution, step)
        return False
    frame = execution.open_frame(step)
    frame.ready.extend(_first(step, frame, plan))
    wait_for_yields(step, frame, plan)
    return True


def continue_block(execution: Execution, step: StepRecord) -> bool:
    """Create what has become ready; yields once every other statement is complete, none after a failure."""
    plan, frame = step.plan, step.frame
    assert plan is not None
    if plan.splits and step.block is None:
        return await_parts(execution, step)
    assert frame is not None
    # `can_continue` of a block (waits.py), inlined.
    if step.failed is not None:
        if frame.live:
            return False
        raise InnerFailure(step.failed)
    if frame.ready:
        make_ready(execution, step, frame, plan)
    if frame.missing or frame.live or step.blocks_open:
        return False
    if plan.yields and not frame.yields_made:
        frame.yields_made = True
        for given in plan.yields:
            make_statement(execution, step, frame, given)
        return False
    return True


def _first(step: StepRecord, frame: Frame, plan: BlockPlan) -> list[int]:
    """Return the statements that can be created at once; waits for steps outside the block are registered there."""
    if not plan.has_outer_waits:
        return list(plan.first)
    for statement in plan.statements:
        for wait in statement.outer_waits:
            if not wait_for(step, frame, wait, statement.index):
                frame.waiting[statement.index] -= 1
    return [index for index, count in enumerate(frame.waiting) if not count]
