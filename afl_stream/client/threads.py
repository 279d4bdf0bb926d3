"""A thread of its own for calls that may block, awaited on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """What is closed after use, by a call that may block."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class CallThread:
    """One thread, which makes the calls that are awaited, one after another in the order of their coming."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def begin(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Have the thread make a call, with a copy of the context variables, and return what it will give."""
        call = partial(copy_context().run, partial(function, *args, **kwargs))
        return asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call, and return or raise what it gives.

        A call whose awaiting is cancelled before the thread has come to it is never made; one that is at work ends,
        and what it gives is dropped.
        """
        return await self.begin(function, *args, **kwargs)

    def end(self) -> None:
        """Take no more calls; the thread ends after those that were begun."""
        self._executor.shutdown(wait=False)


async def opened_in_thread(name: str, make: Callable[[], C]) -> tuple[C, CallThread]:
    """Make something in a thread of its own, and return it with the thread. Raises what `make` raises.

    What is made although nobody awaits it any more is closed by its thread.
    """
    thread = CallThread(name)
    making = thread.begin(make)
    try:
        return await asyncio.shield(making), thread
    except BaseException:
        making.add_done_callback(lambda made: _close_made(made, thread))
        raise


def _close_made(made: asyncio.Future[C], thread: CallThread) -> None:
    if not made.cancelled() and made.exception() is None:
        thread.begin(made.result().close)
    thread.end()
