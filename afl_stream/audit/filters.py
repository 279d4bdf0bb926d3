"""The records that an audit writes down, where it does not want all: by facet, workflow and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: Events whose steps are remembered, so that their answers are known. The newest of them.
MOST_STEPS: Final = 200_000
#: Lines about the log itself, which no filter leaves out: records that are missing, and why.
_ABOUT_THE_LOG: Final = frozenset({"lost", "gap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The records that are wanted: those that fit all that is named here.

    `facets` are qualified names, or their last parts; `workflows` are ids. `from_ms` is the time of the first record,
    and `to_ms` the time behind the last one, both as the log says, in ms since the epoch.
    """

    facets: frozenset[str] = frozenset()
    workflows: frozenset[str] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def takes_all(self) -> bool:
        """Return whether nothing is left out."""
        return self == AuditFilter()

    def has_facet(self, facet: str) -> bool:
        """Return whether records of a facet are wanted."""
        return not self.facets or facet in self.facets or facet.rpartition(".")[2] in self.facets

    def takes_time(self, time_ms: int) -> bool:
        """Return whether records of a time are wanted."""
        return (self.from_ms is None or time_ms >= self.from_ms) and (self.to_ms is None or time_ms < self.to_ms)

    def takes_workflow(self, line: Mapping[str, object]) -> bool:
        """Return whether a line is about one of the workflows."""
        if not self.workflows or line["kind"] in _ABOUT_THE_LOG:
            return True
        if line["kind"] == "unreadable":
            return str(line["key"]).partition(":")[0] in self.workflows
        return line.get("workflow") in self.workflows

    def document(self) -> dict[str, object]:
        """Return what is wanted as a line says it."""
        return {
            "facets": sorted(self.facets),
            "workflows": sorted(self.workflows),
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
        }


class AskingSteps:
    """The steps of the events that were wanted: an answer names its step, and no facet."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._steps: OrderedDict[str, None] = OrderedDict.fromkeys(known)

    def __contains__(self, step_id: object) -> bool:
        return step_id in self._steps

    def note(self, step_id: str) -> None:
        """Remember a step."""
        self._steps[step_id] = None
        if len(self._steps) > MOST_STEPS:
            self._steps.popitem(last=False)
