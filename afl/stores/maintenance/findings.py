"""What a store check finds: one thing that is not as it must be, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violated invariant."""

    #: Which one, as `step.parent`; docs/operations.md lists them. Values are an interface: never change one.
    kind: str
    #: "" where no workflow has to do with it.
    workflow_id: str
    #: The step, task, outbox record, ... that it was found at; "": the workflow itself.
    subject: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = "  ".join(part for part in (self.workflow_id, self.subject) if part)
        return f"{self.kind}  {place}: found {self.found}; right would be {self.expected}"
