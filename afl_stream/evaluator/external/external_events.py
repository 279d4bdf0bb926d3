"""The external events of one unit of work: each is applied to its workflow, kept for one to come, or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.core.text.exception_text import exception_class, exception_text
from afl.core.text.masking import masked_text
from afl.core.text.printable import printable
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits, Raised, RaisedEvent, adopt, raise_event
from afl.engine.model.store import Batch, HistoryKind, HistoryRow
from afl.engine.types import Value
from afl.engine.values.sizes import attribute_bytes
from afl_stream.evaluator.external.early_room import EarlyClaim
from afl_stream.evaluator.external.event_counts import EventCounts, Happened
from afl_stream.evaluator.external.known_events import KnownEvents
from afl_stream.evaluator.external.stored_events import letter_of
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.record_places import place_of
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.event_errors import (
    EventAfterPurge,
    EventDropped,
    EventNotCarried,
    TooManyEarlyEvents,
    TooManyPendingEvents,
)
from afl_stream.limits import MAX_PENDING_EVENT_BYTES
from afl_stream.wire.bounded_texts import kept_error, kept_id
from afl_stream.wire.command_answers import EVENT_LATE, EVENT_QUEUED, EVENT_REFUSED, EVENT_REPEATED, EVENT_TAKEN
from afl_stream.wire.headers import COMMAND_HEADER, header
from afl_stream.wire.messages import (
    ExternalEvent,
    FailureReason,
    Lifecycle,
    StartWorkflow,
    check_event_name,
    check_workflow_id,
    is_workflow_id,
)

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork
    from afl_stream.transport import Record

#: What becomes of an event that is given to a workflow: what is counted, the outcome of its record, and the answer.
_BECOMES = {
    Raised.TAKEN: (Happened.TAKEN, Outcome.APPLIED, EVENT_TAKEN),
    Raised.QUEUED: (Happened.QUEUED, Outcome.QUEUED, EVENT_QUEUED),
    Raised.ENDED: (Happened.AFTER_END, Outcome.LATE, EVENT_LATE),
}


class ExternalEvents:
    """Applies the external events of one unit of work.

    For each, in this order:
      1. compare its id with the events of its workflow: a known one changes nothing (`external.compared`),
      2. give it to a step that waits for its name, or add it to the events of its workflow that wait for a step; or to
         those that wait for their workflow (`external.given`),
      3. persist its row, what it has changed, and the position behind its record, in the batch's transaction,
      4. tell the sender, if it asks, through the outbox of that transaction.

    A crash before 3 leaves nothing: the record comes again, with the same id. After 3 the record is behind the
    position, and a copy of it is known by its id. Each event on a workflow changes the workflow's revision, so of two
    writers (two events; an event, and a step that begins to wait; an event, and the workflow's start) the second one
    computes its batch again from what the first one has written.
    """

    def __init__(self, context: EvaluatorContext, unit: UnitOfWork) -> None:
        self._context = context
        self._unit = unit
        self.counts = EventCounts()
        self._known = KnownEvents(context, unit)
        self._claim = EarlyClaim(context.early)
        #: Events of this unit whose workflows do not exist, to be written with it.
        self._early: dict[str, list[HistoryRow]] = {}

    # --- records ------------------------------------------------------------------------------------------------

    def note(self, record: Record, message: ExternalEvent | StartWorkflow) -> None:
        """Note an event or a start that is about to be applied, so that those of a batch are looked up at once.

        The store is not asked about ids that no workflow can have: they have no bounds.
        """
        if not is_workflow_id(message.workflow_id):
            return
        if isinstance(message, StartWorkflow):
            self._known.note_start(message.workflow_id)
        else:
            self._known.note(message.workflow_id, identity_of(record, message))

    def apply(self, record: Record, event: ExternalEvent) -> Outcome:
        """Apply one event. One that is not kept is a dead letter, and the error is the reason.

        Raises IdRefused, and what reading a workflow raises that waits for an upgrade.
        """
        workflow_id = check_workflow_id(event.workflow_id)
        check_event_name(event.name)
        try:
            outcome = self._apply(record, event, workflow_id, identity_of(record, event))
        except (EventDropped, *REFUSALS) as error:
            self._unit.confirm(workflow_id)
            self.refuse(record, event, error)
            outcome = Outcome.REJECTED
        self.counts.happened[Happened.RAISED] += 1
        return outcome

    def _apply(self, record: Record, event: ExternalEvent, workflow_id: str, event_id: str) -> Outcome:
        unit = self._unit
        is_known = self._known.has(workflow_id, event_id)
        self._context.probe("external.compared")
        execution = unit.execution(workflow_id)
        status = None if execution is None else execution.status
        if is_known:
            unit.continue_workflow(workflow_id)
            unit.confirm(workflow_id)
            self.counts.happened[Happened.DUPLICATE] += 1
            self._answer(record, event, EVENT_REPEATED, status=status)
            return Outcome.DUPLICATE
        if execution is None:
            self._keep_early(event, workflow_id, event_id)
            self._context.probe("external.given")
            self._answer(record, event, EVENT_QUEUED)
            return Outcome.QUEUED
        raised = self._raise(execution, event, event_id)
        self._known.add(workflow_id, event_id)
        happened, outcome, kind = _BECOMES[raised]
        self.counts.happened[happened] += 1
        step_id = execution.effects.history_changes[-1].step_id if raised is Raised.TAKEN else None
        self._answer(record, event, kind, status=status, step_id=step_id)
        # Also one whose event nothing waits for: a runnable workflow continues, whatever woke it.
        unit.evaluate(execution)
        self._context.probe("external.given")
        return outcome

    def _raise(self, execution: Execution, event: ExternalEvent, event_id: str) -> Raised:
        """Give the event to its workflow. Raises TooManyPendingEvents, and changes nothing then."""
        limits = limits_of(self._context)
        self._context.workflows.read_history(execution)
        data: Value = event.value  # type: ignore[assignment]  # a decoded value
        raised = raise_event(execution, RaisedEvent(event_id, event.name, data, execution.now_ms), limits)
        if raised is not Raised.LIMIT:
            self._unit.touch(execution)
            return raised
        inbox = execution.inbox
        if inbox.count >= limits.max_pending:
            setting = "evaluator.max_pending_events"
            raise TooManyPendingEvents(execution.id, event.name, inbox.count, limits.max_pending, setting)
        limit, setting = limits.max_pending_bytes, "MAX_PENDING_EVENT_BYTES"
        what = "bytes of events that no wait took"
        raise TooManyPendingEvents(execution.id, event.name, inbox.size_bytes, limit, setting, what)

    def _keep_early(self, event: ExternalEvent, workflow_id: str, event_id: str) -> None:
        """Keep an event until its workflow is started. Raises EventAfterPurge and TooManyEarlyEvents."""
        purged = self._known.tombstone(workflow_id)
        if purged is not None:
            raise EventAfterPurge(workflow_id, event.name, purged.status, purged.ended_at_ms)
        settings, now_ms = self._context.config.evaluator, self._unit.now_ms
        stored = self._known.count(workflow_id, settings.max_pending_events)
        self._claim.take(workflow_id, event.name, attribute_bytes({"": event.value}), stored)
        row = HistoryRow(
            workflow_id=workflow_id,
            number=self._known.number(workflow_id),
            kind=HistoryKind.EXTERNAL_EVENT,
            execution=1,
            at_ms=now_ms,
            name=event.name,
            event_id=event_id,
            value=event.value,  # type: ignore[arg-type]  # a decoded value
            is_pending=True,
            expires_at_ms=now_ms + settings.early_event_expiry_ms,
        )
        self._early.setdefault(workflow_id, []).append(row)
        self._known.add(workflow_id, event_id)
        # There must still be no workflow when this is written: a start that came first would not know of the event.
        self._unit.confirm(workflow_id)
        self.counts.happened[Happened.EARLY] += 1

    # --- events that are given up -------------------------------------------------------------------------------

    def refuse(self, record: Record, event: ExternalEvent, error: Exception) -> None:
        """Make an event's record a dead letter, and tell its sender."""
        self._unit.outputs.dead_letter(record, error, None)
        self.tell_refused(record, event, error)

    def tell_refused(self, record: Record, event: ExternalEvent, error: Exception) -> None:
        """Tell the sender of an event, if it asks, that its record is a dead letter."""
        self._drop(event.workflow_id, event.name, error)
        reason = kept_error(error)
        self._answer(
            record, event, EVENT_REFUSED, error=FailureReason(type=reason.type, message=masked_text(reason.message))
        )

    def give_up(self, row: HistoryRow, error: Exception) -> None:
        """Make an event that was kept a dead letter. Its row is the caller's."""
        context = self._context
        partitions = context.config.topics.control_partitions
        letter = letter_of(row, context.codec, context.topology, partitions, self._unit.now_ms)
        self._unit.outputs.dead_letter(letter, error, None)
        self._drop(row.workflow_id, row.name, error)

    def _drop(self, workflow_id: str, name: str, error: Exception) -> None:
        self.counts.drop(exception_class(error))
        shown, found = printable(name, _NAME_CHARS), ""
        if isinstance(error, TooManyPendingEvents | TooManyEarlyEvents):
            found = f" unconsumed_count={error.count} limit={error.limit}"
            why = "Dropping external event - unconsumed event limit reached"
        elif isinstance(error, EventNotCarried):
            found = f" event_execution_id={error.execution} new_execution_id={error.next_execution} limit={error.limit}"
            why = "Dropping external event - exceeded carry-forward limit"
        else:
            why = "Dropping external event"
        text = "%s: instance=%s event_name=%s%s: %s; it is listed by: afl-stream dlq list --workflow %s"
        self._unit.warnings.warning(
            f"dropped external events: {exception_class(error)}", text, why, workflow_id, shown, found,
            exception_text(error), workflow_id, extra={"workflow_id": workflow_id, "reason": exception_class(error)},
        )  # fmt: skip

    # --- workflows that start -----------------------------------------------------------------------------------

    def adopt(self, execution: Execution) -> None:
        """Give a workflow that this unit starts the events that waited for it.

        In this order:
          1. read them, those of all starts of the unit at once (`external.found`),
          2. give them to the execution, before it runs (`external.adopted`),
          3. persist workflow and events, as this unit's changes.

        A crash before 3 leaves them waiting. An event that another writer keeps between 1 and 3 keeps waiting beside
        the workflow, and the sweep adopts it (early_sweep.py).
        """
        own = self._early.pop(execution.id, [])
        stored = self._known.waiting_for(execution.id)
        waiting = [*stored, *own]
        if not waiting:
            return
        self._claim.adopt(execution.id, len(stored))
        self._context.probe("external.found")
        # Rows of this unit are new ones of the execution's history; it joins them with what becomes of them.
        execution.effects.history += own
        execution.inbox.next_number = max(execution.inbox.next_number or 0, waiting[-1].number + 1)
        adopt(execution, waiting)
        self.counts.happened[Happened.ADOPTED] += len(waiting)
        self._context.probe("external.adopted")

    # --- the batch ----------------------------------------------------------------------------------------------

    def finish(self, batch: Batch) -> None:
        """Add the early events."""
        for rows in self._early.values():
            batch.history += rows

    def committed(self) -> None:
        """Note that the batch is in the store."""
        self._claim.committed()

    def _answer(
        self,
        record: Record,
        event: ExternalEvent,
        kind: str,
        *,
        status: str | None = None,
        step_id: str | None = None,
        error: FailureReason | None = None,
    ) -> None:
        """Tell the sender of an event what became of it, if it asks."""
        asked = header(record.headers, COMMAND_HEADER)
        if asked is None:
            return
        milestone = Lifecycle(
            workflow_id=event.workflow_id,
            kind=kind,
            at=self._unit.now_ms,
            step_id=step_id,
            error=error,
            command_id=kept_id(asked),
            status=status,
        )
        self._context.dispatch.tell(self._unit.batch, milestone)


#: Characters of an event's name that a warning shows.
_NAME_CHARS = 100


def identity_of(record: Record, event: ExternalEvent) -> str:
    """Return the id by which an event is known in its workflow: its own, or the place and time of its record."""
    return kept_id(event.id) or place_of(record)


def limits_of(context: EvaluatorContext) -> EventLimits:
    """Return the limits of a workflow's events and history, as the settings say."""
    settings = context.config.evaluator
    return EventLimits(
        settings.max_pending_events,
        MAX_PENDING_EVENT_BYTES,
        settings.max_carried_executions,
        settings.kept_executions,
    )
