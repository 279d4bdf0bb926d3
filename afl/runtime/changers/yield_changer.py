"""Drives yields."""

from __future__ import annotations

from afl.runtime.changers.base import StepMachine, TableStateChanger
from afl.runtime.states import YIELD_TRANSITIONS


class YieldStateChanger(TableStateChanger):
    """Yields: evaluate the arguments, then complete."""

    machine = StepMachine(YIELD_TRANSITIONS)
