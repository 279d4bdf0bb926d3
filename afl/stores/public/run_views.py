"""A run as its users see it: its `RunnerDefinition`, and the end of its workflow, which only the engine knows.

The evaluator writes how a workflow ends in the commit of its root step, and nowhere else. So a reader of a run whose
workflow has ended gets that result, whatever ended it and whatever has crashed since.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from afl.engine.model.entities import RunnerDefinition, RunnerState
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, WorkflowRow
from afl.engine.model.tombstones import Tombstone

#: States of a run whose workflow is still to end.
UNDER_WAY: Final = (RunnerState.RUNNING, RunnerState.PAUSED)
_STATE_OF_STATUS: Final = {
    COMPLETED: RunnerState.COMPLETED,
    ERROR: RunnerState.FAILED,
    CANCELLED: RunnerState.CANCELLED,
}


def view_run(run: RunnerDefinition, row: WorkflowRow | Tombstone | None) -> RunnerDefinition:
    """Return the run in its present state, given its workflow's row or its tombstone."""
    state = None if row is None else _STATE_OF_STATUS.get(row.status)
    if row is None or state is None or run.state not in UNDER_WAY:
        return run
    took_ms = max(row.ended_at_ms - (run.start_time or row.created_at_ms), 0)
    return replace(run, state=state, end_time=row.ended_at_ms, duration=took_ms)
