"""Drives blocks."""

from __future__ import annotations

from afl.runtime.changers.base import StateChanger
from afl.runtime.states import BLOCK_TRANSITIONS


class BlockStateChanger(StateChanger):
    """Blocks: begin, run until every statement has ended, end."""

    def __init__(self) -> None:
        super().__init__(BLOCK_TRANSITIONS)
