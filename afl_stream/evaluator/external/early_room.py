"""The room that is left for external events whose workflows do not exist yet."""

from __future__ import annotations

from typing import NamedTuple

from afl.core.clock import MonotonicClock, monotonic_s
from afl.engine.model.store import HistoryStore
from afl_stream.event_errors import TooManyEarlyEvents
from afl_stream.limits import MAX_PENDING_EVENT_BYTES
from afl_stream.settings.sections import EvaluatorSettings

#: How long a count of all early events holds. It reads an entry of each of them.
_COUNT_HOLDS_S = 30.0
_IDS_ASKED = 10_000
_EVENT_BYTES = "bytes of events"


class _Usage(NamedTuple):
    """An amount of early events."""

    events: int = 0
    size_bytes: int = 0

    def and_of(self, other: _Usage) -> _Usage:
        return _Usage(self.events + other.events, self.size_bytes + other.size_bytes)

    def without(self, other: _Usage) -> _Usage:
        return _Usage(self.events - other.events, self.size_bytes - other.size_bytes)


_NOTHING = _Usage()


class EarlyRoom:
    """Decides whether one more early event may be kept. Belongs to the loop's thread.

    The store's content is counted from time to time, and this evaluator's own events are added; so with several
    evaluators the whole may exceed its limit by what the others keep between two counts.
    """

    def __init__(
        self, store: HistoryStore, settings: EvaluatorSettings, monotonic_s: MonotonicClock = monotonic_s
    ) -> None:
        self._store = store
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._all: _Usage | None = None
        #: The bytes of each workflow's events at the last count, and since.
        self._bytes_of: dict[str, int] = {}
        self._counted_s = 0.0

    def check(self, workflow_id: str, name: str, size_bytes: int, stored: int, claim: EarlyClaim) -> None:
        """Raise TooManyEarlyEvents when there is no room for an event of this size beside those of the claim.

        `stored`: how many the store has for the workflow.
        """
        settings, whole = self._settings, self._count().and_of(claim.all)
        own = claim.workflows.get(workflow_id, _NOTHING)
        found, limit = stored + own.events, settings.max_pending_events
        if found >= limit:
            setting = "evaluator.max_pending_events"
            raise TooManyEarlyEvents(workflow_id, name, found, limit, setting, "for it")
        found, limit = self._bytes_of.get(workflow_id, 0) + own.size_bytes, MAX_PENDING_EVENT_BYTES
        if found + size_bytes > limit:
            setting = "MAX_PENDING_EVENT_BYTES"
            raise TooManyEarlyEvents(workflow_id, name, found, limit, setting, "for it", _EVENT_BYTES)
        where = "for workflows to be started"
        if whole.events >= settings.max_early_events:
            setting, limit = "evaluator.max_early_events", settings.max_early_events
            raise TooManyEarlyEvents(workflow_id, name, whole.events, limit, setting, where)
        if whole.size_bytes + size_bytes > settings.max_early_bytes:
            setting, limit = "evaluator.max_early_bytes", settings.max_early_bytes
            raise TooManyEarlyEvents(workflow_id, name, whole.size_bytes, limit, setting, where, _EVENT_BYTES)

    def add(self, claim: EarlyClaim) -> None:
        """Note that the events of the claim are in the store, and those that it adopted are not early any more."""
        if self._all is None:
            return
        self._all = self._all.and_of(claim.all).without(claim.adopted)
        for workflow_id, usage in claim.workflows.items():
            self._bytes_of[workflow_id] = self._bytes_of.get(workflow_id, 0) + usage.size_bytes

    def stored_bytes(self, workflow_id: str) -> int:
        """Return the bytes of a workflow's events, as far as they were counted."""
        return self._bytes_of.get(workflow_id, 0)

    def forget(self) -> None:
        """Count again at the next question, because events were adopted or have expired."""
        self._all = None

    def _count(self) -> _Usage:
        now_s = self._monotonic_s()
        if self._all is None or now_s - self._counted_s > _COUNT_HOLDS_S:
            self._counted_s, self._all, after = now_s, _NOTHING, ""
            self._bytes_of.clear()
            while page := self._store.early_workflows(after=after, limit=_IDS_ASKED):
                for early in page:
                    self._all = self._all.and_of(_Usage(early.events, early.size_bytes))
                    self._bytes_of[early.workflow_id] = early.size_bytes
                after = page[-1].workflow_id
        return self._all


class EarlyClaim:
    """The room that one unit of work takes. It counts for others when the unit is committed."""

    def __init__(self, room: EarlyRoom) -> None:
        self._room = room
        self.workflows: dict[str, _Usage] = {}
        self.all = self.adopted = _NOTHING

    def take(self, workflow_id: str, name: str, size_bytes: int, stored: int) -> None:
        """Take room for an event. Raises TooManyEarlyEvents when there is none."""
        self._room.check(workflow_id, name, size_bytes, stored, self)
        event = _Usage(1, size_bytes)
        self.workflows[workflow_id] = self.workflows.get(workflow_id, _NOTHING).and_of(event)
        self.all = self.all.and_of(event)

    def adopt(self, workflow_id: str, stored: int) -> None:
        """Give back the room of a workflow's events, of which the store has so many: the unit starts it."""
        self.all = self.all.without(self.workflows.pop(workflow_id, _NOTHING))
        self.adopted = self.adopted.and_of(_Usage(stored, self._room.stored_bytes(workflow_id)))

    def committed(self) -> None:
        """Note that the unit is in the store."""
        self._room.add(self)
