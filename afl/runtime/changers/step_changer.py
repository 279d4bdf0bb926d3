"""Drives steps that call a facet, the root of a workflow, schema instantiations, and the statements of `sys`."""

from __future__ import annotations

from afl.runtime.changers.base import StepMachine, TableStateChanger
from afl.runtime.handlers.system import run_system_statement
from afl.runtime.states import CATCH_TRANSITIONS, SCHEMA_TRANSITIONS, STEP_TRANSITIONS, StepState


class StepStateChanger(TableStateChanger):
    """The full machine: binding, mixins, event, blocks, capture; and a catch when one of them fails."""

    machine = StepMachine(STEP_TRANSITIONS, detours=CATCH_TRANSITIONS)


class SchemaStateChanger(StepStateChanger):
    """Schema instantiations: evaluate the arguments, then complete; a catch may give the fields instead."""

    machine = StepMachine(SCHEMA_TRANSITIONS, detours=CATCH_TRANSITIONS)


class SystemStateChanger(StepStateChanger):
    """sys.log and sys.assert: evaluate, have the effect, complete."""

    machine = StepMachine(SCHEMA_TRANSITIONS, work={StepState.FACET_INIT_BEGIN: run_system_statement})
