"""Early external events: adopted when their workflow exists after all, and given up when they expire."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from afl.core.clock import MonotonicClock, monotonic_s
from afl.engine.errors import VersionMismatchError, WorkflowConflict
from afl.engine.execution.external_events import adopt
from afl.engine.model.store import EarlyWorkflow, HistoryRow
from afl.engine.values.sizes import attribute_bytes
from afl_stream.errors import NotEvaluable, NotStorable, SchemaUnavailable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.event_counts import Happened
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import fail_workflow, free_memory, not_evaluable
from afl_stream.event_errors import EventExpired

_log = logging.getLogger(__name__)

#: How long one turn may keep the loop from its records. The rest waits for the next turn.
_TURN_S = 0.2
#: Workflow ids of one question to the store, and events that are read at once.
_IDS_ASKED = 1_000
_EVENTS_READ = 100
#: Bytes of the events of one batch, and of those of one workflow that are given up in it.
_BATCH_BYTES = 16 * 1024 * 1024


class EarlySweep:
    """Looks at early events of the partitions that this evaluator owns. Belongs to the loop's thread.

    A start adopts the events that it finds. Those that another writer keeps in that moment stay beside their workflow
    until this finds them. A turn looks at a page of the workflow ids that have early events, the next one at the next
    page.
    """

    def __init__(
        self, context: EvaluatorContext, commit: Callable[[UnitOfWork], None], monotonic_s: MonotonicClock = monotonic_s
    ) -> None:
        """Take the context; `commit` persists a unit and publishes it."""
        self._context = context
        self._commit = commit
        self._monotonic_s = monotonic_s
        self._after = ""

    def turn(self, now_ms: int) -> None:
        """Adopt and expire what is due, for a short time."""
        until_s = self._monotonic_s() + _TURN_S
        page = self._context.store.early_workflows(after=self._after, limit=_IDS_ASKED)
        self._after = ""
        owned = [early for early in page if self._context.lanes.owns(early.workflow_id)]
        if owned:
            there = self._context.store.revisions([early.workflow_id for early in owned])
            due = [early for early in owned if early.workflow_id in there or early.expires_at_ms <= now_ms]
            for batch in _by_events(due):
                self._settle(batch, now_ms)
                if self._monotonic_s() > until_s:
                    self._after = batch[-1].workflow_id
                    return
        if len(page) == _IDS_ASKED:
            self._after = page[-1].workflow_id

    def _settle(self, found: Sequence[EarlyWorkflow], now_ms: int) -> None:
        """Settle the events of these workflows in one batch, or of each alone if that is refused."""
        self._context.early.forget()
        if self._try([early.workflow_id for early in found], now_ms) or len(found) == 1:
            return
        for early in found:
            self._try([early.workflow_id], now_ms)

    def _try(self, workflow_ids: Sequence[str], now_ms: int) -> bool:
        """Settle the events of these workflows.

        In this order:
          1. read the workflows, and the events (`external.found`),
          2. give the events to the workflows that exist; make dead letters of the others' that have expired
             (`external.adopted`),
          3. persist that, as changes of the workflows that exist; for the others only if there is still none.

        A crash before 3 leaves all of it to the next turn. False: another writer came first, or one of the workflows
        cannot be read or stored now.
        """
        unit = UnitOfWork(self._context)
        try:
            with not_evaluable(workflow_ids[0] if len(workflow_ids) == 1 else None):
                for workflow_id in workflow_ids:
                    # Read first: what is kept for it later is refused, if there is none, and changes it otherwise.
                    unit.execution(workflow_id, is_checked=True)
                found = self._context.store.pending_events(workflow_ids)
                self._context.probe("external.found")
                for workflow_id, rows in found.items():
                    self._settle_one(unit, workflow_id, [row for row in rows if row.expires_at_ms], now_ms)
            self._context.probe("external.adopted")
            self._commit(unit)
        except WorkflowConflict:
            return False
        except (NotStorable, NotEvaluable) as error:
            if len(workflow_ids) == 1:
                self._end_workflow(workflow_ids[0], error)
            else:
                free_memory(self._context)
            return False
        except (*REFUSALS, VersionMismatchError, SchemaUnavailable) as error:
            if len(workflow_ids) == 1:
                waits = "external events of workflow %s wait, because it cannot be read: %s"
                self._context.warnings.error("early events whose workflows cannot be read", waits, *workflow_ids, error)
            return False
        return True

    def _settle_one(self, unit: UnitOfWork, workflow_id: str, rows: Sequence[HistoryRow], now_ms: int) -> None:
        execution = unit.execution(workflow_id)
        if execution is not None:
            self._context.workflows.read_history(execution)
            unit.touch(execution)
            adopt(execution, rows)
            unit.external.counts.happened[Happened.ADOPTED] += len(rows)
            unit.evaluate(execution)
            return
        size_bytes = 0
        for row in rows:
            if row.expires_at_ms <= now_ms and size_bytes <= _BATCH_BYTES:
                size_bytes += attribute_bytes({"": row.value})  # The next turn gives up the others.
                error = EventExpired(workflow_id, row.name, (now_ms - row.at_ms) // 1_000)
                unit.external.give_up(row, error)
                unit.batch.history_changes.append(
                    row._replace(is_pending=False, until_execution=row.execution, dropped=type(error).__name__)
                )
                # A history without a workflow would be kept for ever: its events go, but for those that wait.
                unit.batch.history_trims[workflow_id] = row.execution + 1
        unit.confirm(workflow_id)

    def _end_workflow(self, workflow_id: str, error: NotStorable | NotEvaluable) -> None:
        text = "an external event ends its workflow %s"
        self._context.warnings.error("external events that end their workflows", text, workflow_id, exc_info=error)
        try:
            fail_workflow(self._context, None, workflow_id, error, self._commit)
        except (WorkflowConflict, NotStorable) as again:
            _log.info("workflow %s is ended in a later turn: %s", workflow_id, again)


def _by_events(found: Sequence[EarlyWorkflow]) -> Iterator[list[EarlyWorkflow]]:
    """Return slices whose events fit in memory, and in a commit, together."""
    batch: list[EarlyWorkflow] = []
    events = size_bytes = 0
    for early in found:
        if batch and (events + early.events > _EVENTS_READ or size_bytes + early.size_bytes > _BATCH_BYTES):
            yield batch
            batch, events, size_bytes = [], 0, 0
        batch.append(early)
        events += early.events
        size_bytes += early.size_bytes
    if batch:
        yield batch
