"""The engine's source of time: a port, the system's clocks, and clocks that are set by hand."""

from __future__ import annotations

from typing import Protocol

from afl.core.clock import epoch_ms, monotonic_s


class Clock(Protocol):
    """The interface of a clock. The engine never asks the system itself, so that a run can be repeated."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch: for stamps, never for durations."""

    def monotonic_s(self) -> float:
        """Return seconds that only increase, even if the wall clock is set: for durations."""


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Return the system's time in milliseconds since the epoch."""
        return epoch_ms()

    def monotonic_s(self) -> float:
        """Return the system's monotonic seconds."""
        return monotonic_s()


class ManualClock:
    """A clock that stands still until it is moved: for tests, simulations and replays."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that the clock was set to, in milliseconds since the epoch."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """Return the seconds that the clock has been moved on so far."""
        return self._monotonic_ms / 1_000

    def advance(self, duration_ms: int) -> None:
        """Move the clock on. Raises ValueError for a negative duration: time does not run backwards here."""
        if duration_ms < 0:
            raise ValueError(f"a clock moves forward only, not by {duration_ms} ms")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_back(self, duration_ms: int) -> None:
        """Set the wall clock back, as an operator or NTP does; the monotonic clock does not change."""
        self._now_ms -= duration_ms
