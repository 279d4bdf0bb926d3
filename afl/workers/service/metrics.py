"""The metrics of a runner, which polls the store for tasks: its counters, as they are when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from afl.core.monitoring.metrics import Family, Metric, counter, gauge, one
from afl.engine.model.entities import HandledCount

TASKS: Final = counter("afl_poller_tasks_total", "tasks done: completed, failed", "task", "result")
IN_FLIGHT: Final = gauge("afl_poller_in_flight", "tasks that are worked on")
SILENT: Final = gauge("afl_poller_silent_seconds", "time since a poll of the store has succeeded")

POLLER_METRICS: Final[tuple[Metric, ...]] = (TASKS, IN_FLIGHT, SILENT)


class PollerMetrics:
    """The metrics of one runner."""

    metrics: Sequence[Metric] = POLLER_METRICS

    def __init__(
        self, counts: Callable[[], Sequence[HandledCount]], at_work: Callable[[], int], silent_s: Callable[[], float]
    ) -> None:
        """Take what tells the counts of tasks, how many are worked on, and since when no poll has succeeded."""
        self._counts = counts
        self._at_work = at_work
        self._silent_s = silent_s

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        tasks = dict[tuple[str, ...], float]()
        for count in self._counts():
            tasks[count.handler, "completed"], tasks[count.handler, "failed"] = count.handled, count.not_handled
        yield Family(TASKS, tasks)
        yield one(IN_FLIGHT, self._at_work())
        yield one(SILENT, self._silent_s())
