"""The changer of blocks."""

from __future__ import annotations

from afl.engine.types import ObjectType
from afl.runtime.changers.base import TableStateChanger


class BlockStateChanger(TableStateChanger):
    """Blocks: begin, run until every statement has ended, end."""

    kind = ObjectType.AND_THEN
