"""Runs that sleep until a time: an evaluator that ends when it is idle does not wait for them, and says so."""

from __future__ import annotations

from typing import Final, NamedTuple

from afl.engine.model.store import TimerKind, TimerRow
from afl.stores.public.persistence import EngineStore
from afl_stream.commands.terminal import time_text

#: Timers that are counted at most.
_MOST_TIMERS: Final = 10_000
#: Behind every time.
_NEVER_MS: Final = (1 << 63) - 1


class SleepingRuns(NamedTuple):
    """The runs that wait for a time: how many (`has_more`: at least so many), and when the first of them continues."""

    runs: int
    has_more: bool
    #: Milliseconds since the epoch.
    next_ms: int

    def __str__(self) -> str:
        """Return a sentence for people."""
        many = f"{self.runs:,}{' or more' if self.has_more else ''}"
        if self.runs == 1 and not self.has_more:
            return f"1 run sleeps until {time_text(self.next_ms)}, when an evaluator has to run"
        return f"{many} runs sleep, the first until {time_text(self.next_ms)}, when an evaluator has to run"


def sleeping_runs(store: EngineStore) -> SleepingRuns | None:
    """Return the runs that wait for a time of their program; None when there are none.

    Deadlines of events are left out: their runs wait for an answer.
    """
    timers: list[TimerRow] = []
    while len(timers) < _MOST_TIMERS and (page := store.timers_due(_NEVER_MS, after=timers[-1] if timers else None)):
        timers += page
    asleep = [timer for timer in timers if timer.kind is not TimerKind.DEADLINE]
    if not asleep:
        return None
    runs = {timer.workflow_id for timer in asleep}
    return SleepingRuns(len(runs), len(timers) >= _MOST_TIMERS, asleep[0].due_at_ms)
