"""The progress of a loop: the time of its last round, and the obstacle since then."""

from __future__ import annotations

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.text.exception_text import exception_line


class Liveness:
    """The sign of life of one loop. The loop writes it, any thread reads it; no call waits."""

    def __init__(self, monotonic_s: MonotonicClock = monotonic_s) -> None:
        self._monotonic_s = monotonic_s
        self._at_s = monotonic_s()
        self._obstacle: str | None = None

    def beat(self) -> None:
        """Note that a round was completed: all that it needs was available."""
        self._at_s, self._obstacle = self._monotonic_s(), None

    def skipped(self, error: Exception) -> None:
        """Note that a round could not be completed."""
        self._obstacle = exception_line(error)

    def silent_s(self) -> float:
        """Return the seconds since its last round."""
        return self._monotonic_s() - self._at_s

    @property
    def obstacle(self) -> str | None:
        """Return the error of the last round; None when it did not fail, or has not ended."""
        return self._obstacle
