"""What the store knows of the external events of one unit of work, asked once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from afl.engine.errors import VersionMismatchError
from afl.engine.model.store import HistoryRow
from afl.engine.model.tombstones import Tombstone
from afl_stream.evaluator.refusals import REFUSALS

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork


class KnownEvents:
    """Tells repeated events from new ones, and finds those that wait for the workflows that this unit starts.

    The answer "not known" holds until the commit: the workflow was read before the question, so a writer that raises
    the same event in between changes the workflow's revision, which refuses this unit's commit. Where there is no
    workflow, the next number of its history was read before, and such a writer has used it.
    """

    def __init__(self, context: EvaluatorContext, unit: UnitOfWork) -> None:
        self._context = context
        self._unit = unit
        #: Events of this unit's records that are not looked up yet, and those that were.
        self._noted: set[tuple[str, str]] = set()
        self._asked: set[tuple[str, str]] = set()
        self._known: set[tuple[str, str]] = set()
        #: The revisions of the workflows at the last look.
        self._revisions: dict[str, int] = {}
        #: The next numbers of histories without a workflow, as stored, and as this unit continues them.
        self._stored: dict[str, int] = {}
        self._next_numbers: dict[str, int] = {}
        self._starts: set[str] = set()
        self._waiting: dict[str, list[HistoryRow]] | None = None
        self._tombstones: dict[str, Tombstone | None] = {}

    def note(self, workflow_id: str, event_id: str) -> None:
        """Note an event that is about to be applied: it is looked up with the others."""
        self._noted.add((workflow_id, event_id))

    def note_start(self, workflow_id: str) -> None:
        """Note a workflow that is about to be started."""
        self._starts.add(workflow_id)

    def has(self, workflow_id: str, event_id: str) -> bool:
        """Return whether the workflow's history has this event, or this unit writes it."""
        event = (workflow_id, event_id)
        if event not in self._asked or self._revision(workflow_id) != self._revisions.get(workflow_id):
            self._noted.add(event)
            self._look_up()
        return event in self._known

    def add(self, workflow_id: str, event_id: str) -> None:
        """Note that this unit writes the event."""
        self._known.add((workflow_id, event_id))

    def number(self, workflow_id: str) -> int:
        """Return the number of a new row of the history of a workflow that does not exist."""
        number = self._next_numbers[workflow_id]
        self._next_numbers[workflow_id] = number + 1
        return number

    def count(self, workflow_id: str, most: int) -> int:
        """Return how many events of a workflow that does not exist the store has; less than `most` is an upper bound.

        Only where the bound is reached are they read: numbers of those that have expired count in it, too.
        """
        if self._next_numbers[workflow_id] < most:
            return self._stored[workflow_id]
        return len(self._context.store.pending_events((workflow_id,)).get(workflow_id, ()))

    def waiting_for(self, workflow_id: str) -> Sequence[HistoryRow]:
        """Return the stored events that wait for a workflow which this unit starts; asked once for all starts."""
        if self._waiting is None or workflow_id not in self._starts:
            self._starts.add(workflow_id)
            self._waiting = self._context.store.pending_events(self._starts)
        return self._waiting.get(workflow_id, ())

    def tombstone(self, workflow_id: str) -> Tombstone | None:
        """Return what is left of a purged workflow."""
        if workflow_id not in self._tombstones:
            self._tombstones[workflow_id] = self._context.store.tombstone(workflow_id)
        return self._tombstones[workflow_id]

    def _look_up(self) -> None:
        noted, self._noted = self._noted, set()
        # In this order: see the class.
        for workflow_id in {workflow_id for workflow_id, _ in noted}:
            self._revisions[workflow_id] = self._revision(workflow_id)
        absent = [w for w, revision in self._revisions.items() if not revision and w not in self._next_numbers]
        if absent:
            sizes = self._context.store.history_sizes(absent)
            self._stored.update({workflow_id: sizes.get(workflow_id, 0) for workflow_id in absent})
            self._next_numbers = {**self._stored, **self._next_numbers}
        self._known |= self._context.store.known_events(noted)
        self._asked |= noted

    def _revision(self, workflow_id: str) -> int:
        """Return the revision of the workflow as this unit has it; 0 where there is none, or it cannot be read."""
        try:
            execution = self._unit.execution(workflow_id)
        except (*REFUSALS, VersionMismatchError):
            return 0  # Raised again when the event's turn comes.
        return 0 if execution is None else execution.revision
