"""Schedules as a store keeps them: what each one says is its owner's business, when it is next due the store's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from afl.engine.types import Value


class ScheduleRow(NamedTuple):
    """One schedule."""

    id: str
    #: Increased by each change; 1 after the first.
    revision: int
    #: When it is next looked at, ms since the epoch; None: never (paused, or at its end).
    next_at_ms: int | None
    #: What it does, and what it has done: AFL values.
    document: Mapping[str, Value]


class ScheduleChange(NamedTuple):
    """A change of a schedule by compare-and-set. A batch with one that is not at its revision is refused."""

    id: str
    #: The revision from which this was computed; 0: there is none yet.
    expected_revision: int
    #: The row, of revision `expected_revision` + 1; None: it is deleted.
    row: ScheduleRow | None


class ScheduleStore(Protocol):
    """The schedules of a store. They are written with a batch: `Batch.schedules`."""

    def schedule(self, schedule_id: str) -> ScheduleRow | None: ...

    def schedules(self, *, after: str = "", limit: int = 1_000) -> list[ScheduleRow]:
        """Return schedules in order of their ids, behind `after`."""

    def schedules_due(self, now_ms: int, *, limit: int = 1_000) -> list[ScheduleRow]:
        """Return those whose time has come, in order of time and id."""

    def next_schedule_ms(self) -> int | None:
        """Return when the first is due; None when none will be."""
