"""A step's mixins and its blocks: made together when the step reaches them, and waited for."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.execution.making import make_block, make_mixin
from afl.engine.execution.waits import InnerFailure
from afl.engine.model.records import StepRecord


def await_parts(_execution: Execution, step: StepRecord) -> bool:
    """Wait until all that a step has inside has ended. Raises InnerFailure, when it has, for what failed of it."""
    # `can_continue` of what has blocks (waits.py), inlined.
    if step.blocks_open:
        return False
    if step.failed is not None:
        raise InnerFailure(step.failed)
    return True


def begin_mixins(execution: Execution, step: StepRecord) -> bool:
    """Make a step for each mixin of the facet's signature that has an alias."""
    facet = step.facet
    if facet is None or not facet.mixins:
        return True
    step.blocks_open = len([make_mixin(execution, step, plan) for plan in facet.mixins])
    return True


def begin_blocks(execution: Execution, step: StepRecord) -> bool:
    """Make a block step for each andThen block: the statement's own, or else its callee's."""
    statement = step.statement
    calling = statement if statement is not None else step.facet
    plans = calling.blocks if calling is not None else ()
    step.blocks = [make_block(execution, step, plan) for plan in plans]
    step.blocks_open = len(step.blocks)
    return True
