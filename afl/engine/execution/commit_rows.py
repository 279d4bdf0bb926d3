"""The changes of a workflow since its last commit, as rows for a store."""

from __future__ import annotations

from typing import Final

from afl.core.row_maker import row_maker
from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WAITS_SCHEMA_VERSION, WORKFLOW_VERSION
from afl.engine.execution.execution import Execution
from afl.engine.execution.leaving import leave
from afl.engine.execution.runtime_waits import settle
from afl.engine.model.effects import reuse
from afl.engine.model.plan import PinnedProgram
from afl.engine.model.records import StepRecord
from afl.engine.model.step_rows import LiveStep, StepRow
from afl.engine.model.store import RUNNING, Batch, ChangesOnly, RunningChange, StepDocument, WorkflowChange, WorkflowRow


def add_rows(execution: Execution, batch: Batch) -> None:
    """Move the workflow's changes and effects into a batch, and increase its revision. The batch may be the effects.

    The previous commit must be over: elements that it has stored may leave memory.
    After this the execution is in the state that the store will have; if the commit fails, discard the execution.
    """
    if execution.leaving is not None:
        leave(execution)
    expected = execution.revision
    if not expected:
        keep_program(execution.plan.program, batch)
    if execution.is_ended and not execution.end_was_reported:
        execution.end_was_reported = True
        if execution.trace is not None:
            execution.trace.ended(execution)
        execution.dispatch.ended(execution, execution.effects)
    execution.revision = expected + 1
    batch.changes.append(_change(execution, expected))
    effects = execution.take_effects()
    if effects is None:
        return
    if effects is batch:
        settle(execution, effects)
        return
    batch.outbox += effects.outbox
    if reuse(effects):
        return
    settle(execution, effects)
    batch.tasks += effects.tasks
    batch.task_ends += effects.task_ends
    batch.logs += effects.logs
    batch.timers += effects.timers
    batch.timers_done += effects.timers_done
    batch.history += effects.history
    batch.history_changes += effects.history_changes
    if effects.history_trims:
        batch.history_trims.update(effects.history_trims)
    if effects.programs:
        batch.programs.update(effects.programs)
        batch.annotations.update(effects.annotations)


def _change(execution: Execution, expected: int) -> WorkflowChange:
    """Return the change of the workflow: what it counts, where all else of its row is as this process has written it,
    else the whole row.
    """
    before = execution.stored_row
    if before is not None and not execution.is_ended and _only_counts(execution, before):
        return _running_change(execution, before, expected, True)
    row = _row(execution, expected + 1)
    change = WorkflowChange(row, expected, _changed_rows(execution))
    change.replaces, execution.replaces = execution.replaces, False
    execution.stored_row, execution.stored_runnable = row, row.runnable
    return change


def _only_counts(execution: Execution, before: WorkflowRow) -> bool:
    """Say whether a running workflow's row would differ from an earlier one in its counters and its status only."""
    return (
        before.lane == execution.lane
        and before.error is execution.root.error
        and before.pending_events == execution.inbox.count
        and before.execution == execution.execution
        and before.executions_before == execution.executions_before
        and before.inputs is execution.inputs
        and before.runner_id == execution.runner_id
        and not execution.replaces
    )


def _running_change(execution: Execution, before: WorkflowRow, expected: int, is_written: bool) -> RunningChange:
    # A running script is lost with its process: the next owner of the workflow then runs it again.
    is_runnable = bool(execution.queue or execution.scripts)
    change = RunningChange(
        before,
        expected,
        is_runnable,
        _changed_rows(execution),
        execution.count,
        execution.iterations,
        execution.now_ms,
        is_written,
    )
    change.keeps_status = is_written and is_runnable == execution.stored_runnable
    execution.stored_runnable = is_runnable
    return change


def keep_program(program: PinnedProgram, batch: Batch) -> None:
    """Add a program to the batch: its text, and beside it its annotations."""
    batch.programs[program.fingerprint] = program.text
    if program.annotations:
        batch.annotations[program.fingerprint] = program.annotations


