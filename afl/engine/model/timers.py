"""Timers of waiting steps, and a store's list of them. A timer is written, and deleted, with its workflow's commit."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol


class TimerKind(StrEnum):
    """What a timer does when it is due. Values are stored: never change one."""

    #: The step has waited as long as it was to: it continues.
    SLEEP = "sleep"
    #: The wait for an external event is over: the step continues with `timed_out`.
    WAIT = "wait"
    #: The event of the step has no answer in time: the attempt fails with error type `Timeout`.
    DEADLINE = "deadline"
    #: The pause after a failed attempt is over: the step sends its next event.
    RETRY = "retry"


class TimerRow(NamedTuple):
    """A step's timer. A step has one at most: a later one takes the place of an earlier one."""

    step_id: str
    workflow_id: str
    kind: TimerKind
    #: Milliseconds since the epoch.
    due_at_ms: int


class TimerStore(Protocol):
    """The timers of a store. They are written with a batch: `Batch.timers`, `Batch.timers_done`."""

    def timers_due(self, now_ms: int, *, after: TimerRow | None = None, limit: int = 1_000) -> list[TimerRow]:
        """Return the timers that are due, in order of time and step id; with `after` those behind it in that order."""

    def next_timer_ms(self) -> int | None:
        """Return when the first timer of all is due; None when there is none. Costs the same however many there are."""

    def timers_of(self, workflow_id: str) -> list[TimerRow]:
        """Return the timers of a workflow, in order of time and step id."""
