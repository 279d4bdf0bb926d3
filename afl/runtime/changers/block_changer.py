"""Drives blocks."""

from __future__ import annotations

from afl.runtime.changers.base import TableStateChanger
from afl.runtime.types import ObjectType


class BlockStateChanger(TableStateChanger):
    """Blocks: begin, run until every statement has ended, end."""

    kind = ObjectType.AND_THEN
