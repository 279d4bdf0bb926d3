"""Steps with unanswered events: what a run waits for, according to a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from afl.core.text.printable import printable
from afl.engine.model.store import ENDED_STATUSES, PAUSED, ErrorRecord, Store, WorkflowRow
from afl.engine.model.waiting import LibraryFacet
from afl.engine.states import EventState, StepState
from afl.engine.types import Value

#: The newest waiting workflows that are read when a whole store is asked.
_MOST_WORKFLOWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """A step with an unanswered event.

    `since_ms`: when that event was sent, ms since the epoch. For a second or later attempt the store only knows that it
    has waited at least since then. `event_state` is an EventState constant. `until_ms` is the time of the step's timer,
    ms since the epoch: the end of a wait, the next attempt, or the deadline of an answer; None: it has none.
    """

    workflow_id: str
    step_id: str
    facet: str
    attempt: int
    payload: Mapping[str, Value]
    since_ms: int
    event_state: str = EventState.CREATED
    until_ms: int | None = None
    #: The failure of its last attempt, where this is a further one, or that is waited for.
    error: ErrorRecord | None = None

    @property
    def asks_nobody(self) -> bool:
        """Return whether no agent is asked: it waits for a time, or for an external event."""
        return EventState.is_of_runtime(self.event_state)

    @property
    def event_name(self) -> str | None:
        """Return the name of the external event that it waits for; None when it waits for none."""
        if self.event_state != EventState.WAITING or self.facet != LibraryFacet.WAIT_FOR_EVENT:
            return None
        name = self.payload.get("name")
        return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredFacet:
    """The unanswered events of one facet: their number, and the step that has waited longest."""

    facet: str
    count: int
    first: WaitingStep

    def __str__(self) -> str:
        """Return a sentence for people: how many events wait, since when, and which step."""
        since = f"since {datetime.fromtimestamp(self.first.since_ms / 1000):%Y-%m-%d %H:%M:%S}"
        waits = (
            "an event waits for an answer,"
            if self.count == 1
            else f"{self.count:,} events wait for an answer, the oldest"
        )
        return f"{printable(self.facet)}: {waits} {since}: step {self.first.step_id}, attempt {self.first.attempt}"


def unanswered_facets(steps: Iterable[WaitingStep]) -> list[UnansweredFacet]:
    """Return the facets of waiting steps, in the order in which they come."""
    by_facet: dict[str, list[WaitingStep]] = {}
    for step in steps:
        by_facet.setdefault(step.facet, []).append(step)
    return [
        UnansweredFacet(facet=facet, count=len(waiting), first=min(waiting, key=lambda step: step.since_ms))
        for facet, waiting in by_facet.items()
    ]


def waiting_steps(store: Store, workflow_id: str) -> tuple[WaitingStep, ...]:
    """Return the steps of a workflow with unanswered events, in order of creation; none when it has ended."""
    row = store.load_workflow(workflow_id)
    return () if row is None or row.status in ENDED_STATUSES else _of(store, row)


def all_waiting_steps(store: Store, *, most_workflows: int = _MOST_WORKFLOWS) -> tuple[WaitingStep, ...]:
    """Return the waiting steps of all workflows at rest, newest workflow first; of the newest `most_workflows`."""
    return tuple(step for row in store.list_workflows(status=PAUSED, limit=most_workflows) for step in _of(store, row))


def _of(store: Store, row: WorkflowRow) -> tuple[WaitingStep, ...]:
    return tuple(
        WaitingStep(
            workflow_id=row.id,
            step_id=step.id,
            facet=step.facet_name,
            attempt=step.attempt,
            payload=step.params,
            since_ms=step.created_at_ms if step.attempt == 1 else row.updated_at_ms,
            event_state=step.event_state,
            until_ms=step.deadline_ms,
            error=None if step.retry is None else step.retry.error,
        )
        for step in store.load_steps(row.id, state=StepState.EVENT_TRANSMIT)
        if step.event_state and not EventState.is_terminal(step.event_state)
    )
