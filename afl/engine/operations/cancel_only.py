"""The end of a workflow that can no longer be loaded: any run can be cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from afl.compiled.program import Kind
from afl.core.ids import event_id_of, generation_of
from afl.engine.execution.execution import Execution
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.ports import Dispatch, RunEnvironment
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.model.entities import TaskState
from afl.engine.model.plan import FacetPlan, UnreadProgram, WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import StepDocument, TaskEnd, WorkflowRow
from afl.engine.states import EventState, StepState


def restore_cancel_only(row: WorkflowRow, documents: Sequence[StepDocument], dispatch: Dispatch) -> Execution | None:
    """Return an execution with only its root step: it can be cancelled, and nothing else. Its events are withdrawn.

    None when the root is missing too.
    """
    roots = [document for document in documents if document.container_id is None]
    if not roots:
        return None
    newest = max(roots, key=lambda document: generation_of(document.id).number)
    facet = FacetPlan(row.name, Kind.WORKFLOW)
    root = StepRecord(newest.id, newest.number, newest.object_type, newest.created_at_ms)
    root.state, root.params, root.dirty = newest.state, newest.params, False
    plan = WorkflowPlan(facet, (), {}, UnreadProgram(row.program))
    # Its events stay pending, and are counted: it may be run again when it can be read.
    inbox = Inbox(next_number=None)
    inbox.count = row.pending_events
    execution = Execution(plan, row, root, RunEnvironment(dispatch, RunBounds()), count=row.steps, inbox=inbox)
    if not execution.is_ended:
        _take_back_events(execution, documents)
    return execution


def _take_back_events(execution: Execution, documents: Sequence[StepDocument]) -> None:
    for document in documents:
        is_open = document.event_state and not EventState.is_terminal(document.event_state)
        if document.state == StepState.EVENT_TRANSMIT and is_open:
            if document.deadline_ms is not None:
                execution.effects.timers_done.append(document.id)
            execution.documents.append(
                document._replace(event_state=EventState.CANCELED, deadline_ms=None, revision=execution.revision + 1)
            )
            execution.effects.task_ends.append(TaskEnd(event_id_of(document.id, document.attempt), TaskState.CANCELED))
