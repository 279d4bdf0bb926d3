"""A pool of script workers for the tests of a module, with limits that end a script soon."""

from collections.abc import Iterator

import pytest

from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool

LIMITS = ScriptLimits(wall_s=20, cpu_s=1, memory_bytes=128 * MEBIBYTE, printed_bytes=1000)


@pytest.fixture(scope="module")
def pool() -> Iterator[ScriptPool]:
    with ScriptPool(LIMITS) as pool:
        yield pool
