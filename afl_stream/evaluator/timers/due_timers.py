"""The timers that are due now, in order of time, and when the next one will be."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import Clock
from afl.engine.model.store import TimerKind, TimerRow, TimerStore
from afl_stream.partitioner import partition_for
from afl_stream.wire.pauses import Pauses

#: How often the store is asked for timers that other writers have added.
_LOOK_INTERVAL_S: Final = 1.0
#: Timers of one question to the store, and the most questions in a row: others have their turn, too.
_PAGE: Final = 1_000
_MOST_PAGES: Final = 5
#: Waits between attempts at the timers of a workflow that cannot be continued now.
_BACKOFF: Final = Backoff(first_s=1.0, longest_s=60.0)
#: Behind every time.
_NEVER_MS: Final = (1 << 63) - 1


class DueTimers:
    """Finds the due timers of some control partitions. Belongs to the loop's thread.

    While nothing is due, the store is asked one indexed question a second, however many timers it has. What was asked
    once is not asked again: a search continues behind the last time that was searched. It begins at the first timer
    again when the partitions change, when a timer was written that was due already, and each second in which due timers
    are left that are not fired here: those of other owners, and of workflows that cannot be continued.
    """

    def __init__(self, store: TimerStore, clock: Clock, control_partitions: int, pauses: Pauses | None = None) -> None:
        """Take the store. `pauses`: what is paused; timers of paused workflows wait."""
        self._pauses = pauses if pauses is not None else Pauses()
        self._store = store
        self._clock = clock
        self._control_partitions = control_partitions
        self._partitions: frozenset[int] = frozenset()
        #: Found and not taken yet.
        self._found: deque[TimerRow] = deque()
        #: The search continues behind this; None: at the first timer.
        self._searched: TimerRow | None = None
        #: When there is something to search for; None: not before the next look.
        self._next_ms: int | None = None
        self._looked_s = float("-inf")
        #: Workflows that could not be continued, and when they are tried again.
        self._failing: dict[str, tuple[FailedAttempts, float]] = {}

    def take(self, partitions: frozenset[int], most: int) -> list[TimerRow]:
        """Return due timers of these control partitions, in order of time and step id, and forget them."""
        if partitions != self._partitions:
            self._partitions = partitions
            self._found.clear()
            self._begin_again()
        if not partitions:
            return []
        now_ms = self._clock.now_ms()
        if not self._found and self._is_to_search(now_ms):
            self._search(now_ms)
        return [self._found.popleft() for _ in range(min(most, len(self._found)))]

    def give_back(self, timers: Collection[TimerRow]) -> None:
        """Take these timers first the next time: they were not fired."""
        self._found.extendleft(reversed(list(timers)))

    def written(self, timers: Collection[TimerRow]) -> None:
        """Note timers that a commit of this evaluator has written."""
        for timer in timers:
            if self._searched is not None and timer.due_at_ms <= self._searched.due_at_ms:
                self._begin_again()
            elif self._next_ms is None or timer.due_at_ms < self._next_ms:
                self._next_ms = timer.due_at_ms

    def wait_s(self) -> float | None:
        """Return how long no timer is due, as far as is known; None: not before the next look at the store."""
        if not self._partitions or (self._next_ms is None and not self._found):
            return None
        return 0.0 if self.has_due() else max(0, (self._next_ms or 0) - self._clock.now_ms()) / 1_000

    def has_due(self) -> bool:
        """Return whether timers are known to be due that are to be fired here."""
        if not self._partitions:
            return False
        return bool(self._found) or (self._next_ms is not None and self._next_ms <= self._clock.now_ms())

    # --- workflows that cannot be continued ---------------------------------------------------------------------

    def failed(self, workflow_id: str) -> None:
        """Note that the workflow could not be continued: its timers are tried again later."""
        failures, _ = self._failing.get(workflow_id, (FailedAttempts(_BACKOFF), 0.0))
        self._failing[workflow_id] = failures, self._clock.monotonic_s() + failures.next_wait_s()

    def is_failing(self, workflow_id: str) -> bool:
        """Return whether the workflow could not be continued, and is not tried again yet."""
        failing = self._failing.get(workflow_id) if self._failing else None
        return failing is not None and self._clock.monotonic_s() < failing[1]

    def succeeded(self, workflow_id: str) -> None:
        """Note that a timer of the workflow was fired."""
        if self._failing:
            self._failing.pop(workflow_id, None)

    # --- searching ----------------------------------------------------------------------------------------------

    def _begin_again(self) -> None:
        self._searched, self._next_ms = None, 0

    def _is_to_search(self, now_ms: int) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= _LOOK_INTERVAL_S:
            self._looked_s = now_s
            first_ms = self._store.next_timer_ms()
            if first_ms is None or first_ms > now_ms:
                self._searched, self._next_ms = None, first_ms
                return False
            self._begin_again()
        return self._next_ms is not None and self._next_ms <= now_ms

    def _search(self, now_ms: int) -> None:
        # If a row cannot be read: not before the next look.
        self._next_ms = None
        for _ in range(_MOST_PAGES):
            rows = self._store.timers_due(now_ms, after=self._searched, limit=_PAGE)
            self._found.extend(row for row in rows if self._is_ours(row))
            if len(rows) < _PAGE:
                self._searched = TimerRow("", "", TimerKind.SLEEP, now_ms + 1)
                following = self._store.timers_due(_NEVER_MS, after=self._searched, limit=1)
                self._next_ms = following[0].due_at_ms if following else None
                return
            self._searched = rows[-1]
            if self._found:
                break
        # There may be more: the search continues as soon as what was found is taken.
        self._next_ms = now_ms

    def _is_ours(self, timer: TimerRow) -> bool:
        partition = partition_for(timer.workflow_id.encode(), self._control_partitions)
        if partition not in self._partitions or self.is_failing(timer.workflow_id):
            return False
        return not (self._pauses.holds_workflows and self._pauses.of_workflow(timer.workflow_id) is not None)
