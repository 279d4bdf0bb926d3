"""The store interface for checks and purges, besides the engine's: lists in pages, and rows that are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from afl.engine.model.tombstones import Tombstone

if TYPE_CHECKING:
    from afl.engine.model.store import StepDocument, WorkflowRow


class Ended(NamedTuple):
    """An ended workflow's place in the order of creation."""

    created_at_ms: int
    workflow_id: str


class Created(NamedTuple):
    """The place of a workflow that has not ended, in the order of creation."""

    created_at_ms: int
    workflow_id: str


class Entry(NamedTuple):
    """An entity as it was found under its key, or the reason why it cannot be read."""

    key: str
    entity: object | None
    error: Exception | None = None


class StepEntry(NamedTuple):
    """A step as it was found, or the reason why it cannot be read."""

    step_id: str
    document: StepDocument | None
    error: Exception | None = None


class OwnCheck(NamedTuple):
    """The faults that a store's database reports about itself, in its words, and the checks that it did not permit."""

    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Burial(NamedTuple):
    """A workflow's tombstone, in state `purging`, the revision of the row that it replaces, and its number of steps."""

    tombstone: Tombstone
    revision: int
    steps: int


class Upkeep(Protocol):
    """The interface for checking and purging a store in pages: `after` is the last item of the previous page.

    The store may be in use meanwhile: a page holds the rows at the time of its reading.
    """

    def workflow_ids(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have a row, in order."""

    def check_itself(self) -> OwnCheck:
        """Have the database check its own files. It reads all of them."""

    def orphans(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have steps, timers or a history, and no row, in order.

        A history of events alone that wait for their workflow to be started does not count.
        """

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        """Return all steps of a workflow, also unreadable ones, in order of creation as far as it is known."""

    def examine_step(self, step_id: str) -> StepEntry | None:
        """Return one step, or the reason why it cannot be read; None when it does not exist."""

    def examine(self, kind: type, *, after: str = "", limit: int = 1_000) -> list[Entry]:
        """Return the entities of a kind by their keys, also unreadable ones."""

    def ended_workflows(self, *, created_before_ms: int, after: Ended | None = None, limit: int = 1_000) -> list[Ended]:
        """Return workflows that have ended and were created before that time, in order of creation."""

    def unfinished_workflows(
        self, *, created_before_ms: int, after: Created | None = None, limit: int = 1_000
    ) -> list[Created]:
        """Return workflows that have not ended and were created before that time, in order of creation.

        It costs nothing for those that have ended, of which a store may have very many.
        """

    def load_workflows(self, workflow_ids: Sequence[str]) -> list[WorkflowRow]:
        """Return the rows of these workflows, in any order; unknown ones are left out."""

    def waiting_keys(self) -> set[bytes]:
        """Return the keys of the records that wait in the outbox."""

    def bury(self, burials: Sequence[Burial], *, limit: int) -> list[str]:
        """Replace the rows of workflows by their tombstones, in one transaction, and return their states.

        A workflow that is not at its revision any more is left as it is: its state is "". A store that can do so in the
        same transaction also deletes the workflows' other rows, as long as they have no more than `limit` together:
        those of which nothing is left are `purged`, the others `purging`.
        """

    def delete_rows(self, workflow_ids: Sequence[str], *, limit: int) -> int:
        """Delete up to `limit` rows of workflows without rows of their own; return how many.

        These are their steps, timers, histories, tasks, log entries, events and parked answers. Fewer than `limit`:
        nothing is left. Does nothing for a workflow that has a row. An interrupted call leaves the rest for the next.
        """

    def mark_purged(self, workflow_ids: Sequence[str]) -> None:
        """Set the tombstones of these workflows to state `purged`."""

    def give_back(self, *, limit: int) -> bool:
        """Give up to `limit` pages of free space back to the file system, if much is free; say whether there is more.

        A store whose database does that by itself returns False.
        """

    def tombstone(self, workflow_id: str) -> Tombstone | None:
        """Return the tombstone of a purged workflow; None when it was not purged, or the tombstone was deleted."""

    def tombstones(self, *, state: str, purged_before_ms: int | None = None, limit: int = 1_000) -> list[Tombstone]:
        """Return tombstones in a state; with `purged_before_ms`, those from before that time."""

    def save_tombstone(self, tombstone: Tombstone) -> None:
        """Insert or replace a tombstone."""

    def delete_tombstones(self, workflow_ids: Sequence[str]) -> int:
        """Delete tombstones, in one transaction; return how many there were."""
