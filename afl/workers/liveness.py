"""Whether a loop still gets on: when it last came round, and what has kept it from that since."""

from __future__ import annotations

import time
from collections.abc import Callable

from afl.core.text.exception_text import exception_line


class Pulse:
    """The sign of life of one loop. The loop writes it, any thread reads it; nothing here waits for anything."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._at_s = monotonic_s()
        self._obstacle: str | None = None

    def beat(self) -> None:
        """It has come round: everything that it needs was there."""
        self._at_s, self._obstacle = self._monotonic_s(), None

    def skipped(self, error: Exception) -> None:
        """It could not do its round."""
        self._obstacle = exception_line(error)

    def silent_s(self) -> float:
        """Seconds since it last came round."""
        return self._monotonic_s() - self._at_s

    @property
    def obstacle(self) -> str | None:
        """What the last round failed of; None when it did not fail, or has not ended."""
        return self._obstacle
