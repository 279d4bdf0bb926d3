"""Plans of what the runtime itself does for a step: its library facets, and the policy of further attempts."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from afl.engine.limits import MAX_TIMEOUT_MS


class LibraryFacet(StrEnum):
    """The event facets that the runtime answers. Values are their qualified names."""

    WAIT_FOR_EVENT = "afl.WaitForEvent"
    SLEEP = "afl.Sleep"
    WAIT_UNTIL = "afl.WaitUntil"
    CONTINUE_AS_NEW = "afl.ContinueAsNew"


class RetryPlan(NamedTuple):
    """What `with Retry(...)` on a call says."""

    #: The most further attempts after the first.
    times: int
    #: The pause before the first further attempt, in milliseconds.
    delay_ms: int
    #: What each pause is longer than the one before.
    factor: float
    #: The longest pause; None: no limit.
    max_delay_ms: int | None
    #: The error types after which there is a further attempt; empty: after each.
    errors: frozenset[str]

    def pause_ms(self, failures: int) -> int:
        """Return the pause after this many failed attempts in a row (1: after the first)."""
        longest = MAX_TIMEOUT_MS if self.max_delay_ms is None else min(self.max_delay_ms, MAX_TIMEOUT_MS)
        try:
            return min(longest, int(self.delay_ms * self.factor ** (failures - 1)))
        except OverflowError:
            return longest
