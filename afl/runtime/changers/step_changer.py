"""Drives steps that call a facet, the root of a workflow, and schema instantiations."""

from __future__ import annotations

from afl.runtime.changers.base import StateChanger
from afl.runtime.states import SCHEMA_TRANSITIONS, STEP_TRANSITIONS


class StepStateChanger(StateChanger):
    """The full machine: binding, mixins, event, blocks, capture."""

    def __init__(self) -> None:
        super().__init__(STEP_TRANSITIONS)


class SchemaStateChanger(StateChanger):
    """Schema instantiations: evaluate the arguments, then complete."""

    def __init__(self) -> None:
        super().__init__(SCHEMA_TRANSITIONS)
