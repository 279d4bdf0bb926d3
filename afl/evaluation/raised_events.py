"""External events for workflows of a store: given to the workflow, or kept for one that does not exist yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from afl.core.ids import time_ordered_id
from afl.core.text.exception_text import exception_line
from afl.core.text.printable import printable
from afl.core.values import ValueRefused, describe_value, plain_values
from afl.engine.errors import WorkflowConflict, WorkflowPurged
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import Raised, RaisedEvent, adopt, raise_event
from afl.engine.execution.inbox import Inbox
from afl.engine.model.store import Batch, EarlyWorkflow, HistoryKind, HistoryRow
from afl.engine.operations.operation_errors import RunByDeployment
from afl.engine.types import Value
from afl.engine.values.bounds import check_given
from afl.engine.values.sizes import attribute_bytes
from afl.evaluation.run_driver import UNREADABLE, RunDriver

_log = logging.getLogger(__name__)

#: How long an event waits for a workflow that does not exist: a day.
EARLY_EVENT_EXPIRY_MS: Final = 86_400_000
#: Workflow ids of one question to the store.
_ASKED: Final = 1_000


class RaiseOutcome(StrEnum):
    """What has become of an event that was raised."""

    #: A waiting step has taken it; `resume` runs the steps that this makes ready.
    TAKEN = "taken"
    #: It is kept: no step waits for it yet, or the workflow does not exist yet.
    QUEUED = "queued"
    #: The workflow has ended: the event is in its history, and is never taken.
    ENDED = "ended"
    #: An event with this id was raised before: nothing has happened.
    REPEATED = "repeated"
    #: The workflow has as many events that no wait took as it may have: this one is not kept.
    LIMIT = "limit"


class _Given(NamedTuple):
    """An event as it was raised, with its id and a copy of its data."""

    workflow_id: str
    event_id: str
    name: str
    data: Value


class RaisedEvents:
    """Gives external events to the workflows of a store. Thread-safe."""

    def __init__(self, driver: RunDriver, max_value_bytes: int) -> None:
        self._driver = driver
        self._max_value_bytes = max_value_bytes

    def give(self, workflow_id: str, name: str, data: Value, event_id: str | None) -> RaiseOutcome:
        """Give an event to a workflow, or keep it until the workflow is started.

        Raises ValueRefused for a name, an id or data that cannot be an event's, ValueTooLarge, WorkflowPurged, and
        RunByDeployment for a workflow that a deployment on topics has started.
        """
        if not isinstance(name, str) or not name:
            raise ValueRefused("name", "a text that is not empty", describe_value(name))
        if not isinstance(event_id, str | None):
            raise ValueRefused("id", "a text", describe_value(event_id))
        plain_values({"name": name, "id": event_id}, "event")
        check_given(f"the data of event {printable(name)}", {"data": data}, self._max_value_bytes, "event")
        copy = plain_values({"data": data}, "event")["data"]
        event = _Given(workflow_id, event_id or time_ordered_id(self._driver.clock.now_ms()), name, copy)
        while True:
            outcome = self._on_workflow(event)
            if outcome is None:
                try:
                    outcome = self._early(event)
                except WorkflowConflict:
                    # The workflow was started meanwhile, or another event for it was raised.
                    continue
            if outcome is RaiseOutcome.LIMIT:
                _log.warning(
                    "workflow %s: event %s is not kept: %d events that no wait took are the most",
                    workflow_id,
                    printable(name),
                    self._driver.event_limits.max_pending,
                )
            return outcome

    def _on_workflow(self, event: _Given) -> RaiseOutcome | None:
        """Give an event to its workflow; None when the store has no such workflow."""
        outcome = RaiseOutcome.REPEATED
        driver = self._driver

        def apply(execution: Execution) -> bool:
            nonlocal outcome
            if not execution.dispatch.serves(execution):
                raise RunByDeployment(workflow_id=execution.id)
            # Asked after the workflow was read: another writer of the same event has changed its revision.
            if driver.store.known_events([(execution.id, event.event_id)]):
                outcome = RaiseOutcome.REPEATED
                return False
            driver.workflows.read_history(execution)
            given = RaisedEvent(event.event_id, event.name, event.data, execution.now_ms)
            raised = raise_event(execution, given, driver.event_limits)
            outcome = RaiseOutcome(raised.value)
            return raised is not Raised.LIMIT

        return None if driver.change(event.workflow_id, apply) is None else outcome

    def _early(self, event: _Given) -> RaiseOutcome:
        """Keep an event for a workflow that the store does not have. Raises WorkflowConflict when it has one by now."""
        store, workflow_id = self._driver.store, event.workflow_id
        stone = store.tombstone(workflow_id)
        if stone is not None:
            raise WorkflowPurged(workflow_id=workflow_id, name=stone.name, status=stone.status)
        # The number first: another writer of the same event has used it.
        number = store.history_sizes((workflow_id,)).get(workflow_id, 0)
        if store.known_events([(workflow_id, event.event_id)]):
            return RaiseOutcome.REPEATED
        limits, waiting = self._driver.event_limits, Inbox(self._pending(workflow_id))
        size_bytes = waiting.size_bytes + attribute_bytes({"": event.data})
        if waiting.count >= limits.max_pending or size_bytes > limits.max_pending_bytes:
            return RaiseOutcome.LIMIT
        now_ms = self._driver.clock.now_ms()
        row = HistoryRow(
            workflow_id,
            number,
            HistoryKind.EXTERNAL_EVENT,
            1,
            now_ms,
            event.name,
            event.event_id,
            event.data,
            is_pending=True,
            expires_at_ms=now_ms + EARLY_EVENT_EXPIRY_MS,
        )
        store.commit_batch(Batch(history=[row], confirms={workflow_id: 0}, now_ms=now_ms))
        return RaiseOutcome.QUEUED

    # --- events that were raised before their workflow ----------------------------------------------------------

    def adopt_at_start(self, execution: Execution) -> None:
        """Give a workflow that is about to be started the events that wait for it."""
        rows = self._driver.store.pending_events((execution.id,)).get(execution.id, ())
        if rows:
            execution.inbox.next_number = rows[-1].number + 1
            adopt(execution, rows)

    def sweep(self) -> list[str]:
        """Give early events to workflows that exist by now, and drop those that have expired.

        A start misses the events that another writer keeps in that moment. Returns the ids of workflows that have got
        events: `resume` continues them.
        """
        adopted, after = [], ""
        now_ms = self._driver.clock.now_ms()
        while page := self._driver.store.early_workflows(after=after, limit=_ASKED):
            after = page[-1].workflow_id
            adopted += [early.workflow_id for early in page if self._sweep_one(early, now_ms)]
        return adopted

    def _sweep_one(self, early: EarlyWorkflow, now_ms: int) -> bool:
        """Give its events to a workflow that exists by now, or drop them; whether it has got any."""
        try:
            if self._adopt(early.workflow_id):
                return True
            if early.expires_at_ms <= now_ms:
                self._expire(early.workflow_id, now_ms)
        except WorkflowConflict:
            pass  # Its workflow was started meanwhile: the next sweep finds it.
        except UNREADABLE as error:
            text = "workflow %s cannot be read, and early events wait beside it: %s"
            _log.error(text, early.workflow_id, exception_line(error))
        return False

    def _adopt(self, workflow_id: str) -> bool:
        driver = self._driver

        def apply(execution: Execution) -> bool:
            rows = [row for row in self._pending(workflow_id) if row.expires_at_ms]
            if rows and execution.dispatch.serves(execution):
                driver.workflows.read_history(execution)
                adopt(execution, rows)
                return True
            return False

        return bool(driver.change(workflow_id, apply))

    def _expire(self, workflow_id: str, now_ms: int) -> None:
        batch = Batch(confirms={workflow_id: 0}, now_ms=now_ms)
        for row in self._pending(workflow_id):
            if 0 < row.expires_at_ms <= now_ms:
                _log.warning("event %s for workflow %s expires: it was not started", printable(row.name), workflow_id)
                dropped = row._replace(is_pending=False, until_execution=row.execution, dropped="expired")
                batch.history_changes.append(dropped)
                # A history without a workflow would be kept for ever: its events go, but for those that wait.
                batch.history_trims[workflow_id] = row.execution + 1
        self._driver.store.commit_batch(batch)

    def _pending(self, workflow_id: str) -> Sequence[HistoryRow]:
        return self._driver.store.pending_events((workflow_id,)).get(workflow_id, ())
