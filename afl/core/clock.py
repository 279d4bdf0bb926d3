"""The two clocks: the wall clock for stamps that are stored or shown, the monotonic clock for durations.

A wall clock may be set back or ahead at any time, which makes an interval measured by it too long, or ends it at once.
So only stamps come from the wall clock, and no other module asks the system for it. Stamps of other processes cannot be
compared with anything else: see `has_waited`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

#: Seconds since some fixed moment; nothing sets this clock.
MonotonicClock: TypeAlias = Callable[[], float]
monotonic_s: Final[MonotonicClock] = time.monotonic

#: The most that the clocks of a deployment's machines are taken to differ. A stamp further ahead was made before a
#: clock was set back.
CLOCK_TOLERANCE_MS: Final = 60_000


def epoch_ms() -> int:
    """Return the wall clock's time in milliseconds since the epoch: for stamps."""
    return time.time_ns() // 1_000_000


def epoch_ns() -> int:
    """Return the wall clock's time in nanoseconds since the epoch: for stamps."""
    return time.time_ns()


def has_waited(stamp_ms: int, now_ms: int, wait_ms: int) -> bool:
    """Say whether `wait_ms` have passed since a stamp, as far as the wall clock can tell.

    A stamp that lies further ahead than the wait plus the allowed difference of clocks was made before a clock was set
    back. Its age is unknown, and the wait counts as over.
    """
    return not -ahead_ms(wait_ms) < now_ms - stamp_ms < wait_ms


def ahead_ms(wait_ms: int) -> int:
    """Return how far ahead of the clock a stamp may lie when something waits this long after it."""
    return max(wait_ms, CLOCK_TOLERANCE_MS)
