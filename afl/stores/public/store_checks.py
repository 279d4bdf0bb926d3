"""Errors in the input of a write that no store can accept: refused before any read or write."""

from __future__ import annotations

from collections.abc import Sequence

from afl.engine.model.store import Batch, WorkflowChange
from afl.stores.public.stored_values import check_entity, kept_value, kept_values


def check_changes(changes: Sequence[WorkflowChange]) -> None:
    """Raise ValueError when a change does not lead to the revision after the one it names, or occurs twice."""
    if len(changes) > 1 and len({change.workflow.id for change in changes}) < len(changes):
        raise ValueError("a batch can change each workflow once")
    for change in changes:
        row = change.workflow
        if row.revision != change.expected_revision + 1:
            raise ValueError(
                f"workflow {row.id}: a change of revision {change.expected_revision} can't lead to {row.revision}"
            )


def check_values(batch: Batch) -> None:
    """Raise ValueRefused for the first object in a batch that is not an AFL value.

    The engine's own batches need no check: values are checked where they enter the engine.
    """
    for change in batch.changes:
        row = change.workflow
        kept_values(row.inputs, f"workflow {row.id}, inputs")
        kept_values(row.outputs or {}, f"workflow {row.id}, outputs")
        for step in change.steps:
            kept_values(step.params, f"step {step.id}, params")
            kept_values(step.returns, f"step {step.id}, returns")
            kept_value(step.foreach_value, f"step {step.id}, foreach_value")
    for entity in (*batch.tasks, *batch.logs):
        check_entity(entity)
