"""What operators have paused, as a store keeps it for those who read no topic: pollers, and commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from afl.engine.types import Value

#: The id of the row, among the schedules' rows that are none.
PAUSES_ROW: Final = "#pauses"
_ALL, _FACET, _WORKFLOW = "all", "facet", "workflow"


class StoredPause(NamedTuple):
    """One pause: of `all`, or of a `facet` or `workflow` of this name. `at_ms` is in milliseconds since the epoch."""

    scope: str
    name: str
    at_ms: int
    reason: str = ""


class StoredPauses:
    """The pauses that hold."""

    def __init__(self, pauses: tuple[StoredPause, ...] = ()) -> None:
        self.pauses = pauses
        self.holds_all = any(pause.scope == _ALL for pause in pauses)
        self.facets = frozenset(pause.name for pause in pauses if pause.scope == _FACET)
        self.workflows = frozenset(pause.name for pause in pauses if pause.scope == _WORKFLOW)

    def document(self) -> dict[str, Value]:
        """Return the document of the row."""
        return {"pauses": [[pause.scope, pause.name, pause.at_ms, pause.reason] for pause in self.pauses]}


def stored_pauses(document: Mapping[str, Value] | None) -> StoredPauses:
    """Return the pauses of a row's document; none of an entry that this release cannot read."""
    listed = None if document is None else document.get("pauses")
    found = []
    for entry in listed if isinstance(listed, list | tuple) else ():
        match entry:
            case [str(scope), str(name), int(at_ms), str(reason), *_]:
                found.append(StoredPause(scope, name, at_ms, reason))
    return StoredPauses(tuple(found))
