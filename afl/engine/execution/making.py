"""The making of steps: each kind of step, made by the block or step that it is inside of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from afl.core.ids import derived_id
from afl.engine.errors import StoreCorrupt
from afl.engine.execution.mixins import mixin_step_id
from afl.engine.model.plan import BlockPlan, MixinPlan, StatementPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import StepDocument
from afl.engine.types import ObjectType, Value

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


def make_statement(execution: Execution, block: StepRecord, frame: Frame, plan: StatementPlan) -> StepRecord:
    """Create the step of a statement or yield of a running block."""
    step = execution.make(frame.block_ids.step_id(plan.key), plan.object_type)
    step.statement = plan
    step.facet = plan.callee
    step.block = block
    step.container = block.container
    frame.live += 1
    if not plan.is_yield:
        frame.env[plan.index] = step
        frame.missing -= 1
    if execution.trace is not None:
        execution.trace.created(execution, step)
        execution.trace.bound(execution, step, frame, plan)
    return step


def make_block(execution: Execution, owner: StepRecord, plan: BlockPlan) -> StepRecord:
    """Create the step of one of the owner's blocks."""
    execution.bounds.check_block(execution, owner)
    block = execution.make(
        derived_id(execution.id, owner.id, plan.name), ObjectType.AND_MATCH if plan.cases else ObjectType.AND_THEN
    )
    block.plan = plan
    block.container = owner
    if execution.trace is not None:
        execution.trace.created(execution, block)
    return block


def make_mixin(execution: Execution, owner: StepRecord, plan: MixinPlan) -> StepRecord:
    """Create the step of one of the mixins of the owner's signature."""
    execution.bounds.check_block(execution, owner)
    mixin = execution.make(mixin_step_id(execution.id, owner.id, plan), ObjectType.FACET)
    mixin.mixin = plan
    mixin.facet = plan.facet
    mixin.container = owner
    if execution.trace is not None:
        execution.trace.created(execution, mixin)
    return mixin


def make_instance(execution: Execution, foreach: StepRecord, index: int, value: Value) -> StepRecord:
    """Create the block of one element of a foreach."""
    instance = _make_part(execution, foreach, str(index), foreach.plan)
    instance.foreach_index, instance.foreach_value = index, value
    instance.size = execution.bounds.admit_element(value)
    return instance


def make_case(execution: Execution, when: StepRecord, plan: BlockPlan) -> StepRecord:
    """Create the block of a case."""
    return _make_part(execution, when, plan.name, plan)


def _make_part(execution: Execution, whole: StepRecord, key: str, plan: BlockPlan | None) -> StepRecord:
    part = execution.make(derived_id(execution.id, whole.id, key), ObjectType.AND_THEN)
    part.plan, part.container, part.block = plan, whole.container, whole
    if execution.trace is not None:
        execution.trace.created(execution, part)
    return part


def block_plan(step: StepRecord, document: StepDocument) -> BlockPlan:
    """Return the plan of a stored block, whose container and block are known. Raises StoreCorrupt."""
    owner = step.container
    if step.block is not None:
        assert step.block.plan is not None
        if not step.block.plan.cases:
            return step.block.plan
        plans: Iterable[BlockPlan | None] = [case.block for case in step.block.plan.cases]
    else:
        assert owner is not None
        calling = owner.statement if owner.statement is not None else owner.facet
        plans = (*calling.blocks, calling.catch) if calling is not None else ()
    for plan in plans:
        if plan is not None and plan.name == document.statement_id:
            return plan
    assert owner is not None
    raise StoreCorrupt(
        path=f"workflow {document.workflow_id}",
        reason=f"step {document.id} is {document.statement_id} of {owner.id}, which its program does not have",
    )
