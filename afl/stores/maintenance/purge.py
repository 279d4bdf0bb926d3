"""Purging: finished workflows go, a slice of their rows at a time, and leave a tombstone each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

from afl.engine.clock import Clock
from afl.engine.model.store import ENDED_STATUSES, Store, WorkflowRow
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone, digest_of_inputs
from afl.engine.model.upkeep import Ended, Upkeep

#: Rows of one transaction. Each takes a few microseconds; whoever else writes waits for no longer than a batch.
ROWS_PER_SLICE: Final = 1_000
_PAGE: Final = 200

Probe = Callable[[str], None]


class PurgeableStore(Store, Upkeep, Protocol):
    """What a purge needs of a store; every store has it."""


class Purge:
    """Purges workflows, one after another. For each, in this order:
      1. look at its row: it has ended, and none of its records waits in the outbox (`purge.chosen`),
      2. put a tombstone, in state `purging`, in the place of its row, in one transaction, if the row is still at the
         revision that was looked at (`purge.buried`),
      3. delete its steps, tasks, log entries, events and parked answers, a slice in one transaction after another
         (`purge.slice_deleted`),
      4. set the tombstone's state to `purged` (`purge.finished`).

    A crash before 2 is done leaves the workflow as it was. From there on it is purged for everyone: no row leads to
    what is left of it, and the next purge finds the tombstone in state `purging` and goes on at 3. Deleting twice is
    the same as once, so any number of processes may purge at the same time; whoever changes the workflow between 1 and
    2 (an operator retries it) has it. Outbox records are never deleted here: they hold all that they publish.
    """

    def __init__(
        self,
        store: PurgeableStore,
        clock: Clock,
        *,
        rows_per_slice: int = ROWS_PER_SLICE,
        probe: Probe = lambda step: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rows_per_slice = rows_per_slice
        self._probe = probe

    def due(
        self, ended_before_ms: int, *, wanted: Callable[[str], bool] = lambda workflow_id: True
    ) -> Iterator[WorkflowRow]:
        """Give the workflows that ended before that time and whose ids are wanted, in order of creation."""
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
            # Keys are ids of workflows and of steps, which begin with them.
            found.update((stored.record.key or b"").decode("utf-8", "replace").partition(":")[0] for stored in page)
        return found

    def begin(self, row: WorkflowRow, waiting: Collection[str]) -> bool:
        """Steps 1 and 2. `waiting` is what `waiting()` gave after the row was read.

        False when the workflow has not ended, still has records in the outbox, or has changed since.
        """
        if row.status not in ENDED_STATUSES or row.id in waiting:
            return False
        self._probe("purge.chosen")
        if not self._store.bury(tombstone_of(row, self._clock.now_ms()), row.revision):
            return False
        self._probe("purge.buried")
        return True

    def go_on(self, tombstone: Tombstone) -> bool:
        """One slice of step 3, and step 4 when it was the last; True when the workflow is done with."""
        deleted = self._store.delete_rows(tombstone.workflow_id, limit=self._rows_per_slice)
        self._probe("purge.slice_deleted")
        if deleted >= self._rows_per_slice:
            return False
        tombstone.state = PURGED
        self._store.save_tombstone(tombstone)
        self._probe("purge.finished")
        return True

    def purge(self, row: WorkflowRow, waiting: Collection[str]) -> bool:
        """All steps for one workflow; False as `begin` says."""
        if not self.begin(row, waiting):
            return False
        tombstone = self._store.tombstone(row.id)
        while tombstone is not None and not self.go_on(tombstone):
            pass
        return True

    def finish_begun(self) -> int:
        """Go on with all that was begun and not finished; return how many workflows it was."""
        count = 0
        while page := self._store.tombstones(state=PURGING, limit=_PAGE):
            for tombstone in page:
                while not self.go_on(tombstone):
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
    """Return what is to be left of a workflow that is purged now."""
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
