"""The changer of yields."""

from __future__ import annotations

from afl.engine.types import ObjectType
from afl.runtime.changers.base import TableStateChanger


class YieldStateChanger(TableStateChanger):
    """Yields: evaluate the arguments, then complete."""

    kind = ObjectType.YIELD_ASSIGNMENT
