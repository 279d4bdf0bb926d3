"""Errors in the input of a write that no store can accept: refused before any read or write."""

from __future__ import annotations

from collections.abc import Sequence

from afl.engine.model.store import Batch, WorkflowChange
from afl.stores.public.stored_values import check_entity, kept_value, kept_values


def check_changes(changes: Sequence[WorkflowChange]) -> None:
    """Raise ValueError when a change does not lead to the revision after the one it names, or occurs twice."""
    if len(changes) > 1 and len({change.workflow_id for change in changes}) < len(changes):
        raise ValueError("a batch can change each workflow once")
    for change in changes:
        if change.revision != change.expected_revision + 1:
            raise ValueError(
                f"workflow {change.workflow_id}: a change of revision {change.expected_revision} can't lead to"
                f" {change.revision}"
            )


def check_keys(batch: Batch) -> None:
    """Raise ValueError when a batch has two new rows of a history with one number or event id, or changes a schedule
    twice.
    """
    if not (batch.history or batch.schedules):
        return
    keys = [(row.workflow_id, row.number) for row in batch.history]
    events = [(row.workflow_id, row.event_id) for row in batch.history if row.event_id]
    schedules = [change.id for change in batch.schedules]
    for found in (keys, events, schedules):
        if len(set(found)) < len(found):
            raise ValueError(f"a batch can write each of these once: {found}")
    for change in batch.schedules:
        row = change.row
        if row is not None and (row.id, row.revision) != (change.id, change.expected_revision + 1):
            raise ValueError(
                f"schedule {change.id}: a change of revision {change.expected_revision} can't lead to {row.id},"
                f" revision {row.revision}"
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
    if batch.history or batch.history_changes or batch.schedules:
        _check_lasting(batch)
    for entity in (*batch.tasks, *batch.logs):
        check_entity(entity)


def _check_lasting(batch: Batch) -> None:
    for event in (*batch.history, *batch.history_changes):
        kept_value(event.value, f"workflow {event.workflow_id}, history {event.number}")
    for change in batch.schedules:
        if change.row is not None:
            kept_values(change.row.document, f"schedule {change.id}")
