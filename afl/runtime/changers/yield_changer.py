"""Drives yields."""

from __future__ import annotations

from afl.runtime.changers.base import StateChanger
from afl.runtime.states import YIELD_TRANSITIONS


class YieldStateChanger(StateChanger):
    """Yields: evaluate the arguments, then complete."""

    def __init__(self) -> None:
        super().__init__(YIELD_TRANSITIONS)
