"""Lists of the workflows in memory, and searches over them."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import cast

from afl.engine.model.store import RunningChange, WorkflowHead, WorkflowRow
from afl.engine.model.visibility import ProgramUse, WorkflowFilter, WorkflowPlace
from afl.engine.types import Value, copy_value
from afl.stores.memory.steps import KeptSteps


class MemoryLists:
    """The part of `MemoryStore` that lists workflows and searches them."""

    _lock: threading.RLock
    _workflows: dict[str, WorkflowRow | RunningChange]
    _steps: dict[str, KeptSteps]
    _programs: dict[str, bytes]
    _runnable: dict[str, None]

    def list_workflows(
        self, *, status: str | None = None, name: str | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return workflows, newest first."""
        with self._lock:
            rows = [row_of(kept) for kept in self._workflows.values()]
        found = [row for row in rows if (status is None or row.status == status) and (name is None or row.name == name)]
        found.sort(key=lambda row: (row.created_at_ms, row.id), reverse=True)
        return [own_copy(row) for row in found[:limit]]

    def workflow_heads(self, *, status: str, limit: int = 1_000) -> list[WorkflowHead]:
        """Return the newest workflows in a status; see `Store`."""
        rows = self.list_workflows(status=status, limit=limit)
        return [WorkflowHead(row.id, row.revision, row.updated_at_ms) for row in rows]

    def runnable_workflows(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have more to do now, oldest first."""
        with self._lock:
            rows = [row_of(self._workflows[workflow_id]) for workflow_id in self._runnable]
        rows.sort(key=lambda row: (row.created_at_ms, row.id))
        return [row.id for row in rows[:limit]]

    def find_workflows(
        self, wanted: WorkflowFilter, *, after: WorkflowPlace | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return the workflows that fit, newest first; see `VisibilityStore`."""
        rows = self._all_rows()
        if after is not None:
            rows = [row for row in rows if (row.created_at_ms, row.id) < after]
        fitting = [row for row in rows if wanted.takes(row)]
        fitting.sort(key=lambda row: (row.created_at_ms, row.id), reverse=True)
        found = []
        for row in fitting:
            if not wanted.facets or self._calls(row.id, wanted):
                found.append(own_copy(row))
                if len(found) == limit:
                    break
        return found

    def program_uses(self) -> list[ProgramUse]:
        """Return who runs which program; see `VisibilityStore`."""
        created: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for row in self._all_rows():
            created[row.program, row.name, row.status].append(row.created_at_ms)
        return [ProgramUse(*use, len(times), min(times), max(times)) for use, times in created.items()]

    def program_fingerprints(self) -> list[str]:
        """Return the fingerprints of all programs that are kept."""
        with self._lock:
            return list(self._programs)

    def _all_rows(self) -> list[WorkflowRow]:
        with self._lock:
            return [row_of(kept) for kept in self._workflows.values()]

    def _calls(self, workflow_id: str, wanted: WorkflowFilter) -> bool:
        with self._lock:
            steps = self._steps.get(workflow_id)
            return steps is not None and any(step.facet_name in wanted.facets for step in steps.by_id().values())


def row_of(kept: WorkflowRow | RunningChange) -> WorkflowRow:
    """Return the row of a workflow as it is kept."""
    return kept.workflow if isinstance(kept, RunningChange) else kept


def own_copy(row: WorkflowRow) -> WorkflowRow:
    """Return the row with its own copies of the maps."""
    return row._replace(
        inputs=cast(dict[str, Value], copy_value(dict(row.inputs))),
        outputs=None if row.outputs is None else cast(dict[str, Value], copy_value(dict(row.outputs))),
    )
