"""The decision whether a handler that raised is called again: a policy is asked, and its answer is checked."""

from __future__ import annotations

import logging
import math
from typing import Protocol

from afl.core.text.exception_text import exception_class, exception_line

log = logging.getLogger(__name__)


class RetryPolicy(Protocol):
    """A policy that decides when a handler that raised is called again: agents on Kafka bring such an object."""

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no further try."""


def next_try_s(policy: RetryPolicy | None, tries: int, error: BaseException) -> float | None:
    """Ask a policy, which may be foreign code. Returns None without a policy, when it says so, and when it fails."""
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
