"""Backoff: how long to wait between attempts that fail, longer each time, up to a bound."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Backoff:
    """The rule for the waits: the first one, `factor` times the one before, and none longer than `longest_s`."""

    first_s: float
    longest_s: float
    factor: float = 2.0

    def wait_s(self, failures: int) -> float:
        """Return the wait after this many failures in a row, counted from 1."""
        try:
            return float(min(self.first_s * self.factor ** (failures - 1), self.longest_s))
        except OverflowError:
            # The product is beyond every bound, unless there is nothing to multiply.
            return float(self.longest_s) if self.first_s else 0.0


@dataclass(slots=True)
class FailedAttempts:
    """Failures in a row of one party, and the wait after each. Not safe for threads."""

    backoff: Backoff
    count: int = field(default=0, init=False)

    def next_wait_s(self) -> float:
        """Note one more failure, and return how long to wait before the next attempt."""
        self.count += 1
        return self.backoff.wait_s(self.count)

    def reset(self) -> None:
        """Note a success: the next failure is the first one again."""
        self.count = 0
