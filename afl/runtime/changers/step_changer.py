"""The changers of steps that call a facet, the root of a workflow, schema instantiations, and statements of `sys`."""

from __future__ import annotations

from afl.engine.types import ObjectType
from afl.runtime.changers.base import TableStateChanger


class StepStateChanger(TableStateChanger):
    """The full machine: binding, mixins, event, blocks, capture; and a catch when one of them fails."""

    kind = ObjectType.VARIABLE_ASSIGNMENT


class SchemaStateChanger(StepStateChanger):
    """Schema instantiations: evaluate the arguments, then complete; a catch may give the fields instead."""

    kind = ObjectType.SCHEMA_INSTANTIATION


class SystemStateChanger(StepStateChanger):
    """sys.log and sys.assert: evaluate, take effect, complete."""

    kind = ObjectType.SYS_LOG
