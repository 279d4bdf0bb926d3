"""Counts of what happened to external events, for statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Happened(StrEnum):
    """What happens to an external event."""

    #: It was read from its topic. One of the next six happens then.
    RAISED = "raised"
    #: A step was waiting for it.
    TAKEN = "taken"
    #: It waits for a step.
    QUEUED = "queued"
    #: It waits for its workflow to be started.
    EARLY = "early"
    #: Its workflow had ended: it is kept, and nothing takes it.
    AFTER_END = "after_end"
    #: An event of this id was there already.
    DUPLICATE = "duplicate"
    #: It is not kept: a dead letter. This also happens to events that were kept for some time.
    DROPPED = "dropped"
    #: The workflow that an early one waited for exists now.
    ADOPTED = "adopted"


@dataclass(slots=True)
class EventCounts:
    """Counts of one unit of work, or of an evaluator since its start."""

    happened: Counter[str] = field(default_factory=Counter)
    #: Dropped events by the class of their error: TooManyPendingEvents, EventExpired, ...
    dropped: Counter[str] = field(default_factory=Counter)
    #: Executions that continued as new.
    continued: int = 0

    def drop(self, reason: str) -> None:
        """Count a dropped event."""
        self.happened[Happened.DROPPED] += 1
        self.dropped[reason] += 1

    def add(self, other: EventCounts) -> None:
        """Add the counts of a unit that is committed."""
        self.happened.update(other.happened)
        self.dropped.update(other.dropped)
        self.continued += other.continued

    def shown(self) -> EventStats:
        """Return a snapshot. Any thread may call this."""
        happened = self.happened.copy()
        return EventStats(
            happened={str(kind): happened[kind] for kind in Happened if happened[kind]},
            dropped=dict(self.dropped.copy()),
            continued=self.continued,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStats:
    """External events since an evaluator started."""

    #: How many were raised, taken, queued, ... (`Happened`).
    happened: Mapping[str, int] = field(default_factory=dict)
    #: How many were dropped, by the class of the error that says why.
    dropped: Mapping[str, int] = field(default_factory=dict)
    #: Executions that continued as new.
    continued: int = 0
