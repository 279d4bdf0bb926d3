"""Steps whose events are out and unanswered: what a run waits for, as a store knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from afl.core.text.printable import printable
from afl.engine.model.store import ENDED_STATUSES, PAUSED, Store, WorkflowRow
from afl.engine.states import EventState, StepState
from afl.engine.types import Value

#: Waiting workflows that are looked at where all of a store is asked for: the newest.
_MOST_WORKFLOWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """A step whose event is out and unanswered.

    `since_ms`: when that event was sent, ms since the epoch. Of a second or later attempt the store knows no more than
    that it waits since then at least.
    """

    workflow_id: str
    step_id: str
    facet: str
    attempt: int
    payload: Mapping[str, Value]
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredFacet:
    """The events of one facet that wait for an answer: how many, and the step that waits longest."""

    facet: str
    count: int
    first: WaitingStep

    def __str__(self) -> str:
        """A sentence for people: how many events wait, since when, and which step."""
        since = f"since {datetime.fromtimestamp(self.first.since_ms / 1000):%Y-%m-%d %H:%M:%S}"
        waits = (
            "an event waits for an answer,"
            if self.count == 1
            else f"{self.count:,} events wait for an answer, the oldest"
        )
        return f"{printable(self.facet)}: {waits} {since}: step {self.first.step_id}, attempt {self.first.attempt}"


def unanswered_facets(steps: Iterable[WaitingStep]) -> list[UnansweredFacet]:
    """The facets of waiting steps, in the order in which they come."""
    by_facet: dict[str, list[WaitingStep]] = {}
    for step in steps:
        by_facet.setdefault(step.facet, []).append(step)
    return [
        UnansweredFacet(facet=facet, count=len(waiting), first=min(waiting, key=lambda step: step.since_ms))
        for facet, waiting in by_facet.items()
    ]


def waiting_steps(store: Store, workflow_id: str) -> tuple[WaitingStep, ...]:
    """The steps of a workflow whose events wait for an answer, in order of creation; none when it has ended."""
    row = store.load_workflow(workflow_id)
    return () if row is None or row.status in ENDED_STATUSES else _of(store, row)


def all_waiting_steps(store: Store, *, most_workflows: int = _MOST_WORKFLOWS) -> tuple[WaitingStep, ...]:
    """The waiting steps of all workflows that are at rest, newest workflow first; of the newest `most_workflows`."""
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
        )
        for step in store.load_steps(row.id, state=StepState.EVENT_TRANSMIT)
        if step.event_state and not EventState.is_terminal(step.event_state)
    )
