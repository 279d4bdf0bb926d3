"""Invariants of what waits: timers and their steps, pending events and their count, and schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.store import HistoryRow, StepDocument, TimerKind, TimerRow, WorkflowRow
from afl.engine.states import EventState, StepState
from afl.stores.maintenance.findings import Finding
from afl.stores.maintenance.invariants import unreadable
from afl.stores.public.persistence import EngineStore

#: The time of the last timer of all.
_EVER_MS: Final = (1 << 63) - 1
#: The kinds of timers of a step, by the state of its event; a step in another state waits for an answer.
_KINDS: Final = {
    EventState.WAITING: (TimerKind.SLEEP, TimerKind.WAIT),
    EventState.RETRYING: (TimerKind.RETRY,),
}


def check_waits(store: EngineStore, row: WorkflowRow, steps: Sequence[StepDocument]) -> Iterator[Finding]:
    """Return the faults in a workflow's timers and pending events."""
    timers = {timer.step_id: timer for timer in store.timers_of(row.id)}
    yield from _check_timers(row, {step.id: step for step in steps}, timers)
    try:
        pending = store.pending_events([row.id]).get(row.id, [])
    except (StoreCorrupt, VersionMismatchError) as error:
        yield unreadable("history", row.id, "", error)
        return
    yield from _check_pending(row, pending)


def _check_timers(
    row: WorkflowRow, steps: Mapping[str, StepDocument], timers: Mapping[str, TimerRow]
) -> Iterator[Finding]:
    for timer in timers.values():
        step = steps.get(timer.step_id)
        wrong = "no such step" if step is None else _wrong_timer(step, timer)
        if wrong:
            yield _timer_finding(row.id, timer, wrong)
    for step in steps.values():
        if _is_waiting(step) and step.deadline_ms is not None and step.id not in timers:
            found = f"no timer, its time is {step.deadline_ms}"
            yield Finding("step.timer", row.id, step.id, found, "a timer: otherwise nothing ends its wait")
        if _is_waiting(step) and step.event_state == EventState.RETRYING and step.deadline_ms is None:
            yield Finding("step.timer", row.id, step.id, "no time of the next attempt", "one")


def _timer_finding(workflow_id: str, timer: TimerRow, found: str) -> Finding:
    expected = f"a step that waits until {timer.due_at_ms} ({timer.kind.value})"
    return Finding("timer.step", workflow_id, timer.step_id, found, expected)


def _is_waiting(step: StepDocument) -> bool:
    is_open = step.event_state and not EventState.is_terminal(step.event_state)
    return bool(is_open and step.state == StepState.EVENT_TRANSMIT)


def _wrong_timer(step: StepDocument, timer: TimerRow) -> str:
    """Return what is wrong with the timer of a step; "" when nothing is."""
    if not _is_waiting(step):
        return f"{step.event_state or 'no event'} at {step.state}"
    if step.deadline_ms != timer.due_at_ms:
        return f"a step whose time is {step.deadline_ms}"
    if timer.kind not in _KINDS.get(step.event_state, (TimerKind.DEADLINE,)):
        return f"{step.event_state}"
    return ""


def _check_pending(row: WorkflowRow, pending: Sequence[HistoryRow]) -> Iterator[Finding]:
    # An event that came at the same time as the start is taken in later, and has its expiry until then.
    known = [event for event in pending if not event.is_early]
    # Those of a workflow that has ended stay pending: a retry takes them.
    if len(known) != row.pending_events:
        found, expected = f"{len(known)} pending events", f"{row.pending_events}, as its row says"
        yield Finding("workflow.pending_events", row.id, "", found, expected)


def timers_without_workflow(store: EngineStore, timers: Sequence[TimerRow]) -> Iterator[Finding]:
    """Return the findings of timers whose workflows have no row. A check of a workflow's row looks at its own."""
    known = store.revisions({timer.workflow_id for timer in timers})
    for timer in timers:
        if timer.workflow_id not in known and store.tombstone(timer.workflow_id) is None:
            yield _timer_finding(timer.workflow_id, timer, "no such workflow")


def pages_of_timers(store: EngineStore) -> Iterator[list[TimerRow]]:
    """Yield all timers of a store, page by page."""
    after: TimerRow | None = None
    while page := store.timers_due(_EVER_MS, after=after):
        yield page
        after = page[-1]


def history_without_workflow(store: EngineStore, workflow_id: str, expected: str) -> Iterator[Finding]:
    """Return the findings of a history whose workflow has no row, but for events that still wait for it."""
    try:
        for row in store.history(workflow_id):
            if not row.is_early:
                yield Finding("history.workflow", workflow_id, f"history {row.number}", f"a row {row.kind}", expected)
    except (StoreCorrupt, VersionMismatchError) as error:
        yield unreadable("history", workflow_id, "", error)
