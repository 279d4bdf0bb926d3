"""Handlers that still run after their time was up: each keeps a thread that cannot be ended, so there is a bound."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from afl.core.errors import AFLError


class HandlersStuck(AFLError):
    """More handlers are stuck than allowed: the process ends, and must be restarted without them."""

    def __init__(self, facets: Counter[str], most: int) -> None:
        text = ", ".join(f"{facet} ({count})" for facet, count in facets.most_common())
        super().__init__(
            f"{facets.total()} handlers still run after their time was up, and max_stuck_handlers is {most}: {text}; "
            "only the end of the process ends them"
        )
        self.facets = facets
        self.most = most


class StuckHandlers:
    """The count of stuck handlers by facet. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._facets: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._facets)

    def add(self, call: object, facet: str) -> HandlersStuck | None:
        """Note that a call's time was up; return the error if too many are stuck now."""
        with self._lock:
            self._facets[id(call)] = facet
        return self.problem()

    def remove(self, call: object) -> None:
        """Note that a call has ended after all."""
        with self._lock:
            self._facets.pop(id(call), None)

    def problem(self) -> HandlersStuck | None:
        """Return the error if too many are stuck."""
        with self._lock:
            if len(self._facets) <= self._most:
                return None
            return HandlersStuck(Counter(self._facets.values()), self._most)
