"""The two clocks: the wall clock for stamps that are stored or shown, the monotonic clock for durations.

A wall clock may be set back or ahead at any time, which makes an interval measured by it too long, or ends it at once.
So only stamps come from the wall clock, and no other module asks the system for it. Stamps of other processes cannot be
compared with anything else: see `has_waited`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

#: Seconds since some fixed moment; nothing sets this clock.
MonotonicClock: TypeAlias = Callable[[], float]
#: Milliseconds since the epoch, for stamps.
WallClock: TypeAlias = Callable[[], int]
monotonic_s: Final[MonotonicClock] = time.monotonic
#: Seconds of CPU that the calling thread has used: what others on the machine take does not count.
thread_s: Final[MonotonicClock] = time.thread_time

#: The most that the clocks of a deployment's machines are taken to differ. A stamp further ahead was made before a
#: clock was set back.
CLOCK_TOLERANCE_MS: Final = 60_000


def epoch_ms() -> int:
    """Return the wall clock's time in milliseconds since the epoch: for stamps."""
    return time.time_ns() // 1_000_000


#: Returns the wall clock's time in nanoseconds since the epoch: for stamps. It is asked several times for each span.
epoch_ns: Final[WallClock] = time.time_ns


def has_waited(stamp_ms: int, now_ms: int, wait_ms: int) -> bool:
    """Say whether `wait_ms` have passed since a stamp, as far as the wall clock can tell.

    A stamp that lies further ahead than the wait plus the allowed difference of clocks was made before a clock was set
    back. Its age is unknown, and the wait counts as over.
    """
    return not -ahead_ms(wait_ms) < now_ms - stamp_ms < wait_ms


def ahead_ms(wait_ms: int) -> int:
    """Return how far ahead of the clock a stamp may lie when something waits this long after it."""
    return max(wait_ms, CLOCK_TOLERANCE_MS)


class Clock(Protocol):
    """The port for both clocks. The engine never asks the system itself, so that a run can be repeated."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch: for stamps, never for how long something takes."""

    def monotonic_s(self) -> float:
        """Return seconds that only go forward, whatever becomes of the other: for intervals."""


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Return the system's time in milliseconds since the epoch."""
        return epoch_ms()

    def monotonic_s(self) -> float:
        """Return the system's monotonic seconds."""
        return monotonic_s()


class SkippingClock:
    """The clocks of this machine, which can be moved ahead: over waits that nobody wants to sit through."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Take the clock that it runs on; without one that of the system."""
        self._clock = clock or SystemClock()
        self._skipped_ms = 0

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch, with what was skipped."""
        return self._clock.now_ms() + self._skipped_ms

    def monotonic_s(self) -> float:
        """Return monotonic seconds, with what was skipped."""
        return self._clock.monotonic_s() + self._skipped_ms / 1_000

    def skip_to(self, at_ms: int) -> None:
        """Move the clock ahead to a time in milliseconds since the epoch; one that has passed changes nothing."""
        self._skipped_ms += max(0, at_ms - self.now_ms())


class ManualClock:
    """A clock that stands still until it is moved: for tests, simulations and replays."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that the clock was set to, in milliseconds since the epoch."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """Return the seconds that the clock was moved on so far, from some beginning."""
        return self._monotonic_ms / 1_000

    def advance(self, duration_ms: int) -> None:
        """Move the clock on. ValueError for a negative duration: time does not run backwards here."""
        if duration_ms < 0:
            raise ValueError(f"a clock moves forward only, not by {duration_ms} ms")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_back(self, duration_ms: int) -> None:
        """Set the wall clock back, as an operator or NTP does; no time passes by that."""
        self._now_ms -= duration_ms
