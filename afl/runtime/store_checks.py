"""Mistakes in what is to be stored that no store can make good: refused before anything is looked up or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from afl.core.values import plain_value, plain_values
from afl.runtime.limits import MAX_INTEGER_BITS
from afl.runtime.persistence import Batch, WorkflowChange
from afl.runtime.types import Value


def check_changes(changes: Sequence[WorkflowChange]) -> None:
    """Raise ValueError when a change does not lead to the revision after the one it names, or comes twice."""
    if len(changes) > 1 and len({change.workflow.id for change in changes}) < len(changes):
        raise ValueError("a batch can change each workflow once")
    for change in changes:
        row = change.workflow
        if row.revision != change.expected_revision + 1:
            raise ValueError(
                f"workflow {row.id}: a change of revision {change.expected_revision} can't lead to {row.revision}"
            )


def check_values(batch: Batch) -> None:
    """Raise ValueRefused for the first value of a batch that is no AFL value. The engine's own batches hold none: what
    comes into it was looked at there."""
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


def check_entity(entity: object) -> None:
    """Raise ValueRefused for the first value that an entity, or one in it, holds and that is no AFL value."""
    _check_fields(entity, type(entity).__name__)


def kept_values(values: Mapping[str, object], path: str) -> dict[str, Value]:
    """Return named values as stores keep them. Raises ValueRefused. Integers are as long as expressions make them."""
    return plain_values(values, path, MAX_INTEGER_BITS)


def kept_value(value: object, path: str) -> Value:
    """Return a value as stores keep it. Raises as `kept_values`."""
    plain: Value = plain_value(value, path, MAX_INTEGER_BITS)
    return plain


def _check_fields(value: object, path: str) -> None:
    if is_dataclass(value):
        for field in fields(value):
            _check_fields(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_fields(item, f"{path}[{index}]")
    elif value is not None and type(value) is not str:
        # Texts of entities are names and messages, not values.
        kept_value(value, path)
