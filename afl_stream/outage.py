"""Outages: waits with backoff while no broker answers, each logged once and limited in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.errors import SchemaUnavailable
from afl_stream.transport import BrokerUnavailable

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: The longest wait between two attempts.
LONGEST_WAIT_S: Final = 5.0
_BACKOFF: Final = Backoff(first_s=0.1, longest_s=LONGEST_WAIT_S)
#: How often a wait asks whether its caller is to stop.
_SLICE_S: Final = 0.05


def broker_at(address: str | None) -> str:
    """Return how messages call the broker at an address, which not everything knows that waits for one."""
    return f"the broker at {address}" if address else "the broker"


class GaveUp(BrokerUnavailable):
    """An outage has lasted longer than the limit."""


class Outage:
    """The outages of one party, one after the other. Not safe for threads."""

    def __init__(self, timeout_s: float, monotonic_s: MonotonicClock = monotonic_s) -> None:
        """Limit each outage to `timeout_s`."""
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._since_s: float | None = None
        self._failures = FailedAttempts(_BACKOFF)

    def failed(self, error: Exception) -> float:
        """Note that an attempt has failed, and return how many seconds to wait before the next.

        Raises GaveUp when the outage has lasted too long.
        """
        if isinstance(error, GaveUp):
            raise error
        now_s = self._monotonic_s()
        if self._since_s is None:
            self._since_s = now_s
            self._failures.reset()
            _log.warning("%s; waiting for it, up to %g s; nothing is lost", error, self._timeout_s)
        remaining_s = self._since_s + self._timeout_s - now_s
        if remaining_s <= 0:
            raise GaveUp(f"{error}; gave up after {self._timeout_s:g} s") from error
        return min(self._failures.next_wait_s(), remaining_s)

    def over(self) -> None:
        """Note that an attempt has succeeded."""
        if self._since_s is not None:
            _log.warning("the broker is back after %.1f s", self._monotonic_s() - self._since_s)
            self._since_s = None


def waited_out(
    step: Callable[[], T],
    timeout_s: float,
    monotonic_s: MonotonicClock = monotonic_s,
    is_stopping: Callable[[], bool] = lambda: False,
) -> T:
    """Take a step of a start, and retry it during an outage, for `timeout_s` at most.

    Raises GaveUp then, and the step's error once the process or its caller is told to stop.
    """
    outage = Outage(timeout_s, monotonic_s)
    while True:
        try:
            result = step()
        except (BrokerUnavailable, SchemaUnavailable) as error:
            if isinstance(error, SchemaUnavailable) and error.waits_for_people:
                raise
            wait_s = outage.failed(error)
            if _is_stopping_within(wait_s, is_stopping):
                raise
        else:
            outage.over()
            return result


def _is_stopping_within(wait_s: float, is_stopping: Callable[[], bool]) -> bool:
    """Wait, and say whether the process or the caller is to stop."""
    deadline_s = time.monotonic() + wait_s
    while not is_stopping():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        if PROCESS_STOP.wait(min(left_s, _SLICE_S)):
            return True
    return True
