"""Measures CPU time in pairs: two ways to the same end, one after the other, so that both meet the same machine."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSeconds:
    """CPU seconds of two ways, pair by pair."""

    subject: Sequence[float]
    floor: Sequence[float]

    @property
    def ratio(self) -> float:
        """Subject over floor: the median of the pairs' own ratios, which a busy neighbour moves least."""
        return statistics.median(a / b for a, b in zip(self.subject, self.floor, strict=True))

    @property
    def subject_s(self) -> float:
        """The median of the subject, in CPU seconds."""
        return statistics.median(self.subject)

    @property
    def floor_s(self) -> float:
        """The median of the floor, in CPU seconds."""
        return statistics.median(self.floor)


def cpu_seconds(prepare: Callable[[], T], work: Callable[[T], object]) -> float:
    """CPU seconds of this process, all threads, that `work` takes on what `prepare` made; preparing does not count."""
    prepared = prepare()
    gc.collect()
    start_s = time.process_time()
    result = work(prepared)
    elapsed_s = time.process_time() - start_s
    # Freed only now: tearing a large result down is not part of the work.
    del result
    return elapsed_s


def process_cpu_s(process_id: int) -> float:
    """Return the CPU seconds of a process, all threads, precisely: what clock_getcpuclockid(3) gives on Linux."""
    return time.clock_gettime(~process_id << 3 | 2)


def paired(subject: Callable[[], float], floor: Callable[[], float], pairs: int) -> PairedSeconds:
    """Measure both, alternately, `pairs` times, after one round that does not count."""
    subject()
    floor()
    measured = [(subject(), floor()) for _ in range(pairs)]
    return PairedSeconds(subject=[pair[0] for pair in measured], floor=[pair[1] for pair in measured])
