"""Runs that have not ended and stay on another version of their workflow than the one that is asked about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.engine.model.store import PAUSED, RUNNING
from afl.engine.model.visibility import WorkflowFilter
from afl.engine.planning.programs import is_pinned_by
from afl.stores.public.persistence import EngineStore
from afl_stream.visibility.workflows import all_workflows

#: Runs of a version that are named, the newest; all are counted.
MOST_NAMED: Final = 1_000


@dataclass(slots=True, kw_only=True)
class StayingRuns:
    """The runs of a workflow that stay on one version of it."""

    workflow: str
    program: str
    waiting: int = 0
    #: Those that have more to do now.
    running: int = 0
    #: Their ids, up to `MOST_NAMED`, the newest first.
    runs: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return how many they are."""
        return self.waiting + self.running

    def to_dict(self) -> dict[str, object]:
        """Return them as JSON has them."""
        return {**asdict(self), "count": self.count}


def staying_runs(store: EngineStore, program: CompiledProgram, workflows: Collection[str]) -> list[StayingRuns]:
    """Return the runs of these workflows that are on another version than this program, by workflow and version."""
    found: dict[tuple[str, str], StayingRuns] = {}
    same: dict[str, bool] = {}
    wanted = WorkflowFilter(statuses=(RUNNING, PAUSED), names=sorted(workflows))
    for row in all_workflows(store, wanted) if workflows else ():
        if row.program not in same:
            same[row.program] = is_pinned_by(program, row.program, store)
        if same[row.program]:
            continue
        key = (row.name, row.program)
        runs = found.setdefault(key, StayingRuns(workflow=row.name, program=row.program))
        if row.status == PAUSED:
            runs.waiting += 1
        else:
            runs.running += 1
        if len(runs.runs) < MOST_NAMED:
            runs.runs.append(row.id)
    return [found[key] for key in sorted(found)]
