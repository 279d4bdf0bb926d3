"""Faults on command: a probe that a test gives to the embedded transport, to fail or crash between two steps."""

import sys
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from afl.core.process.crashes import Crash

#: Every point of the embedded transport, in the order of a record's life.
FAULT_POINTS = (
    "produce.before_append",
    "log.before_write",
    "log.after_write",
    "produce.after_append_before_ack",
    "poll.before_deliver",
    "view.before_answer",
    "commit.before",
    "commit.after",
    "rebalance.before_revoke",
    "rebalance.after_revoke",
    "rebalance.before_assign",
    "close.before_leave",
)


class Swallowed(Exception):
    """Stands for a reply that never comes: the caller continues to wait, and no error is reported."""


@dataclass(slots=True)
class _Planned:
    passes: int
    times: int
    error: BaseException | None


class Faults:
    """A probe that raises at the points it was told, and counts how often each was reached. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._planned: dict[str, _Planned] = {}
        self._reached: Counter[str] = Counter()

    def fail_at(self, point: str, times: int = 1, *, error: BaseException | None = None, passes: int = 0) -> None:
        """Raise `error` (default: a Crash) the next `times` times that `point` is reached, after `passes` without."""
        with self._lock:
            self._planned[point] = _Planned(passes=passes, times=times, error=error)

    def swallow(self, point: str) -> None:
        """Let no reply come at `poll.before_deliver` (to a fetch) or `view.before_answer`, until `clear`."""
        self.fail_at(point, times=sys.maxsize, error=Swallowed())

    def clear(self) -> None:
        """Forget what was planned."""
        with self._lock:
            self._planned.clear()

    def reached(self, point: str) -> int:
        """Return how many times `point` was reached."""
        with self._lock:
            return self._reached[point]

    def probe(self, point: str) -> None:
        with self._lock:
            self._reached[point] += 1
            planned = self._planned.get(point)
            if planned is None:
                return
            if planned.passes:
                planned.passes -= 1
                return
            planned.times -= 1
            if planned.times <= 0:
                del self._planned[point]
            error = planned.error if planned.error is not None else Crash(point)
        raise error
