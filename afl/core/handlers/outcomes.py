"""One call of a handler, and what becomes of it: it returns, it raises, or its time is up. And calls in a row."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from afl.core.errors import AFLError
from afl.core.handlers.calling import Handler
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback

#: The `error.type` of a step whose handler did not end in its time.
TIMEOUT: Final = "Timeout"

#: A handler that takes longer than this on average is worth a thread's turn of its own.
QUICK_S: Final = 0.000_5
#: A single run that takes longer than this makes a quick handler a slow one.
SLOW_S: Final = 0.005
#: Runs in a row that none of was slow, before a handler counts as quick: first ones, and again after each slow one.
LEARNING_RUNS: Final = 20


class PutBack(AFLError):
    """A handler that raises this gives its event back unhandled: it is handled again, and no try is counted.

    For handlers that only hold an event for somebody else, and cannot hold it any longer. Agents follow it; elsewhere
    it is an exception as any other.
    """

    def __init__(self) -> None:
        super().__init__("the event is given back: it was not handled here")


class PlainFailure(AFLError):
    """A failure of our own handlers whose text says all: no log has its traceback."""


class HandlerTimeout(AFLError, TimeoutError):
    """A handler did not end in its time."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the handler did not end within {timeout_s:g} s")


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler came to its end."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised."""

    error: BaseException

    def logged(self, hide: Callable[[str], str] | None = None) -> str:
        """Return what a log has of the error: a traceback, or the text that says all. `hide` as in `exception_text`."""
        # By its type alone: what a handler has raised may say anything of its class, or end the process when asked.
        if issubclass(type(self.error), PlainFailure):
            return f"{exception_class(self.error)}: {exception_text(self.error, hide)}"
        return exception_traceback(self.error, hide)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The handler's time was up; what it does from now on is ignored."""

    timeout_s: float

    @property
    def error(self) -> HandlerTimeout:
        """The time-out as an error: a retry policy is asked about it, and the step's failure has its text."""
        return HandlerTimeout(self.timeout_s)


@dataclass(frozen=True, slots=True)
class NotRun:
    """The handler was not called, and will not be."""


Outcome: TypeAlias = Returned | Raised | TimedOut | NotRun


class RunTimeEstimate:
    """The duration of one handler's runs, by the latest of them. Unknown before the first."""

    __slots__ = ("mean_s", "quick_runs")

    def __init__(self) -> None:
        self.mean_s = float("inf")
        #: Runs in a row, up to the latest, none of which took longer than SLOW_S.
        self.quick_runs = 0

    def note(self, duration_s: float) -> None:
        """Take in the duration of another run."""
        mean_s = self.mean_s
        self.mean_s = duration_s if mean_s == float("inf") else mean_s + (duration_s - mean_s) / 8
        self.quick_runs = self.quick_runs + 1 if duration_s <= SLOW_S else 0

    @property
    def is_quick(self) -> bool:
        """Return whether the handler is known to be quick: by enough runs in a row, and by their mean."""
        return self.quick_runs >= LEARNING_RUNS and self.mean_s <= QUICK_S


class Call:
    """One run of a handler. The first to claim it - its end or its time - says what became of it."""

    __slots__ = (
        "_on_outcome",
        "_unclaimed",
        "arguments",
        "batch",
        "cancel",
        "deadline",
        "facet",
        "handler",
        "is_async",
        "run_time",
        "timeout_s",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        arguments: tuple[object, ...],
        *,
        is_async: bool,
        timeout_s: float | None,
        on_outcome: Callable[[Outcome], None],
        run_time: RunTimeEstimate | None = None,
        facet: str = "",
    ) -> None:
        self.handler = handler
        self.facet = facet
        self.arguments = arguments
        self.is_async = is_async
        self.timeout_s = timeout_s
        self.run_time = run_time
        self.batch: HandlerBatch | None = None
        self.deadline = float("inf")
        self.cancel: Callable[[], object] | None = None
        self._on_outcome = on_outcome
        self._unclaimed = [True]

    @property
    def is_over(self) -> bool:
        return not self._unclaimed

    def claim(self) -> bool:
        """Say whether the caller is the first."""
        try:
            # Of two threads, one finds the list empty.
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def tell(self, outcome: Outcome) -> None:
        self._on_outcome(outcome)


class HandlerBatch:
    """Calls that run one after the other in one slot: handing each quick one to a thread costs more than it does."""

    __slots__ = ("began_s", "calls", "is_forsaken", "on_end", "secluded")

    def __init__(self, *calls: Call, secluded: bool = False, on_end: Callable[[], None] | None = None) -> None:
        """`on_end` is called when all calls have their outcome; None: they have a slot, which is released."""
        self.calls = deque(calls)
        self.secluded = secluded
        self.on_end = on_end
        self.began_s = float("inf")
        #: Its thread was replaced: what is left of the calls is another batch's.
        self.is_forsaken = False

    def next(self) -> Call | None:
        """Take the next call out. Any thread may; each call goes to one."""
        try:
            return self.calls.popleft()
        except IndexError:
            return None


async def outcome_of(value: Awaitable[object]) -> Outcome:
    """Await; what is raised is returned.

    A task that raises SystemExit or KeyboardInterrupt ends its event loop, and with it all other handlers there.
    """
    try:
        return Returned(await value)
    except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
        return Raised(error)


async def outcome_within(value: Awaitable[object], timeout_s: float | None) -> Outcome:
    """Await for so long at most; None: as long as it takes. What is late is cancelled, and not waited for."""
    if timeout_s is None:
        return await outcome_of(value)
    task = asyncio.ensure_future(outcome_of(value))
    done, _ = await asyncio.wait([task], timeout=timeout_s)
    if not done:
        task.cancel()
        return TimedOut(timeout_s)
    return task.result()
