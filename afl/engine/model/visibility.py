"""Searches over all workflows of a store: which ones a person asks for, in pages, and which programs they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from afl.engine.model.workflow_rows import WorkflowRow
from afl.engine.types import Value


class WorkflowPlace(NamedTuple):
    """A workflow's place in the order of lists, which is by time of creation, then by id, newest first."""

    created_at_ms: int
    workflow_id: str

    @classmethod
    def of(cls, row: WorkflowRow) -> WorkflowPlace:
        """Return the place of a workflow."""
        return cls(row.created_at_ms, row.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """A choice of workflows; each part that is given must fit."""

    #: Stored statuses, as RUNNING and PAUSED.
    statuses: Sequence[str] = ()
    #: Qualified names of workflows.
    names: Sequence[str] = ()
    #: Fingerprints of programs.
    programs: Sequence[str] = ()
    #: Qualified names of facets: the workflow has a step that calls one of them.
    facets: Sequence[str] = ()
    #: Created at or after this time, ms since the epoch.
    since_ms: int | None = None
    #: Created before this time.
    before_ms: int | None = None
    #: Found in the type, the message, the step path or the facet of the first cause; the case of ASCII letters is
    #: ignored.
    error_text: str = ""
    #: For each input that matters, the values that fit.
    inputs: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def takes(self, row: WorkflowRow) -> bool:
        """Return whether a workflow's row fits. Facets are in its steps, and not looked at."""
        return (
            (not self.statuses or row.status in self.statuses)
            and (not self.names or row.name in self.names)
            and (not self.programs or row.program in self.programs)
            and (self.since_ms is None or row.created_at_ms >= self.since_ms)
            and (self.before_ms is None or row.created_at_ms < self.before_ms)
            and self.takes_contents(row)
        )

    def takes_contents(self, row: WorkflowRow) -> bool:
        """Return whether the first cause and the inputs of a workflow fit: what no store can compare by itself."""
        if self.error_text:
            if row.error is None:
                return False
            wanted = folded(self.error_text)
            told = (row.error.type, row.error.message, row.error.path, row.error.facet)
            if not any(wanted in folded(text) for text in told):
                return False
        return all(
            name in row.inputs and any(is_same(row.inputs[name], value) for value in values)
            for name, values in self.inputs.items()
        )

    @property
    def has_contents(self) -> bool:
        """Return whether `takes_contents` may refuse anything."""
        return bool(self.error_text or self.inputs)


def folded(text: str) -> bytes:
    """Return a text for comparisons that ignore the case of ASCII letters, as all stores can."""
    return text.encode(errors="surrogatepass").lower()


def is_same(one: Value, other: Value) -> bool:
    """Return whether two values are equal; a truth value is no number, and 17 is 17.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other


class ProgramUse(NamedTuple):
    """How many workflows of a name and in a status run a program."""

    program: str
    name: str
    status: str
    workflows: int
    #: When the first and the last of them were created, ms since the epoch.
    first_ms: int
    last_ms: int


class VisibilityStore(Protocol):
    """The searches of a store."""

    def find_workflows(
        self, wanted: WorkflowFilter, *, after: WorkflowPlace | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return the workflows that fit, newest first; with `after`, those that come after that place."""

    def program_uses(self) -> list[ProgramUse]:
        """Return who runs which program, in any order. A store in parts has several rows for one use."""

    def program_fingerprints(self) -> list[str]:
        """Return the fingerprints of all programs that are kept, in any order."""
