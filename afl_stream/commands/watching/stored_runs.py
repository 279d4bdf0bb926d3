"""Milestones of runs as a store tells them, for a deployment whose log one process holds: by repeated looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from afl.engine.model.store import CANCELLED, COMPLETED, ENDED_STATUSES, ERROR, StepDocument, WorkflowRow
from afl.engine.states import EventState
from afl.stores.public.persistence import EngineStore
from afl_stream.wire.messages import FailureReason, Lifecycle
from afl_stream.wire.milestone_kinds import (
    STEP_COMPLETED,
    STEP_FAILED,
    STEP_RETRYING,
    STEP_STARTED,
    WORKFLOW_RETRIED,
    WORKFLOW_STARTED,
)

#: Runs of a deployment that are looked at: the newest. Of the others, those that were open when last seen.
_MOST_RUNS: Final = 200
_STEP_ENDS: Final = {
    EventState.COMPLETED: STEP_COMPLETED,
    EventState.ERROR: STEP_FAILED,
    EventState.EXPIRED: STEP_FAILED,
    EventState.CANCELED: STEP_FAILED,
}
_ENDS: Final = {status: f"workflow.{status.lower()}" for status in (COMPLETED, ERROR, CANCELLED)}


class StoredRuns:
    """What has happened since the last look. The times are those of the rows: of the commit that was seen."""

    def __init__(self, store: EngineStore, workflow_id: str | None = None, *, since_ms: int | None = None) -> None:
        """Watch one run with its steps, or all of them. `since_ms`: of all runs, what was before that is not told."""
        self._store = store
        self._workflow_id = workflow_id
        self._since_ms = since_ms
        self._seen: dict[str, WorkflowRow] = {}
        #: Of each step that asks: its attempt and the state of its event, as last told.
        self._steps: dict[str, tuple[int, str]] = {}

    def look(self) -> list[Lifecycle]:
        """Return the milestones since the last look, in the order of their times."""
        told: list[Lifecycle] = []
        for row in self._changed():
            told += self._of_run(row, self._seen.get(row.id))
            self._seen[row.id] = row
        return sorted(told, key=lambda milestone: milestone.at)

    def _changed(self) -> list[WorkflowRow]:
        if self._workflow_id is not None:
            row = self._store.load_workflow(self._workflow_id)
            rows = [] if row is None else [row]
        else:
            rows = list(self._store.list_workflows(limit=_MOST_RUNS))
            newest = {row.id for row in rows}
            older = [seen.id for seen in self._seen.values() if not _is_over(seen) and seen.id not in newest]
            rows += [row for run in older if (row := self._store.load_workflow(run)) is not None]
        return [row for row in rows if row.id not in self._seen or row.revision != self._seen[row.id].revision]

    def _of_run(self, row: WorkflowRow, before: WorkflowRow | None) -> list[Lifecycle]:
        told: list[Lifecycle] = []
        if before is None and self._is_wanted(row.created_at_ms):
            told.append(Lifecycle(workflow_id=row.id, kind=WORKFLOW_STARTED, at=row.created_at_ms, workflow=row.name))
        elif before is not None and _is_over(before) and not _is_over(row):
            # The store does not say whether it was retried, rerun or reset.
            told.append(Lifecycle(workflow_id=row.id, kind=WORKFLOW_RETRIED, at=row.updated_at_ms, workflow=row.name))
        if self._workflow_id is not None:
            told += self._of_steps(row, 0 if before is None else before.revision)
        if _is_over(row) and (before is None or not _is_over(before)) and self._is_wanted(row.ended_at_ms):
            error = row.error
            told.append(
                Lifecycle(
                    workflow_id=row.id,
                    kind=_ENDS[row.status],
                    at=row.ended_at_ms,
                    workflow=row.name,
                    step_id=None if error is None else error.step_id,
                    facet=None if error is None else error.facet,
                    outputs=row.outputs if error is None else None,
                    error=None if error is None else FailureReason(type=error.type, message=error.message),
                )
            )
        return told

    def _of_steps(self, row: WorkflowRow, revision: int) -> list[Lifecycle]:
        told: list[Lifecycle] = []
        for step in self._store.load_steps(row.id, newer_than=revision):
            if not step.attempt or not step.event_state:
                continue
            attempt, state = self._steps.get(step.id, (0, ""))
            self._steps[step.id] = (step.attempt, step.event_state)
            if step.attempt != attempt:
                at_ms = step.created_at_ms if step.attempt == 1 else row.updated_at_ms
                told.append(_step(row, step, STEP_STARTED, at_ms, {"attempt": step.attempt}))
            if (step.attempt, step.event_state) == (attempt, state):
                continue
            if step.event_state == EventState.RETRYING:
                more = {"attempt": step.attempt, "next_at_ms": step.deadline_ms}
                told.append(_step(row, step, STEP_RETRYING, row.updated_at_ms, more))
            elif step.event_state in _STEP_ENDS:
                kind = _STEP_ENDS[step.event_state]
                told.append(_step(row, step, kind, min(row.updated_at_ms, row.ended_at_ms or row.updated_at_ms)))
        return told

    def _is_wanted(self, at_ms: int) -> bool:
        return self._since_ms is None or at_ms >= self._since_ms


def _step(
    row: WorkflowRow, step: StepDocument, kind: str, at_ms: int, outputs: Mapping[str, object] | None = None
) -> Lifecycle:
    error = step.error if kind == STEP_FAILED else step.retry.error if step.retry and kind == STEP_RETRYING else None
    return Lifecycle(
        workflow_id=row.id,
        kind=kind,
        at=at_ms,
        workflow=row.name,
        step_id=step.id,
        facet=step.facet_name,
        outputs=outputs,
        error=None if error is None else FailureReason(type=error.type, message=error.message),
    )


def _is_over(row: WorkflowRow) -> bool:
    return row.status in ENDED_STATUSES
