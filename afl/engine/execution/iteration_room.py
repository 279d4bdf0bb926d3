"""The limit of one iteration. It depends on the work alone, so a repeated iteration ends at the same place."""

from __future__ import annotations

from afl.engine.execution.run_bounds import RunBounds
from afl.engine.values.sizes import counting


class IterationRoom:
    """The remaining room of an iteration: units of work, and how far it may count bytes and entries (run_bounds.py).

    The rest runs in the next one.
    """

    __slots__ = ("_bounds", "_bytes_until", "_entries_until", "units")

    def __init__(self, bounds: RunBounds) -> None:
        self._bounds = bounds
        self.renew()

    def renew(self) -> None:
        """Give a new iteration all its room."""
        bounds = self._bounds
        #: Units of work that are left. The code that does the work subtracts them.
        self.units = bounds.iteration_units
        #: Up to where bytes that steps are given are counted, and entries that operators read.
        self._bytes_until = bounds.state_bytes + bounds.iteration_bytes
        self._entries_until = counting.entries_read + bounds.iteration_entries

    def is_left(self) -> bool:
        """Return whether the iteration has room for more work."""
        return (
            self.units > 0
            and self._bounds.state_bytes <= self._bytes_until
            and counting.entries_read <= self._entries_until
        )
