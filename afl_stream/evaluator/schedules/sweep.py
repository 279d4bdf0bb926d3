"""The firings of schedules: an owner starts the runs whose time has come."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from afl.core.ids import RESERVED
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_text
from afl.engine.errors import StoreCorrupt, VersionMismatchError, WorkflowConflict
from afl.engine.model.schedules import ScheduleRow
from afl.engine.model.store import ENDED_STATUSES
from afl_stream.errors import EventTooLarge, NewerFormat, NotStorable, SchemaUnavailable, ValueRefused
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.schedules.book import ScheduleBook
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.limits import UNSEEN_RUN_MS
from afl_stream.schedules.documents import Schedule, ScheduleUnreadable
from afl_stream.schedules.firings import Decision, ScheduleState, StartedRun, decide
from afl_stream.wire.headers import rfc3339
from afl_stream.wire.messages import Lifecycle

_log = logging.getLogger(__name__)

#: How often it is looked for schedules that another evaluator has changed, where nothing else is due.
_INTERVAL_S: Final = 1.0
#: Rows asked for at once; some belong to other evaluators. More where all of them are in the way.
_ROWS_ASKED: Final = 1_000
#: Schedules of one turn, so that records do not wait long, and of one commit.
_MOST_OF_A_TURN: Final = 200
_MOST_SCHEDULES: Final = 50
#: The milestone about firings that are missed.
MISSED: Final = "schedule.missed"


class ScheduleSweep:
    """Starts the runs of schedules. Belongs to the loop's thread.

    For the due schedules of the owned partitions, in this order:
      1. read their rows, and which of their runs are unfinished (`schedules.read`),
      2. decide about their firings, in memory (`schedules.decided`),
      3. persist the rows, and the starts of the runs in the outbox, in one transaction (`control.persisted`),
      4. publish the starts (`control.published`).

    A crash before 3 leaves the firings to the next owner, who decides again. After 3 they are decided, and the next
    owner of the schedule's lane publishes the starts, before it reads. A row is advanced by compare-and-set, and the id
    of a run follows from its schedule and the time of the firing: two evaluators start it once.
    """

    def __init__(
        self, context: EvaluatorContext, commit: Callable[[UnitOfWork], None], probe: Probe = no_probe
    ) -> None:
        """Take the context; `commit` persists a unit and publishes it."""
        self._context = context
        self._commit = commit
        self._probe = probe
        self._looked_s = float("-inf")
        self._rows_asked = _ROWS_ASKED
        #: The partitions that were owned when it was last looked: of new ones, firings may be overdue.
        self._owned: frozenset[int] = frozenset()
        #: When there may be something to do next, as far as this evaluator knows.
        self.next_due_ms: int | None = None

    def wait_s(self, timeout_s: float) -> float:
        """Return how long the loop may wait for a record: until the next firing, and `timeout_s` at most."""
        if self.next_due_ms is None:
            return timeout_s
        return min(timeout_s, max(0.0, (self.next_due_ms - self._context.clock.now_ms()) / 1_000))

    def run_due(self) -> None:
        """Do what is due. Raises SchemaUnavailable: the firings wait."""
        clock = self._context.clock
        now_ms, now_s = clock.now_ms(), clock.monotonic_s()
        is_due = self.next_due_ms is not None and now_ms >= self.next_due_ms
        owned = self._context.lanes.owned
        if not is_due and owned == self._owned and now_s - self._looked_s < _INTERVAL_S:
            return
        self._looked_s, self._owned = now_s, owned
        if not owned:
            self.next_due_ms = None
            return
        try:
            next_ms, count = self._context.store.next_schedule_ms(), 0
            if next_ms is not None and next_ms <= now_ms:
                count = self._look(now_ms)
                next_ms = self._context.store.next_schedule_ms()
        except (StoreCorrupt, VersionMismatchError) as error:
            # One of a newer release, or a damaged one: the store tells no others beside it.
            text = "schedules that cannot be read wait: %s"
            self._context.warnings.error("schedules that cannot be read", text, error)
            self.next_due_ms = None
            return
        if next_ms is not None and next_ms <= now_ms and not count:
            next_ms = None  # Another evaluator's, one that waits, or unreadable: it is looked again after the interval.
        self.next_due_ms = next_ms

    def _look(self, now_ms: int) -> int:
        """Fire what is due of ours, at least once up to the bound of a turn; return how many schedules have fired."""
        due = self._context.store.schedules_due(now_ms, limit=self._rows_asked)
        own = [row for row in due if not row.id.startswith(RESERVED) and self._context.lanes.owns(row.id)]
        count = 0
        for first in range(0, len(own), _MOST_SCHEDULES):
            if count >= _MOST_OF_A_TURN:
                break
            rows = own[first : first + _MOST_SCHEDULES]
            try:
                count += self._fire(rows)
            except (WorkflowConflict, NotStorable) as error:
                _log.info("the firings of %d schedules are computed again, one by one: %s", len(rows), error)
                count += self._fire_each(rows)
        # Schedules that wait for the end of a run are due all the time, and come first: others are behind them.
        is_full = len(due) == self._rows_asked
        self._rows_asked = _ROWS_ASKED if not is_full else self._rows_asked * (1 if count else 2)
        return count

    def _fire_each(self, rows: Sequence[ScheduleRow]) -> int:
        """Fire one by one, each as it is stored now: no schedule holds up another."""
        count = 0
        for row in rows:
            stored = self._context.store.schedule(row.id)
            try:
                count += 0 if stored is None else self._fire([stored])
            except WorkflowConflict:
                continue  # Another writer has changed it at this moment, and it is looked at again.
            except NotStorable as error:
                self._context.warnings.error("schedules that cannot be stored", "schedule %s: %s", row.id, error)
        return count

    def _fire(self, rows: Sequence[ScheduleRow]) -> int:
        """Decide about some schedules in one commit; return about how many there was something to decide."""
        unit = UnitOfWork(self._context)
        unit.schedules.read(rows)
        found = [schedule for row in rows if (schedule := self._found(unit.schedules, row.id, unit.now_ms)) is not None]
        self._probe("schedules.read")
        decided = [(s, decide(s.id, s.spec, s.state, unit.now_ms)) for s in found]
        # A firing that waits for the end of a run is looked at often, and mostly in vain.
        decided = [(schedule, decision) for schedule, decision in decided if decision.has_effect]
        for schedule, decision in decided:
            self._add(unit, schedule, decision)
        self._probe("schedules.decided")
        if decided:
            self._commit(unit)
        for schedule, decision in decided:
            self._report(schedule, decision)
        return len(decided)

    def _found(self, book: ScheduleBook, schedule_id: str, now_ms: int) -> Schedule | None:
        """Return a schedule with the runs that are unfinished now; None when it cannot be read."""
        try:
            schedule = book.find(schedule_id)
        except ScheduleUnreadable as error:
            self._context.warnings.error("schedules that cannot be read", "%s", error)
            return None
        if schedule is None:
            return None
        runs = tuple(run for run in schedule.state.runs if self._is_unfinished(run, now_ms))
        return schedule._replace(state=replace(schedule.state, runs=runs))

    def _is_unfinished(self, run: StartedRun, now_ms: int) -> bool:
        """Return whether a run goes on, or its start is still on its way."""
        try:
            row = self._context.all_workflows.load_workflow(run.workflow_id)
        except (StoreCorrupt, VersionMismatchError) as error:
            text = "run %s of a schedule cannot be read, and counts as unfinished: %s"
            self._context.warnings.error("runs of schedules that cannot be read", text, run.workflow_id, error)
            return True
        if row is not None:
            return row.status not in ENDED_STATUSES
        is_purged = self._context.all_workflows.tombstone(run.workflow_id) is not None
        return not is_purged and now_ms - run.asked_at_ms < UNSEEN_RUN_MS

    def _add(self, unit: UnitOfWork, schedule: Schedule, decision: Decision) -> None:
        """Add to the unit what follows from a decision."""
        state: ScheduleState = decision.state
        for firing in decision.starts:
            try:
                unit.schedules.start(schedule, firing)
            except (SchemaUnavailable, NewerFormat):
                raise
            except (EventTooLarge, ValueRefused) as error:
                # It could be sent when the schedule was created: a limit was lowered since.
                text = "run %s of schedule %s cannot be asked for: %s"
                unit.warnings.error(
                    "runs of schedules that cannot be sent", text, firing.workflow_id, schedule.id, error
                )
                state = state.without(firing.workflow_id, exception_text(error))
        unit.schedules.keep(schedule._replace(state=state))
        unit.schedules.outcomes += Counter(skipped=decision.skipped, missed=decision.missed)
        if decision.missed:
            counts = {
                "missed": decision.missed,
                "first_at": decision.first_missed_ms,
                "last_at": decision.last_missed_ms,
            }
            milestone = Lifecycle(
                workflow_id=schedule.id, kind=MISSED, at=unit.now_ms, workflow=schedule.spec.workflow, outputs=counts
            )
            self._context.dispatch.tell(unit.batch, milestone)

    def _report(self, schedule: Schedule, decision: Decision) -> None:
        if decision.first_missed_ms is None or decision.last_missed_ms is None:
            return
        self._context.warnings.warning(
            "schedules that have missed firings",
            "schedule %s has missed %d firings, from %s to %s: they are older than its catch-up window of %d s",
            schedule.id,
            decision.missed,
            rfc3339(decision.first_missed_ms),
            rfc3339(decision.last_missed_ms),
            schedule.spec.catch_up_ms // 1_000,
        )
