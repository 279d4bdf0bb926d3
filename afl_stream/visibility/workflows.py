"""Lists of workflows: filtered and in pages, by what a person knows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from afl.core.clock import epoch_ms
from afl.core.text.near_names import close_names, did_you_mean
from afl.engine.model.store import PAUSED, ErrorRecord, WorkflowFilter, WorkflowPlace, WorkflowRow
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError

#: How PAUSED is shown: the run waits for answers.
WAITING = "WAITING"
#: Ids that are looked at for those that begin alike, and named in an error.
_MOST_NAMED = 3
#: Ids that are compared with one that no run has: so many that follow its first character, and its first half.
_MOST_COMPARED = 1_000


class NoSuchWorkflow(StreamError):
    """No workflow has an id, or begins with it; or several do (`near`). `alike`: ids that may be meant."""

    def __init__(self, workflow_id: str, near: Sequence[str] = (), alike: Sequence[str] = ()) -> None:
        if len(near) > 1:
            text = f"several runs begin with {workflow_id}: {', '.join(near)}; give more of the id"
        else:
            meant = did_you_mean(alike)
            text = f"there is no run {workflow_id}{f'; {meant}' if meant else ''}; afl-stream list shows them"
        super().__init__(text)
        self.workflow_id, self.near, self.alike = workflow_id, tuple(near), tuple(alike)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSummary:
    """One line of a list of workflows. Times are milliseconds since the epoch."""

    workflow_id: str
    workflow: str
    status: str
    #: Whether more can run now, without waiting for an answer.
    runnable: bool
    #: The fingerprint of its program.
    program: str
    execution_number: int
    steps_made: int
    created_at_ms: int
    updated_at_ms: int
    #: None while it runs.
    ended_at_ms: int | None
    #: From its creation to its end, or till now.
    duration_ms: int
    #: The first cause of its failure, or why it was cancelled.
    error: ErrorRecord | None

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {**asdict(self), "error": None if self.error is None else self.error._asdict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPage:
    """A page of a list, and the id after which the next one begins; None when this is the last."""

    workflows: tuple[WorkflowSummary, ...]
    next_after: str | None

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {"workflows": [found.to_dict() for found in self.workflows], "next_after": self.next_after}


def list_workflows(
    store: EngineStore,
    wanted: WorkflowFilter | None = None,
    *,
    after: str | None = None,
    limit: int = 20,
    now_ms: int | None = None,
) -> WorkflowPage:
    """Return a page of the workflows that fit, newest first.

    `after` is the id, or the beginning of one, of the last workflow of the page before. Raises NoSuchWorkflow.
    """
    place = None if after is None else _place_of(store, after)
    rows = store.find_workflows(wanted or WorkflowFilter(), after=place, limit=limit + 1)
    now_ms = epoch_ms() if now_ms is None else now_ms
    page = tuple(summary_of(row, now_ms) for row in rows[:limit])
    return WorkflowPage(workflows=page, next_after=page[-1].workflow_id if len(rows) > limit else None)


def all_workflows(store: EngineStore, wanted: WorkflowFilter | None = None) -> Iterator[WorkflowRow]:
    """Return the rows of all workflows that fit, newest first, read in pages."""
    after: WorkflowPlace | None = None
    while page := store.find_workflows(wanted or WorkflowFilter(), after=after, limit=1_000):
        yield from page
        after = WorkflowPlace.of(page[-1])


def summary_of(row: WorkflowRow, now_ms: int) -> WorkflowSummary:
    """Return the line of a workflow."""
    return WorkflowSummary(
        workflow_id=row.id,
        workflow=row.name,
        status=WAITING if row.status == PAUSED else row.status,
        runnable=row.runnable,
        program=row.program,
        execution_number=row.execution_number,
        steps_made=row.steps,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        ended_at_ms=row.ended_at_ms or None,
        duration_ms=max((row.ended_at_ms or now_ms) - row.created_at_ms, 0),
        error=row.error,
    )


def full_id(store: EngineStore, workflow_id: str) -> str:
    """Return the id of the one workflow that has this id, or whose id begins with it. Raises NoSuchWorkflow."""
    if workflow_id in store.revisions([workflow_id]):
        return workflow_id
    # The ids in order: those that begin so follow each other.
    near = [found for found in store.workflow_ids(after=workflow_id, limit=_MOST_NAMED) if workflow_id]
    near = [found for found in near if found.startswith(workflow_id)]
    if len(near) != 1:
        raise NoSuchWorkflow(workflow_id, near, () if near else near_runs(store, workflow_id))
    return near[0]


def near_runs(store: EngineStore, workflow_id: str) -> list[str]:
    """Return ids of runs that begin so, or resemble one that no run has, best first.

    Only a part of many runs is compared.
    """
    following = store.workflow_ids(after=workflow_id, limit=_MOST_NAMED) if workflow_id else []
    begun = [found for found in following if found.startswith(workflow_id)]
    starts = (workflow_id[:1], workflow_id[: len(workflow_id) // 2])
    known = {found for start in starts for found in store.workflow_ids(after=start, limit=_MOST_COMPARED)}
    alike = close_names(workflow_id, sorted(known.difference(begun)), _MOST_NAMED)
    return [*begun, *alike][:_MOST_NAMED]


def find_workflow(store: EngineStore, workflow_id: str) -> WorkflowRow:
    """Return the row of the one workflow with this id, or with one that begins so. Raises NoSuchWorkflow."""
    row = store.load_workflow(full_id(store, workflow_id))
    if row is None:
        # It was purged in between.
        raise NoSuchWorkflow(workflow_id)
    return row


def _place_of(store: EngineStore, workflow_id: str) -> WorkflowPlace:
    tombstone = store.tombstone(workflow_id)
    if tombstone is not None:
        return WorkflowPlace(tombstone.created_at_ms, workflow_id)
    return WorkflowPlace.of(find_workflow(store, workflow_id))
