"""Drives yields."""

from __future__ import annotations

from afl.runtime.changers.base import TableStateChanger
from afl.runtime.types import ObjectType


class YieldStateChanger(TableStateChanger):
    """Yields: evaluate the arguments, then complete."""

    kind = ObjectType.YIELD_ASSIGNMENT
