"""Catch: what runs for a step that has failed, and lets it complete after all."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.execution.making import make_block
from afl.engine.model.records import StepRecord


def begin_catch(execution: Execution, step: StepRecord) -> bool:
    """Make the block of the catch: the statement's own, or else its facet's."""
    plan = execution.catch_of(step)
    assert plan is not None
    block = make_block(execution, step, plan)
    assert step.caught is not None
    # Kept with the block: of a catch that fails too, the step has only the error, and it may be tried again.
    execution.give(block, {"error": step.caught.message, "error_type": step.caught.type}, block.returns)
    step.blocks = [*(step.blocks or ()), block]
    step.blocks_open = 1
    return True
