"""The history of a workflow over its executions: external events, who waited for them, and how executions followed.

A workflow has rows here only for external events, waits for them, and executions that continued as new; the history of
an ordinary run is its steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from afl.engine.types import Value


class HistoryKind(StrEnum):
    """The kinds of rows. Values are stored, and named as the specification of external events names them."""

    #: An event was raised.
    EXTERNAL_EVENT = "ExternalEvent"
    #: A step began to wait for an event.
    EXTERNAL_SUBSCRIBED = "ExternalSubscribed"
    #: An execution has ended, and the workflow continued with the next one.
    CONTINUED_AS_NEW = "ContinuedAsNew"


class HistoryRow(NamedTuple):
    """One row. Its key is workflow and number.

    An external event that no wait has taken is `is_pending`. It is so until a wait takes it (`step_id`,
    `until_execution`), or it is dropped (`dropped`, `until_execution`).
    """

    workflow_id: str
    #: The order inside the workflow, from 0.
    number: int
    kind: HistoryKind
    #: The number of the execution in which it happened, from 1; it never changes when an event is carried.
    execution: int
    #: Milliseconds since the epoch.
    at_ms: int
    #: The name of the event that was raised, or is waited for; "" for other kinds.
    name: str = ""
    #: The id of the event, unique in its workflow; "" for other kinds.
    event_id: str = ""
    #: The data of the event. CONTINUED_AS_NEW: `inputs` of the next execution, `steps` of the one that has ended, and
    #: in `abandoned` ids of its steps whose events were unanswered.
    value: Value = None
    is_pending: bool = False
    #: The step that waits (ExternalSubscribed), or that has taken the event (ExternalEvent).
    step_id: str = ""
    #: The last execution whose history has this event: that in which it was taken or dropped; 0 while it is pending.
    until_execution: int = 0
    #: Why it was dropped; "" for one that was not.
    dropped: str = ""
    #: For an event that was raised before its workflow exists: when it is given up, ms since the epoch; else 0.
    expires_at_ms: int = 0

    @property
    def is_early(self) -> bool:
        """Whether it is an event that waits for its workflow to be started."""
        return self.is_pending and self.expires_at_ms > 0

    @property
    def last_execution(self) -> int:
        """Return the number of the last execution whose history has this row, as far as that is known."""
        return max(self.execution, self.until_execution)

    def is_of(self, execution: int) -> bool:
        """Say whether the history of an execution has this row: its own, or an event that was carried into it."""
        if self.execution == execution:
            return True
        is_earlier_event = self.kind == HistoryKind.EXTERNAL_EVENT and self.execution < execution
        return is_earlier_event and (self.until_execution == 0 or self.until_execution >= execution)


class EarlyWorkflow(NamedTuple):
    """A workflow id for which events were raised before there was a workflow."""

    workflow_id: str
    events: int
    #: When the first of them is given up, ms since the epoch.
    expires_at_ms: int
    #: How many bytes their data take in the store, about.
    size_bytes: int


class HistoryStore(Protocol):
    """The histories of a store. They are written with a batch."""

    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]:
        """Return rows with a number above `after`, in order; with `execution`, those that its history has.

        These are the rows of that execution, and the events of earlier ones that were carried into it.
        """

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        """Return the events that no wait has taken, by workflow, in order of their numbers. Others are left out."""

    def history_sizes(self, workflow_ids: Collection[str]) -> Mapping[str, int]:
        """Return the next number of each workflow's history: one more than its highest. Others are left out."""

    def known_events(self, events: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these events, each (workflow id, event id), the histories have."""

    def early_workflows(self, *, after: str = "", limit: int = 1_000) -> list[EarlyWorkflow]:
        """Return the workflow ids with pending events that have an expiry, in order of the ids."""
