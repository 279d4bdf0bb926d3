"""What checking and purging need of a store, besides what the engine needs: lists in pages, and rows that go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from afl.engine.model.tombstones import Tombstone

if TYPE_CHECKING:
    from afl.engine.model.store import StepDocument


class Ended(NamedTuple):
    """An ended workflow's place in the order of creation."""

    created_at_ms: int
    workflow_id: str


class Entry(NamedTuple):
    """An entity as it was found: under its key, or why it cannot be read."""

    key: str
    entity: object | None
    error: Exception | None = None


class StepEntry(NamedTuple):
    """The same of a step."""

    step_id: str
    document: StepDocument | None
    error: Exception | None = None


class OwnCheck(NamedTuple):
    """What the database that keeps a store says of itself, in its words; and what it did not let us ask."""

    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Upkeep(Protocol):
    """Whoever checks or purges a store goes through it in pages: `after` is the last of the page before.

    The store may be at work meanwhile: a page holds what is there when it is read.
    """

    def workflow_ids(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """The ids of workflows that have a row, in order."""

    def check_itself(self) -> OwnCheck:
        """Have the database check its own files. It reads all of them."""

    def orphans(self, *, limit: int = 1_000) -> list[str]:
        """The ids of workflows that have steps and no row, in order."""

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        """All steps of a workflow, those that cannot be read among them, in order of creation as far as it is known."""

    def examine_step(self, step_id: str) -> StepEntry | None:
        """One step, or why it cannot be read; None when it is not there."""

    def examine(self, kind: type, *, after: str = "", limit: int = 1_000) -> list[Entry]:
        """The entities of a kind by their keys, those that cannot be read among them."""

    def ended_workflows(self, *, created_before_ms: int, after: Ended | None = None, limit: int = 1_000) -> list[Ended]:
        """Workflows that have ended and were created before that time, in order of creation."""

    def bury(self, tombstone: Tombstone, revision: int) -> bool:
        """In one transaction: take the workflow's row away and put the tombstone in its place. False, and nothing is
        written, when the workflow is not at that revision any more.
        """

    def delete_rows(self, workflow_id: str, *, limit: int) -> int:
        """Delete up to `limit` of the steps, tasks, log entries, events and parked answers of a workflow without a
        row, in one transaction; return how many. Fewer than `limit`: nothing is left. Nothing happens to a workflow
        that has a row.
        """

    def tombstone(self, workflow_id: str) -> Tombstone | None:
        """What is left of a purged workflow; None when it was not purged, or that is forgotten."""

    def tombstones(self, *, state: str, purged_before_ms: int | None = None, limit: int = 1_000) -> list[Tombstone]:
        """Tombstones in a state; with `purged_before_ms`, those from before that time."""

    def save_tombstone(self, tombstone: Tombstone) -> None:
        """Insert or replace a tombstone."""

    def delete_tombstone(self, workflow_id: str) -> bool:
        """Forget that a workflow was purged; False when there is no tombstone."""
