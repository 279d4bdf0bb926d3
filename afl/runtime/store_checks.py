"""Mistakes in a batch that no store can make good: refused before anything is looked up."""

from __future__ import annotations

from collections.abc import Sequence

from afl.runtime.persistence import WorkflowChange


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
