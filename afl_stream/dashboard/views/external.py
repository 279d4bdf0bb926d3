"""External events that wait for a step to take them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from afl_stream.dashboard.deployment import Deployment
from afl_stream.visibility.workflows import all_workflows

#: Runs that are looked at, the newest first.
_MOST_RUNS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEvent:
    """An event that was raised for a run, and that no step has taken yet."""

    workflow_id: str
    workflow: str
    name: str
    at_ms: int
    value: object


def pending_events(deployment: Deployment) -> list[PendingEvent]:
    """Return the events that wait to be taken: of the newest runs, and those whose run is not started yet."""
    store = deployment.store
    names = {row.id: row.name for row in islice(all_workflows(store), _MOST_RUNS) if row.pending_events}
    for early in store.early_workflows(limit=_MOST_RUNS):
        names.setdefault(early.workflow_id, "")
    found = store.pending_events(list(names)) if names else {}
    return [
        PendingEvent(
            workflow_id=workflow_id, workflow=names[workflow_id], name=event.name, at_ms=event.at_ms, value=event.value
        )
        for workflow_id, events in found.items()
        for event in events
    ]
