"""The decision whether a handler that raised is called again: a policy is asked, and its answer is checked."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Protocol

from afl.core.backoff import Backoff
from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_class, exception_line

log = logging.getLogger(__name__)


class RetryRule(Protocol):
    """The rule for calling a handler again that raised: a RetryPolicy, or an object of the user's making."""

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no further try."""


class BadRetryPolicy(AFLError, ValueError):
    """A retry policy that allows not even the first try."""

    def __init__(self, max_attempts: object) -> None:
        super().__init__(
            f"RetryPolicy: max_attempts: found {max_attempts!r:.100}, expected 1 or more, the first try included"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of tries of a handler that raises, before its step fails, and the waits between them.

    `max_attempts` counts the first try too. The wait before try n + 1 is `backoff_s * factor ** (n - 1)`, at most
    `max_backoff_s`. `retry_on`: which exceptions are worth another try. Tries are not attempts of the step: all of them
    have the same event id.
    """

    max_attempts: int
    backoff_s: float = 1.0
    factor: float = 2.0
    max_backoff_s: float = 60.0
    retry_on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise BadRetryPolicy(self.max_attempts)

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no other."""
        # By its type: what a handler raises may lie about its class.
        if tries >= self.max_attempts or not issubclass(type(error), self.retry_on):
            return None
        return Backoff(self.backoff_s, self.max_backoff_s, self.factor).wait_s(tries)


def next_try_s(policy: RetryRule | None, tries: int, error: BaseException) -> float | None:
    """Ask a policy, which may be anybody's code. None where there is none, where it says so, and where it fails."""
    if policy is None:
        return None
    try:
        wait_s = policy.wait_s(tries, error)
        if wait_s is None or (type(wait_s) in (int, float) and math.isfinite(wait_s)):
            return None if wait_s is None else max(0.0, float(wait_s))
        found = f"gave {wait_s!r:.100}, expected seconds or None"
    except Exception as failure:  # noqa: BLE001 - a policy is the user's code, and looks at a handler's exception
        found = f"raised {exception_line(failure)}"
    log.warning("the retry policy %s; the handler that raised %s is not tried again", found, exception_class(error))
    return None
