"""The size of a batch: as many records as are handled in an acceptable wait."""

from __future__ import annotations

from typing import Final

#: However long a batch takes, it has this many: below, the commit is most of it.
_LEAST_RECORDS: Final = 50


class BatchSize:
    """The size of the next batch, computed from how long the last ones took.

    The next record waits for the current batch: the time of a batch is kept near `aim_s`, its size between 50 and
    `most` records, whichever is less. Its time is the work of the loop's thread: when others take the CPU, smaller
    batches would only add commits. Workflows that continue without a record share that time; at least half of it is
    left to records.
    """

    def __init__(self, most: int, aim_s: float) -> None:
        self._most = most
        self._aim_s = aim_s
        self.records = most

    def took(self, records: int, elapsed_s: float, turns_s: float = 0.0) -> None:
        """Note that a batch of so many records took so much work; `turns_s` went to workflows without a record."""
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
