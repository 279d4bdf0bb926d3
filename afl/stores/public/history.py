"""The history of a workflow over its executions, for users: external events, waits for them, and continuing as new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, cast

from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import WorkflowRow
from afl.engine.types import Value

#: The status of an execution that ended because its workflow continued with the next one.
CONTINUED_AS_NEW: Final = "CONTINUED_AS_NEW"

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEvent:
    """An event that was raised for the workflow."""

    name: str
    data: Value
    #: Its sender's id of it, or the place and time of its record in the log; "" for one without id.
    id: str
    #: The number of the execution in which it was raised, from 1; it stays when the event is carried into others.
    execution: int
    #: When it was raised, in milliseconds since the epoch.
    at_ms: int
    #: The step that has taken it; "" while none has.
    taken_by: str = ""
    #: The number of the execution in which it was taken or dropped; 0 while it is pending.
    until_execution: int = 0
    #: Why it was dropped; "" for one that was not.
    dropped: str = ""
    #: Whether a step may still take it.
    is_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSubscribed:
    """A step began to wait for an event."""

    name: str
    #: The id of the step.
    step: str
    execution: int
    #: In milliseconds since the epoch.
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedAsNew:
    """An execution ended, and the workflow continued with the next one."""

    #: The number of the execution that ended.
    execution: int
    #: In milliseconds since the epoch.
    at_ms: int
    #: The inputs of the next execution.
    inputs: Mapping[str, Value] = field(default_factory=dict)
    #: The number of steps that the execution had made.
    steps: int = 0
    #: The ids of those whose events were unanswered: 1,000 of them at most.
    abandoned: tuple[str, ...] = ()


HistoryEntry: TypeAlias = ExternalEvent | ExternalSubscribed | ContinuedAsNew


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowExecution:
    """One execution of a workflow. What is no longer known of it is None."""

    #: From 1. An execution that an operator has reset, under the same inputs, has the last of its numbers.
    number: int
    #: CONTINUED_AS_NEW, or the status of the workflow.
    status: str
    #: In milliseconds since the epoch, as `ended_at_ms`, which is None while it runs.
    started_at_ms: int | None
    ended_at_ms: int | None
    inputs: Mapping[str, Value] | None
    #: The number of steps that it has made.
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowHistory:
    """The executions of a workflow of which something is known, the oldest first, and the entries in their order."""

    workflow_id: str
    executions: tuple[WorkflowExecution, ...] = ()
    events: tuple[HistoryEntry, ...] = ()


class HistorySource(Protocol):
    """The part of a store that a history is read from."""

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...
    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]: ...


class PublicHistory(ABC):
    """The part of a store's face for users that reads histories."""

    @abstractmethod
    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    @abstractmethod
    def history(
        self, workflow_id: str, *, execution: int | None = None, after: int = -1, limit: int = 1_000
    ) -> list[HistoryRow]: ...

    def get_history(self, workflow_id: str, execution: int | None = None) -> WorkflowHistory:
        """Return the history of a workflow, or of one of its executions; an empty one for an unknown workflow.

        The history of an execution has the events that were raised in it, and those that were carried into it, under
        the number of the execution in which they were raised.
        """
        return history_of(self, workflow_id, execution)


def history_of(store: HistorySource, workflow_id: str, execution: int | None = None) -> WorkflowHistory:
    """Return the history of a workflow, or of one of its executions, as `PublicHistory.get_history` does."""
    # The row first: an execution that continues as new in between is then in the rows, and the row is the older one.
    row = store.load_workflow(workflow_id)
    ends: list[HistoryRow] = []
    entries: list[HistoryEntry] = []
    for found in history_rows(store, workflow_id):
        if found.kind == HistoryKind.CONTINUED_AS_NEW:
            ends.append(found)
        if execution is None or found.is_of(execution):
            entries.append(_entry(found))
    executions = _executions(row, ends)
    return WorkflowHistory(
        workflow_id=workflow_id,
        executions=tuple(one for one in executions if execution in (None, one.number)),
        events=tuple(entries),
    )


def history_rows(store: HistorySource, workflow_id: str, execution: int | None = None) -> Iterator[HistoryRow]:
    """Return all rows of a history, or those of one execution, as `Store.history` does, in pages."""
    after = -1
    while page := store.history(workflow_id, execution=execution, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def _entry(row: HistoryRow) -> HistoryEntry:
    match row.kind:
        case HistoryKind.EXTERNAL_EVENT:
            return ExternalEvent(
                name=row.name,
                data=row.value,
                id=row.event_id,
                execution=row.execution,
                at_ms=row.at_ms,
                taken_by=row.step_id,
                until_execution=row.until_execution,
                dropped=row.dropped,
                is_pending=row.is_pending,
            )
        case HistoryKind.EXTERNAL_SUBSCRIBED:
            return ExternalSubscribed(name=row.name, step=row.step_id, execution=row.execution, at_ms=row.at_ms)
        case HistoryKind.CONTINUED_AS_NEW:
            told = _told(row)
            return ContinuedAsNew(
                execution=row.execution,
                at_ms=row.at_ms,
                inputs=told.get("inputs") or {},
                steps=told.get("steps") or 0,
                abandoned=tuple(told.get("abandoned") or ()),
            )


def _told(row: HistoryRow) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], row.value) if isinstance(row.value, Mapping) else {}


def _executions(row: WorkflowRow | None, ends: Sequence[HistoryRow]) -> list[WorkflowExecution]:
    """Return the executions that ended by continuing as new, and the present one."""
    executions: list[WorkflowExecution] = []
    started_at_ms: int | None = None
    inputs: Mapping[str, Value] | None = None
    if row is not None and (not ends or ends[0].execution == 1):
        started_at_ms = row.created_at_ms
    for end in ends:
        told = _told(end)
        executions.append(
            WorkflowExecution(
                number=end.execution,
                status=CONTINUED_AS_NEW,
                started_at_ms=started_at_ms,
                ended_at_ms=end.at_ms,
                inputs=inputs,
                steps=told.get("steps"),
            )
        )
        started_at_ms, inputs = end.at_ms, told.get("inputs")
    if row is not None and (not ends or row.execution_number > ends[-1].execution):
        executions.append(
            WorkflowExecution(
                number=row.execution_number,
                status=row.status,
                started_at_ms=started_at_ms,
                ended_at_ms=row.ended_at_ms or None,
                inputs=row.inputs,
                steps=row.steps,
            )
        )
    return executions
