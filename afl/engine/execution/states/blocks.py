"""A step's mixins and its blocks: made together when the step reaches them, and waited for."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.execution.waits import InnerFailure
from afl.engine.model.records import StepRecord


def all_have_ended(_execution: Execution, step: StepRecord) -> bool:
    """Whether all that a step waits for inside has ended. Raises InnerFailure, when it has, for what failed of it."""
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
    step.blocks_open = len([execution.make_mixin(step, plan) for plan in facet.mixins])
    return True


def begin_blocks(execution: Execution, step: StepRecord) -> bool:
    """Make a block step for each andThen block: the statement's own, or else its callee's."""
    statement = step.statement
    calling = statement if statement is not None else step.facet
    plans = calling.blocks if calling is not None else ()
    step.blocks = [execution.make_block(step, plan) for plan in plans]
    step.blocks_open = len(step.blocks)
    return True
