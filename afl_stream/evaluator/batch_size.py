"""How many records a batch takes: as many as are handled in a time that nobody minds waiting for."""

from __future__ import annotations

from typing import Final

#: However long a batch takes, it has this many: below, the commit is most of it.
_LEAST_RECORDS: Final = 50


class BatchSize:
    """The size of the next batch, from how long the last ones took.

    Whoever comes next waits for the batch that is being handled: its time is kept near `aim_s`, its size between 50
    and `most` records, whichever is less. Workflows that go on without a record take of that time, and leave records
    half of it at least.
    """

    def __init__(self, most: int, aim_s: float) -> None:
        self._most = most
        self._aim_s = aim_s
        self.records = most

    def took(self, records: int, elapsed_s: float, turns_s: float = 0.0) -> None:
        """A batch of so many records took so long, `turns_s` of it for workflows that went on without one."""
        if not records:
            return
        elapsed_s -= turns_s
        aim_s = max(self._aim_s - turns_s, self._aim_s / 2)
        if elapsed_s > aim_s:
            # Not below half at once: one slow commit says little.
            fitting = max(int(records * aim_s / elapsed_s), self.records // 2)
            self.records = min(self._most, max(_LEAST_RECORDS, fitting))
        elif elapsed_s < aim_s / 2 and records >= self.records:
            self.records = min(self._most, 2 * self.records)
