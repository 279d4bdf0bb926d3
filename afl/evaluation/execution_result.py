"""The result of a call of `execute` or `resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import overload

from afl.engine.types import Value
from afl.stores.public.persistence import EngineStore, EventDefinition


class ExecutionStatus:
    """The status after a call."""

    COMPLETED = "COMPLETED"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


@dataclass
class ExecutionResult:
    """The result of a call of `execute` or `resume`.

    PAUSED is a success: the workflow waits for answers, which `pending_events` lists. `error` is the first cause when
    the status is ERROR, and names the limit when it is TIMEOUT. `iterations` includes the last one, in which nothing
    moved.
    """

    success: bool
    workflow_id: str
    outputs: dict[str, Value] = field(default_factory=dict)
    error: Exception | None = None
    iterations: int = 0
    status: str = ExecutionStatus.COMPLETED
    pending_events: Sequence[EventDefinition] = field(default_factory=list)


class PendingEvents(Sequence[EventDefinition]):
    """The unanswered events of a paused workflow, read from the store on first use."""

    def __init__(self, store: EngineStore, workflow_id: str) -> None:
        self._read: Callable[[], Sequence[EventDefinition]] = partial(store.get_waiting_events, workflow_id)
        self._events: list[EventDefinition] | None = None

    def _all(self) -> list[EventDefinition]:
        if self._events is None:
            self._events = list(self._read())
        return self._events

    @overload
    def __getitem__(self, index: int) -> EventDefinition: ...
    @overload
    def __getitem__(self, index: slice) -> list[EventDefinition]: ...
    def __getitem__(self, index: int | slice) -> EventDefinition | list[EventDefinition]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[EventDefinition]:
        return iter(self._all())

    def __repr__(self) -> str:
        return repr(self._all())
