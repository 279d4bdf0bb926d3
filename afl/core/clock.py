"""The two clocks: the wall's, for stamps that are stored or shown, and the monotonic one, for how long things take.

A wall clock may be set back or ahead at any time. An interval that is measured by it is too long then, or over at
once; so nothing but stamps comes from it, and no other module asks the system for it. What is left to compare it with
are stamps that other processes wrote: see `has_waited`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

#: Seconds from some moment on, which nobody sets.
MonotonicClock: TypeAlias = Callable[[], float]
monotonic_s: Final[MonotonicClock] = time.monotonic

#: How far the clocks of a deployment's machines are taken to differ at most. A stamp that lies further ahead was made
#: before a clock was set back.
CLOCK_TOLERANCE_MS: Final = 60_000


def epoch_ms() -> int:
    """Return the wall clock's time in milliseconds since the epoch: for stamps."""
    return time.time_ns() // 1_000_000


def epoch_ns() -> int:
    """Return the wall clock's time in nanoseconds since the epoch: for stamps."""
    return time.time_ns()


def has_waited(stamp_ms: int, now_ms: int, wait_ms: int) -> bool:
    """Say whether it is `wait_ms` since a stamp, as far as the wall clock can tell.

    A stamp that lies further ahead than the wait, and than clocks may differ, was made before a clock was set back:
    nobody knows how long ago, and it has waited.
    """
    return not -ahead_ms(wait_ms) < now_ms - stamp_ms < wait_ms


def ahead_ms(wait_ms: int) -> int:
    """Return how far ahead a stamp may lie that something waits for so long after."""
    return max(wait_ms, CLOCK_TOLERANCE_MS)
