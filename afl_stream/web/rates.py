"""Limits on how often an address may ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from afl.core.clock import Clock, SystemClock

#: Addresses that are remembered; the one that was quiet longest is forgotten.
_MOST: Final = 10_000


class RateLimit:
    """So many calls a second for each key, and a few times as many at once."""

    def __init__(self, per_s: float, burst: float, *, clock: Clock | None = None) -> None:
        self._per_s, self._burst = per_s, burst
        self._clock = clock or SystemClock()
        #: What is left of each key's calls, and when that was so.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Count a call, and return 0; or do not count it, and return after how many seconds it would be taken."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            left, then_s = self._left.pop(key, (self._burst, now_s))
            left = min(self._burst, left + (now_s - then_s) * self._per_s)
            taken = left >= 1
            self._left[key] = (left - 1 if taken else left, now_s)
            while len(self._left) > _MOST:
                self._left.popitem(last=False)
            return 0.0 if taken else (1 - left) / self._per_s
