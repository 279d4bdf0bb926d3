"""Where the engine gets the time from: a port, the system's clock, and one that is set by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time. The engine never asks the system itself, so that a run can be repeated."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch."""


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        """Return the system's time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved: for tests, simulations and replays."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that the clock was set to, in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, duration_ms: int) -> None:
        """Move the clock on. ValueError for a negative duration: time does not run backwards here."""
        if duration_ms < 0:
            raise ValueError(f"a clock moves forward only, not by {duration_ms} ms")
        self._now_ms += duration_ms
