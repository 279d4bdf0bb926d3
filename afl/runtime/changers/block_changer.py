"""Drives blocks."""

from __future__ import annotations

from afl.runtime.changers.base import StepMachine, TableStateChanger
from afl.runtime.states import BLOCK_TRANSITIONS


class BlockStateChanger(TableStateChanger):
    """Blocks: begin, run until every statement has ended, end."""

    machine = StepMachine(BLOCK_TRANSITIONS)
