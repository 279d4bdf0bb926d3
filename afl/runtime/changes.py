"""What has happened to a workflow since its last commit, as the rows that a store writes."""

from __future__ import annotations

from afl.runtime.execution import Execution
from afl.runtime.persistence import Batch, StepDocument, WorkflowChange, WorkflowRow
from afl.runtime.records import StepRecord
from afl.runtime.types import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION


def take_changes(execution: Execution, batch: Batch) -> None:
    """Move the workflow's changes and effects into a batch, and its revision one on.

    The execution is from here on what the store will hold; if the commit fails, it must be thrown away.
    """
    expected = execution.revision
    execution.revision = expected + 1
    documents = [_document(execution, step) for step in execution.dirty]
    execution.dirty.clear()
    effects = execution.effects
    if execution.is_ended and not execution.end_was_told:
        execution.end_was_told = True
        execution.dispatch.ended(execution, effects)
    batch.changes.append(WorkflowChange(workflow=_row(execution), expected_revision=expected, steps=documents))
    if not expected:
        batch.programs[execution.plan.fingerprint] = execution.plan.program_text()
    if effects.outbox:
        batch.outbox.extend(effects.outbox)
        effects.outbox.clear()
    if effects.tasks:
        batch.tasks.extend(effects.tasks)
        effects.tasks.clear()


def _row(execution: Execution) -> WorkflowRow:
    root, ended = execution.root, execution.is_ended
    plan = execution.plan
    return WorkflowRow(
        id=execution.id,
        revision=execution.revision,
        program=plan.fingerprint,
        name=plan.name,
        status=execution.status,
        runnable=bool(execution.queue) and not ended,
        inputs=execution.inputs,
        outputs=root.returns if root.is_complete else None,
        error=root.error,
        execution=execution.execution,
        runner_id=execution.runner_id,
        lane=execution.lane,
        steps=len(execution.steps),
        iterations=execution.iterations,
        created_at_ms=execution.created_at_ms,
        updated_at_ms=execution.now_ms,
        ended_at_ms=execution.ended_at_ms if ended else 0,
        workflow_version=WORKFLOW_VERSION,
        step_schema_version=STEP_SCHEMA_VERSION,
        runtime_version=RUNTIME_VERSION,
    )


def _document(execution: Execution, step: StepRecord) -> StepDocument:
    step.dirty = False
    step.revision = revision = execution.revision
    statement, container, block, plan = step.statement, step.container, step.block, step.plan
    if statement is not None:
        statement_id: str | None = statement.id
        facet_name = statement.facet_name
    else:
        statement_id = plan.name if plan is not None else None
        facet_name = step.facet.name if step.facet is not None else ""
    # By tuple.__new__: a step in eight of the time that the named constructor takes, and this runs for every step.
    return tuple.__new__(
        StepDocument,
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
            # For a step that goes on until the rest inside it has ended: why it will fail then.
            step.error or step.failed,
            step.foreach_index,
            plan.variable if plan is not None else None,
            step.foreach_value,
            step.created_at_ms,
            step.deadline_ms,
        ),
    )
