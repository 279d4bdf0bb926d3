"""Timers of the control loop: taken when they are due, fired in a batch, and gone with its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.clock import thread_s
from afl.core.probes import Probe, no_probe
from afl.engine.errors import StoreCorrupt, StoreUnavailable, VersionMismatchError
from afl.engine.execution.execution import Execution
from afl.engine.execution.timers import fire_timer, has_timer
from afl.engine.model.store import TimerKind, TimerRow
from afl_stream.errors import NotEvaluable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.control_stats import TimerStats
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.timers.due_timers import DueTimers

if TYPE_CHECKING:
    from afl_stream.evaluator.unit_of_work import UnitOfWork

#: Timers of one batch: those for which the last batches had time, within these bounds.
_MOST_TIMERS: Final = 500
_LEAST_TIMERS: Final = 10


class TimerTurns:
    """Fires the due timers of workflows whose control partitions this evaluator owns.

    For each timer, in this order:
      1. its row is written in the commit with which its step begins to wait (`control.persisted`),
      2. when it is due, the loop takes it, in order of time and step id (`timers.taken`),
      3. its step continues, and its workflow runs to the fixed point, in memory (`timers.fired`),
      4. that is persisted in one transaction, in which the row goes (`control.persisted`).

    A crash before 4 leaves the row, and the next owner of the partition fires it. After 4 there is nothing left to
    fire. An owner that does not know that it was replaced gets a conflict, reads the workflow again, and finds that the
    step does not wait any more. So each timer takes effect once.

    Timers wait until the records are read that lay on their partitions when these were assigned: an answer or an event
    that came in time wins over a deadline that passed while no evaluator ran. In a batch they come last, behind its
    records: what was read before the timer was fired counts, a cancellation first of all.

    A workflow that cannot be continued holds up no timer of another one: its own are tried again later.

    Belongs to the loop's thread, but for the counters.
    """

    def __init__(
        self, context: EvaluatorContext, unread: Callable[[], Collection[int]], probe: Probe = no_probe
    ) -> None:
        """Take the context. `unread`: the numbers of partitions whose timers have to wait for records."""
        self._context = context
        self._unread = unread
        self._probe = probe
        self._due = DueTimers(
            context.store, context.clock, context.config.topics.control_partitions, context.definitions.pauses
        )
        self._batch_timers = _MOST_TIMERS
        #: Timers that were fired, by kind, and the longest time that one of them was late.
        self._fired: Counter[TimerKind] = Counter()
        self._late_ms = 0

    def patience_s(self, timeout_s: float) -> float:
        """Return how long to wait for records: no longer than until the next timer."""
        wait_s = self._due.wait_s()
        return timeout_s if wait_s is None else min(timeout_s, wait_s)

    def has_due(self) -> bool:
        """Return whether timers are known to be due."""
        return self._due.has_due()

    def stats(self) -> TimerStats:
        """Return the counters. Any thread may call this."""
        fired = self._fired.copy()
        return TimerStats(
            fired=fired.total(),
            late_ms=self._late_ms,
            deadlines=fired[TimerKind.DEADLINE],
            retries=fired[TimerKind.RETRY],
        )

    def take(self) -> list[TimerRow]:
        """Return due timers, which are fired next or given back."""
        owned = self._context.lanes.owned
        unread = self._unread() if owned else ()
        try:
            timers = self._due.take(owned.difference(unread) if unread else owned, self._batch_timers)
        except (StoreCorrupt, VersionMismatchError) as error:
            # The store tells no others beside it.
            text = "timers that cannot be read wait: %s"
            self._context.warnings.error("timers that cannot be read", text, error)
            return []
        if timers:
            self._probe("timers.taken")
        return timers

    def give_back(self, timers: Collection[TimerRow]) -> None:
        """Take these timers first the next time: their batch has failed."""
        self._due.give_back(timers)

    def fire(self, unit: UnitOfWork, timers: Sequence[TimerRow], *, has_records: bool) -> float:
        """Fire timers, one at least, for the time of a batch, or half of it where the batch `has_records`.

        Returns how many seconds that took. Those that are left are given back when the unit is committed. Raises
        NotEvaluable: drop the unit then.
        """
        if not timers:
            return 0.0
        started_s, clock, has_time = thread_s(), self._context.clock, True
        until_s = clock.monotonic_s() + self._context.config.evaluator.batch_ms / (2_000 if has_records else 1_000)
        for number, timer in enumerate(timers):
            if number and clock.monotonic_s() > until_s:
                unit.timers_left += timers[number:]
                self._batch_timers, has_time = max(_LEAST_TIMERS, number), False
                break
            if not self._due.is_failing(timer.workflow_id) and not unit.is_paused(timer.workflow_id):
                self._fire(unit, timer)
        if has_time and len(timers) >= self._batch_timers:
            self._batch_timers = min(_MOST_TIMERS, 2 * self._batch_timers)
        self._probe("timers.fired")
        return thread_s() - started_s

    def _fire(self, unit: UnitOfWork, timer: TimerRow) -> None:
        try:
            execution = unit.execution(timer.workflow_id)
        except (*REFUSALS, VersionMismatchError) as error:
            self.failed(timer.workflow_id)
            text = "workflow %s cannot be continued, and its timers wait: %s"
            unit.warnings.error("workflows whose timers wait", text, timer.workflow_id, error)
            return
        if execution is not None and _fire_timer(execution, timer):
            unit.touch(execution)
            unit.timers_fired.append(timer)
            unit.evaluate(execution)
            return
        # What decided this may be old memory.
        unit.confirm(timer.workflow_id)
        if execution is None or not has_timer(execution, timer.step_id):
            unit.batch.timers_done.append(timer.step_id)

    def failed(self, workflow_id: str) -> None:
        """Note that a workflow could not be continued: its timers are tried again later."""
        self._due.failed(workflow_id)

    def committed(self, unit: UnitOfWork) -> dict[str, list[int]]:
        """Note what a committed unit has fired, left and begun; return how late its timers were, by kind."""
        late: dict[str, list[int]] = {}
        self._due.give_back(unit.timers_left)
        self._due.written(unit.batch.timers)
        for timer in unit.timers_fired:
            self._fired[timer.kind] += 1
            late_ms = max(0, unit.now_ms - timer.due_at_ms)
            late.setdefault(timer.kind.value, []).append(late_ms)
            self._late_ms = max(self._late_ms, late_ms)
            self._due.succeeded(timer.workflow_id)
        return late


def _fire_timer(execution: Execution, timer: TimerRow) -> bool:
    """Fire a timer. Raises NotEvaluable for what ends the run as a whole."""
    if execution.is_ended:
        return False
    try:
        return fire_timer(execution, timer)
    except StoreUnavailable:
        raise
    except Exception as error:
        raise NotEvaluable(execution.id, execution.plan.name, error) from error
