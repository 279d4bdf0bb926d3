"""The findings of a store check: a violated invariant, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated invariant."""

    #: The kind of the invariant, as `step.parent`; docs/operations.md lists them. Values are an interface: never change
    #: one.
    kind: str
    #: "" when no workflow is concerned.
    workflow_id: str
    #: The step, task, outbox record, ... with the fault; "": the workflow itself.
    subject: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = "  ".join(part for part in (self.workflow_id, self.subject) if part)
        return f"{self.kind}  {place}: found {self.found}; expected {self.expected}"
