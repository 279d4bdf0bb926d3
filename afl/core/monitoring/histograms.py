"""Histograms that a service fills while it works, cheaply, and that are read at any time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from afl.core.monitoring.metrics import Distribution, Family, Metric

#: Seconds from a record to another one that answers it: a millisecond to a day.
ANSWER_BOUNDS_S: Final = (
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0,
    86_400.0,
)  # fmt: skip
#: Seconds of work in one process: a tenth of a millisecond to some minutes.
WORK_BOUNDS_S: Final = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
)  # fmt: skip


class Histogram:
    """Counts of observations by size, for each value of one label. Any thread may observe and read."""

    def __init__(self, metric: Metric, bounds: Sequence[float]) -> None:
        """Count what is at most as large as each bound, and what is larger than all."""
        self.metric = metric
        self._bounds = tuple(bounds)
        self._lock = Lock()
        self._counts: dict[str, list[int]] = {}
        self._totals: dict[str, float] = {}

    def observe(self, value: float, label: str = "") -> None:
        """Count one observation."""
        self.observe_all(((value, label),))

    def observe_all(self, observed: Iterable[tuple[float, str]]) -> None:
        """Count observations, each with its label's value."""
        bounds, counts, totals = self._bounds, self._counts, self._totals
        with self._lock:
            for value, label in observed:
                found = counts.get(label)
                if found is None:
                    found, totals[label] = counts.setdefault(label, [0] * (len(bounds) + 1)), 0.0
                found[bisect_left(bounds, value)] += 1
                totals[label] += value

    def family(self) -> Family:
        """Return what was observed up to now."""
        with self._lock:
            copied = {label: (tuple(counts), self._totals[label]) for label, counts in self._counts.items()}
        is_labelled = bool(self.metric.labels)
        return Family(
            self.metric,
            {
                ((label,) if is_labelled else ()): Distribution(self._bounds, counts, total)
                for label, (counts, total) in copied.items()
            },
        )
