"""Purging: finished workflows are deleted, a slice of their rows at a time, and each leaves a tombstone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from afl.core.clock import Clock
from afl.core.probes import Probe
from afl.engine.model.store import ENDED_STATUSES, Store, WorkflowRow
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone, digest_of_inputs
from afl.engine.model.upkeep import Burial, Ended, Upkeep

#: Workflows of one batch, and rows of one transaction. Each takes some microseconds: another writer waits no longer
#: than for a batch of records.
BATCH: Final = 200
ROWS_PER_SLICE: Final = 2_000
#: Pages that are given back to the file system in one transaction: up to a few milliseconds.
_PAGES_PER_STEP: Final = 256


class Begun(NamedTuple):
    """The workflows whose tombstones were written, and those of them of which rows are left."""

    workflow_ids: list[str]
    unfinished: list[str]


class PurgeableStore(Store, Upkeep, Protocol):
    """The store interface for a purge; every store has it."""


class Purge:
    """Purging of workflows, in batches. For each batch, in this order:
      1. read the workflows' rows: they have ended, and none of their records waits in the outbox (`purge.chosen`),
      2. replace each row by a tombstone, if the row is still at the revision that was read, and delete up to a slice of
         the workflows' steps, timers, history, tasks, log entries, events and parked answers, in one transaction; the
         tombstones of those of which nothing is left are `purged`, the others `purging` (`purge.buried`),
      3. delete the rows that are left, a slice after another (`purge.slice_deleted`),
      4. set the tombstones of those workflows to state `purged` (`purge.finished`).

    Steps 3 and 4 are needed for a workflow with more rows than a slice, and on MongoDB, whose step 2 only replaces the
    rows: it deletes a slice by one command for each collection.

    A crash before 2 is done leaves the workflows as they were. After 2 every process considers them purged: no row
    leads to the remaining rows, and the next purge finds the tombstones in state `purging` and continues at 3. Deleting
    twice is the same as once, so any number of processes may purge at the same time. A process that changes a workflow
    between 1 and 2 (an operator retries it) keeps it. Outbox records are never deleted here: they contain everything
    that they publish.
    """

    def __init__(
        self,
        store: PurgeableStore,
        clock: Clock,
        *,
        rows_per_slice: int = ROWS_PER_SLICE,
        probe: Probe = lambda _step: None,
        digest_of: Callable[[WorkflowRow], str] = lambda row: digest_of_inputs(row.inputs),
    ) -> None:
        """`digest_of` returns what is kept of a run's inputs; see Tombstone."""
        self._store = store
        self._clock = clock
        self._rows_per_slice = rows_per_slice
        self._probe = probe
        self._digest_of = digest_of

    def due(
        self, ended_before_ms: int, *, wanted: Callable[[str], bool] = lambda _workflow_id: True
    ) -> Iterator[WorkflowRow]:
        """Yield the workflows that ended before that time and whose ids are wanted, in order of creation."""
        after: Ended | None = None
        while page := self._store.ended_workflows(created_before_ms=ended_before_ms, after=after, limit=BATCH):
            after = page[-1]
            chosen = [workflow_id for _, workflow_id in page if wanted(workflow_id)]
            found = {row.id: row for row in self._store.load_workflows(chosen)}
            for workflow_id in chosen:
                row = found.get(workflow_id)
                if row is not None and has_ended_before(row, ended_before_ms):
                    yield row

    def waiting(self) -> set[str]:
        """Return the workflows that have records in the outbox."""
        # Keys are ids of workflows, and of steps, whose ids begin with a workflow's.
        return {key.decode("utf-8", "replace").partition(":")[0] for key in self._store.waiting_keys()}

    def begin(self, rows: Sequence[WorkflowRow], waiting: Collection[str]) -> Begun:
        """Do steps 1 and 2. `waiting` is the result of `waiting()` after the rows were read.

        A workflow is kept when it has not ended, still has records in the outbox, or has changed since.
        """
        chosen = [row for row in rows if row.status in ENDED_STATUSES and row.id not in waiting]
        if not chosen:
            return Begun([], [])
        self._probe("purge.chosen")
        now_ms = self._clock.now_ms()
        burials = [Burial(tombstone_of(row, now_ms, self._digest_of(row)), row.revision, row.steps) for row in chosen]
        states = self._store.bury(burials, limit=self._rows_per_slice)
        self._probe("purge.buried")
        begun = [row.id for row, state in zip(chosen, states, strict=True) if state]
        return Begun(begun, [row.id for row, state in zip(chosen, states, strict=True) if state == PURGING])

    def continue_purge(self, workflow_ids: Sequence[str]) -> bool:
        """Do one slice of step 3, and step 4 after the last; return True when these workflows are finished."""
        deleted = self._store.delete_rows(workflow_ids, limit=self._rows_per_slice)
        self._probe("purge.slice_deleted")
        if deleted >= self._rows_per_slice:
            return False
        self._store.mark_purged(workflow_ids)
        self._probe("purge.finished")
        return True

    def purge(self, row: WorkflowRow, waiting: Collection[str]) -> bool:
        """Do all steps for one workflow; return False when `begin` keeps it."""
        return bool(self.purge_all([row], waiting))

    def purge_all(self, rows: Sequence[WorkflowRow], waiting: Collection[str]) -> list[str]:
        """Do all steps for these workflows, up to `BATCH` at a time; return the ids of those that are purged now."""
        begun = self.begin(rows, waiting)
        if begun.unfinished:
            self._finish(begun.unfinished)
        return begun.workflow_ids

    def _finish(self, workflow_ids: Sequence[str]) -> None:
        while not self.continue_purge(workflow_ids):
            pass

    def finish_begun(self) -> int:
        """Finish all purges that were begun; return the number of workflows."""
        count = 0
        while page := self._store.tombstones(state=PURGING, limit=BATCH):
            self._finish([tombstone.workflow_id for tombstone in page])
            count += len(page)
        return count

    def give_back(self) -> bool:
        """Give some free space of the store back to the file system, if much is free; say whether there is more."""
        return self._store.give_back(limit=_PAGES_PER_STEP)

    def forget(self, purged_before_ms: int, *, limit: int = ROWS_PER_SLICE) -> int:
        """Delete up to `limit` tombstones from before that time; return how many."""
        page = self._store.tombstones(state=PURGED, purged_before_ms=purged_before_ms, limit=limit)
        return self._store.delete_tombstones([tombstone.workflow_id for tombstone in page]) if page else 0


def has_ended_before(row: WorkflowRow, time_ms: int) -> bool:
    """Say whether a workflow ended before that time."""
    return row.status in ENDED_STATUSES and row.ended_at_ms < time_ms


def tombstone_of(row: WorkflowRow, now_ms: int, inputs_digest: str | None = None) -> Tombstone:
    """Return the tombstone of a workflow that is purged now; without a digest it has that of all inputs."""
    return Tombstone(
        workflow_id=row.id,
        name=row.name,
        program=row.program,
        inputs_digest=digest_of_inputs(row.inputs) if inputs_digest is None else inputs_digest,
        status=row.status,
        created_at_ms=row.created_at_ms,
        ended_at_ms=row.ended_at_ms,
        purged_at_ms=now_ms,
    )