class Commits:
    """The batches of a workflow that is committed on its own, one after the other."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._plain = ChangesOnly(values_checked=True)

    def next(self) -> Batch:
        """Return the batch of the next commit; the previous commit must be over. Works as `add_rows`."""
        execution = self._execution
        expected = execution.revision
        if execution.has_effects or execution.is_ended or not expected:
            batch = execution.effects
            batch.now_ms = execution.now_ms
            add_rows(execution, batch)
            return batch
        if execution.leaving is not None:
            leave(execution)
        # Most iterations produce only steps.
        execution.revision = expected + 1
        before = execution.stored_row
        is_written = before is not None and _only_counts(execution, before)
        if before is None or not is_written:
            before = execution.stored_row = _row(execution, expected)
        change = _running_change(execution, before, expected, is_written)
        batch = self._plain
        batch.changes = [change]
        batch.now_ms = execution.now_ms
        return batch


def _changed_rows(execution: Execution) -> list[StepRow]:
    rows, execution.documents = execution.documents, []
    if execution.dirty:
        rows[:0] = [_live(execution, step) or _document(execution, step) for step in execution.dirty]
        execution.dirty.clear()
    return rows


#: The values in the order in which `_live` gives them.
_live_step: Final = row_maker(
    LiveStep,
    "id", "number", "revision", "state", "attempt", "event_state", "params", "returns", "created_at_ms", "statement",
    "block_ids", "is_written",
)  # fmt: skip


def _live(execution: Execution, step: StepRecord) -> LiveStep | None:
    """Return a changed step as a snapshot; None for one that has more than a plain one."""
    statement, block, params = step.statement, step.block, step.params
    if (
        statement is None
        or block is None
        or block.frame is None
        or step.deadline_ms is not None
        or step.retry is not None
        or step.error is not None
        or step.caught is not None
        or step.failed is not None
        or step.foreach_index is not None
        or block.frame.owner is not step.container
    ):
        return None
    step.dirty = False
    step.revision = execution.revision
    is_written, step.written_params = step.written_params is params, params
    return _live_step(
        (
            step.id,
            step.number,
            step.revision,
            step.state,
            step.attempt,
            step.event_state,
            params,
            step.returns,
            step.created_at_ms,
            statement,
            block.frame.block_ids,
            is_written,
        ),
    )


#: The values in the order in which `_row` gives them.
_workflow_row: Final = row_maker(
    WorkflowRow,
    "id", "revision", "program", "name", "status", "runnable", "inputs", "outputs", "error", "execution",
    "runner_id", "lane", "steps", "iterations", "created_at_ms", "updated_at_ms", "ended_at_ms", "workflow_version",
    "step_schema_version", "runtime_version", "executions_before", "pending_events", "trace_context",
)  # fmt: skip


def _row(execution: Execution, revision: int) -> WorkflowRow:
    root, ended, plan = execution.root, execution.is_ended, execution.plan
    # A running script is lost with its process: the next owner of the workflow then runs it again.
    is_runnable = not ended and bool(execution.queue or execution.scripts)
    before, pending = execution.executions_before, execution.inbox.count
    return _workflow_row(
        (
            execution.id,
            revision,
            plan.fingerprint,
            plan.facet.name,
            RUNNING if is_runnable else execution.status,
            is_runnable,
            execution.inputs,
            root.returns if ended and root.is_complete else None,
            root.error,
            execution.execution,
            execution.runner_id,
            execution.lane,
            execution.count,
            execution.iterations,
            execution.created_at_ms,
            execution.now_ms,
            execution.ended_at_ms if ended else 0,
            WORKFLOW_VERSION,
            WAITS_SCHEMA_VERSION if before or pending else STEP_SCHEMA_VERSION,
            RUNTIME_VERSION,
            before,
            pending,
            execution.trace_context,
        ),
    )


#: The values in the order in which `_document` gives them.
_step_document: Final = row_maker(
    StepDocument,
    "id", "workflow_id", "number", "revision", "object_type", "state", "statement_id", "facet_name", "container_id",
    "container_type", "block_id", "root_id", "params", "returns", "attempt", "event_state", "error",
    "foreach_index", "foreach_var", "foreach_value", "created_at_ms", "deadline_ms", "retry",
)  # fmt: skip


def _document(execution: Execution, step: StepRecord) -> StepDocument:
    step.dirty = False
    step.revision = revision = execution.revision
    step.written_params = None
    statement, container, block, plan = step.statement, step.container, step.block, step.plan
    if statement is not None:
        statement_id: str | None = statement.id
        facet_name = statement.facet_name
    else:
        part = plan if plan is not None else step.mixin
        statement_id = part.name if part is not None else None
        facet_name = step.facet_name if plan is None else ""
    return _step_document(
        (
            step.id,
            execution.id,
            step.number,
            revision,
            step.object_type,
            step.state,
            statement_id,
            facet_name,
            container.id if container is not None else None,
            container.object_type if container is not None and plan is not None else None,
            block.id if block is not None else None,
            execution.root.id if container is not None else None,
            step.params,
            step.returns,
            step.attempt,
            step.event_state,
            # For a step that will fail when everything inside it has ended: the cause. For a step whose catch runs: the
            # error that it handles.
            step.error or step.caught or step.failed,
            step.foreach_index,
            # Only for an element's block: the foreach itself has no value for its variable.
            plan.variable if plan is not None and step.foreach_index is not None else None,
            step.foreach_value,
            step.created_at_ms,
            step.deadline_ms,
            step.retry,
        ),
    )
