"""Purging: finished workflows are deleted, a slice of their rows at a time, and each leaves a tombstone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

from afl.core.clock import Clock
from afl.core.probes import Probe
from afl.engine.model.store import ENDED_STATUSES, Store, WorkflowRow
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone, digest_of_inputs
from afl.engine.model.upkeep import Ended, Upkeep

#: Rows of one transaction. Each takes a few microseconds; another writer waits no longer than for a batch.
ROWS_PER_SLICE: Final = 1_000
_PAGE: Final = 200


class PurgeableStore(Store, Upkeep, Protocol):
    """The store interface for a purge; every store has it."""


class Purge:
    """Purging of workflows, one after another. For each, in this order:
      1. read its row: it has ended, and none of its records waits in the outbox (`purge.chosen`),
      2. replace its row by a tombstone in state `purging`, in one transaction, if the row is still at the revision that
         was read (`purge.buried`),
      3. delete its steps, timers, history, tasks, log entries, events and parked answers, a slice in one transaction
         after another (`purge.slice_deleted`),
      4. set the tombstone's state to `purged` (`purge.finished`).

    A crash before 2 is done leaves the workflow as it was. After 2 every process considers it purged: no row leads to
    the remaining rows, and the next purge finds the tombstone in state `purging` and continues at 3. Deleting twice is
    the same as once, so any number of processes may purge at the same time. A process that changes the workflow between
    1 and 2 (an operator retries it) keeps it. Outbox records are never deleted here: they contain everything that they
    publish.
    """

    def __init__(
        self,
        store: PurgeableStore,
        clock: Clock,
        *,
        rows_per_slice: int = ROWS_PER_SLICE,
        probe: Probe = lambda _step: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rows_per_slice = rows_per_slice
        self._probe = probe

    def due(
        self, ended_before_ms: int, *, wanted: Callable[[str], bool] = lambda _workflow_id: True
    ) -> Iterator[WorkflowRow]:
        """Yield the workflows that ended before that time and whose ids are wanted, in order of creation."""
        after: Ended | None = None
        while page := self._store.ended_workflows(created_before_ms=ended_before_ms, after=after, limit=_PAGE):
            after = page[-1]
            for _, workflow_id in page:
                row = self._store.load_workflow(workflow_id) if wanted(workflow_id) else None
                if row is not None and has_ended_before(row, ended_before_ms):
                    yield row

    def waiting(self) -> set[str]:
        """Return the workflows that have records in the outbox."""
        found: set[str] = set()
        after = 0
        while page := self._store.outbox(after=after):
            after = page[-1].sequence
            # Keys are ids of workflows, and of steps, whose ids begin with a workflow's.
            found.update((stored.record.key or b"").decode("utf-8", "replace").partition(":")[0] for stored in page)
        return found

    def begin(self, row: WorkflowRow, waiting: Collection[str]) -> bool:
        """Do steps 1 and 2. `waiting` is the result of `waiting()` after the row was read.

        Returns False when the workflow has not ended, still has records in the outbox, or has changed since.
        """
        if row.status not in ENDED_STATUSES or row.id in waiting:
            return False
        self._probe("purge.chosen")
        if not self._store.bury(tombstone_of(row, self._clock.now_ms()), row.revision):
            return False
        self._probe("purge.buried")
        return True

    def continue_purge(self, tombstone: Tombstone) -> bool:
        """Do one slice of step 3, and step 4 after the last; return True when the workflow is finished."""
        deleted = self._store.delete_rows(tombstone.workflow_id, limit=self._rows_per_slice)
        self._probe("purge.slice_deleted")
        if deleted >= self._rows_per_slice:
            return False
        tombstone.state = PURGED
        self._store.save_tombstone(tombstone)
        self._probe("purge.finished")
        return True

    def purge(self, row: WorkflowRow, waiting: Collection[str]) -> bool:
        """Do all steps for one workflow; return False as `begin` does."""
        if not self.begin(row, waiting):
            return False
        tombstone = self._store.tombstone(row.id)
        while tombstone is not None and not self.continue_purge(tombstone):
            pass
        return True

    def finish_begun(self) -> int:
        """Finish all purges that were begun; return the number of workflows."""
        count = 0
        while page := self._store.tombstones(state=PURGING, limit=_PAGE):
            for tombstone in page:
                while not self.continue_purge(tombstone):
                    pass
                count += 1
        return count

    def forget(self, purged_before_ms: int, *, limit: int = _PAGE) -> int:
        """Delete up to `limit` tombstones from before that time; return how many."""
        page = self._store.tombstones(state=PURGED, purged_before_ms=purged_before_ms, limit=limit)
        return sum(self._store.delete_tombstone(tombstone.workflow_id) for tombstone in page)


def has_ended_before(row: WorkflowRow, time_ms: int) -> bool:
    """Say whether a workflow ended before that time."""
    return row.status in ENDED_STATUSES and row.ended_at_ms < time_ms


def tombstone_of(row: WorkflowRow, now_ms: int) -> Tombstone:
    """Return the tombstone of a workflow that is purged now."""
    return Tombstone(
        workflow_id=row.id,
        name=row.name,
        program=row.program,
        inputs_digest=digest_of_inputs(row.inputs),
        status=row.status,
        created_at_ms=row.created_at_ms,
        ended_at_ms=row.ended_at_ms,
        purged_at_ms=now_ms,
    )
