"""The changers, one for each kind of public step."""

from __future__ import annotations

from collections.abc import Mapping

from afl.engine.types import ObjectType
from afl.evaluation.context import ExecutionContext
from afl.runtime.changers.base import StateChanger, TableStateChanger
from afl.runtime.changers.block_changer import BlockStateChanger
from afl.runtime.changers.step_changer import SchemaStateChanger, StepStateChanger, SystemStateChanger
from afl.runtime.changers.yield_changer import YieldStateChanger
from afl.stores.public.step import StepDefinition

#: The changer of each kind of step; each goes by the engine's machine for its kind.
STATE_CHANGERS: Mapping[str, type[TableStateChanger]] = {
    ObjectType.VARIABLE_ASSIGNMENT: StepStateChanger,
    ObjectType.WORKFLOW: StepStateChanger,
    ObjectType.FACET: StepStateChanger,
    ObjectType.SCHEMA_INSTANTIATION: SchemaStateChanger,
    ObjectType.YIELD_ASSIGNMENT: YieldStateChanger,
    ObjectType.SYS_LOG: SystemStateChanger,
    ObjectType.SYS_ASSERT: SystemStateChanger,
    ObjectType.AND_THEN: BlockStateChanger,
    ObjectType.AND_MAP: BlockStateChanger,
    ObjectType.AND_MATCH: BlockStateChanger,
    ObjectType.BLOCK: BlockStateChanger,
    # Hooks of mixins: the language has none, and the engine creates none. They would move like a call.
    ObjectType.BEFORE: StepStateChanger,
    ObjectType.AFTER: StepStateChanger,
}


def get_state_changer(step: StepDefinition, context: ExecutionContext) -> StateChanger:
    """Return the changer that drives a public step by the table of its kind."""
    return STATE_CHANGERS[step.object_type](step, context)


#: The specification's name for the same function.
create_state_changer = get_state_changer
