"""What of a deployment is paused: facets, workflows, or all, by the records on the definitions topic."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.messages import Pause, pause_key


class PauseScope(StrEnum):
    """What a pause is about. Values are stored and published: never change one."""

    ALL = "all"
    FACET = "facet"
    WORKFLOW = "workflow"


class Pauses:
    """The pauses that hold now, as far as the topic was read. The last record of a key counts."""

    def __init__(self) -> None:
        #: All last records by their keys, those of pauses that are over too: a topic that loses them gets them again.
        self.records: dict[str, Pause] = {}
        #: The pause of all, and the pauses by facet and by workflow id.
        self.of_all: Pause | None = None
        self.facets: dict[str, Pause] = {}
        self.workflows: dict[str, Pause] = {}
        #: Counts changes. Whether any workflow, and whether any facet, is held: attributes, because they are asked for
        #: each record.
        self.version = 0
        self.holds_workflows = self.holds_facets = False

    def __bool__(self) -> bool:
        return self.of_all is not None or bool(self.facets) or bool(self.workflows)

    def __iter__(self) -> Iterator[Pause]:
        return iter([*([] if self.of_all is None else [self.of_all]), *self.facets.values(), *self.workflows.values()])

    def take(self, key: str, pause: Pause) -> None:
        """Take the next record of the topic. Raises Unreadable for one under another key, or of an unknown scope."""
        if key != pause_key(pause.scope, pause.name):
            text = f"a pause of {pause.scope} {pause.name} belongs under {pause_key(pause.scope, pause.name)}"
            raise Unreadable(Reason.BAD_KEY, text)
        holds = pause if pause.is_paused else None
        if pause.scope == PauseScope.ALL:
            self.of_all = holds
        elif pause.scope in (PauseScope.FACET, PauseScope.WORKFLOW):
            table = self.facets if pause.scope == PauseScope.FACET else self.workflows
            table.pop(pause.name, None)
            if holds is not None:
                table[pause.name] = holds
        else:
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a pause of the scope {pause.scope!r:.100}")
        self.records[key] = pause
        self.version += 1
        self.holds_workflows = self.of_all is not None or bool(self.workflows)
        self.holds_facets = self.of_all is not None or bool(self.facets)

    def of_facet(self, facet: str) -> Pause | None:
        """Return the pause that holds a facet's events; None: none does."""
        return self.of_all or self.facets.get(facet)

    def of_workflow(self, workflow_id: str) -> Pause | None:
        """Return the pause that holds a workflow; None: none does."""
        return self.of_all or self.workflows.get(workflow_id)
