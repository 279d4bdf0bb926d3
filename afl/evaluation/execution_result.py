"""The result of a call of `execute` or `resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, overload

from afl.engine.operations.unanswered import WaitingStep, waiting_steps
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

    PAUSED is a success: the workflow waits for answers, which `pending_events` lists, or for what `waits` lists:
    external events, times, and next attempts. `error` is the first cause when
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
    waits: Sequence[WaitingStep] = field(default_factory=list)


_T = TypeVar("_T")


class _ReadLate(Sequence[_T]):
    """A sequence that is read from the store on first use."""

    def __init__(self, read: Callable[[], Sequence[_T]]) -> None:
        self._read = read
        self._items: list[_T] | None = None

    def _all(self) -> list[_T]:
        if self._items is None:
            self._items = list(self._read())
        return self._items

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[_T]:
        return iter(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class PendingEvents(_ReadLate[EventDefinition]):
    """The unanswered events of a paused workflow, read from the store on first use."""

    def __init__(self, store: EngineStore, workflow_id: str) -> None:
        super().__init__(partial(store.get_waiting_events, workflow_id))


class RunWaits(_ReadLate[WaitingStep]):
    """The steps of a paused workflow that wait for the runtime, not for an agent; read from the store on first use."""

    def __init__(self, store: EngineStore, workflow_id: str) -> None:
        super().__init__(lambda: [step for step in waiting_steps(store, workflow_id) if step.asks_nobody])
