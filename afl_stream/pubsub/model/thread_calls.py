"""Calls of functions in threads, whose exceptions come back as they were raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a call in a thread gave.

    An exception is carried as a value: a future would turn some classes of exceptions into others, and never ends on
    StopIteration.
    """

    returned: Any
    error: BaseException | None

    def result(self) -> Any:
        """Return what was returned, or raise what was raised."""
        if self.error is not None:
            raise self.error
        return self.returned


def outcome_of(function: Callable[..., object], *arguments: object) -> Outcome:
    """Call a function, and return what it gave."""
    try:
        return Outcome(function(*arguments), None)
    except BaseException as error:  # noqa: BLE001 - raised where it is awaited
        return Outcome(None, error)


async def call_in_own_thread(name: str, function: Callable[[], object]) -> Any:
    """Call a function in a thread of its own, with a copy of the context variables; return or raise what it gave.

    A thread that is not awaited any more goes on, and nothing waits for it: neither the event loop's end, which waits
    for the threads of `asyncio.to_thread`, nor the end of the process.
    """
    outcome: Future[Outcome] = Future()
    # So that cancelling the one who waits leaves it to the thread.
    outcome.set_running_or_notify_cancel()
    variables = copy_context()

    def run() -> None:
        outcome.set_result(variables.run(outcome_of, function))

    Thread(target=run, name=name, daemon=True).start()
    return (await asyncio.wrap_future(outcome)).result()
