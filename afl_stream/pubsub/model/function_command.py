"""Functions as commands: plain ones, coroutines, generators and asynchronous generators."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final

from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.thread_calls import Outcome, outcome_of

log = logging.getLogger(__name__)

_END: Final = object()


class FunctionCommand:
    """A function as a command: it gets the context and the events.

    What it returns is published as one event, None as none; what a generator or another iterator yields is published
    one by one, and the next item is asked for when there is room for it. The items are values of JSON, which is checked
    where they are published.

    Coroutine functions and asynchronous generators run on the event loop. Every other function runs in a thread, so
    that it may take its time, with a copy of the caller's context variables; a generator runs in one thread from its
    first item to its last. A function may also return an awaitable or an asynchronous generator: the event loop goes on
    with it. A thread cannot be interrupted: after a cancellation a function runs to its end, and a generator to its
    next item, where it is closed.
    """

    oi_span_type = OpenInferenceSpanKindValues.CHAIN

    def __init__(self, function: Callable[[InvokeContext, Sequence[ConsumeFromTopicEvent]], object]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"FunctionCommand({self.name})"

    @property
    def name(self) -> str:
        """The function's name for people."""
        function = _without_partials(self.function)
        return str(getattr(function, "__qualname__", type(function).__qualname__))

    async def invoke(
        self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]
    ) -> AsyncGenerator[object, None]:
        """Run the function, and yield what it gives."""
        given = await self._called(context, events)
        if inspect.isawaitable(given):
            given = await given
        if isinstance(given, AsyncIterator):
            given = given if isinstance(given, AsyncGenerator) else _generated(given)
            # Closed here, not when it is collected: what it holds is let go with this invocation.
            async with aclosing(given) as items:
                async for item in items:
                    yield item
        elif isinstance(given, Iterator):
            async with aclosing(_iterated_in_thread(given)) as items:
                async for item in items:
                    yield item
        elif given is not None:
            yield given

    async def _called(self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        """Return what the function returns: called here when that runs nothing that blocks, else in a thread."""
        if _runs_later(self.function):
            return self.function(context, events)
        return (await asyncio.to_thread(outcome_of, self.function, context, events)).result()


def command_of(given: object) -> Command | None:
    """Return a command as it is, and a function as a command; None for what is neither."""
    if isinstance(given, type):
        return None
    if isinstance(given, Command):
        return given
    return FunctionCommand(given) if callable(given) else None


def call_fault(command: Command) -> str | None:
    """Return why a function cannot be called with a context and events; None when it can, or is no function."""
    if not isinstance(command, FunctionCommand):
        return None
    try:
        signature = inspect.signature(command.function)
    except (TypeError, ValueError):  # Some functions in C do not tell their parameters.
        return None
    try:
        signature.bind(None, None)
    except TypeError:
        return f"its function is {command.name}{signature}; it is called with two arguments, the context and the events"
    return None


def _without_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _runs_later(function: object) -> bool:
    """Return whether a call runs nothing of the function yet: it returns a coroutine or a generator."""
    function = _without_partials(function)
    return any(
        tells(called)
        for called in (function, getattr(function, "__call__", None))  # noqa: B004  # The method itself is wanted.
        for tells in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    )


async def _generated(items: AsyncIterator[object]) -> AsyncGenerator[object, None]:
    async for item in items:
        yield item


async def _iterated_in_thread(items: Iterator[object]) -> AsyncGenerator[object, None]:
    """Yield the items of an iterator that may block: all of it runs in one thread, and no item before it is wanted."""
    loop, variables = asyncio.get_running_loop(), copy_context()
    thread = ThreadPoolExecutor(1, "node-function")
    is_ended = False
    try:
        while True:
            item = (await loop.run_in_executor(thread, variables.run, outcome_of, next, items, _END)).result()
            if item is _END:
                is_ended = True
                return
            yield item
    finally:
        if not is_ended:
            _close_in(thread, variables, items)
        # The thread ends behind what it is at; nobody waits for that.
        thread.shutdown(wait=False)


def _close_in(thread: ThreadPoolExecutor, variables: Context, items: Iterator[object]) -> None:
    """Close a generator in its thread, when the item that it is at is there."""
    close = getattr(items, "close", None)
    if close is not None:
        thread.submit(variables.run, outcome_of, close).add_done_callback(_log_failure)


def _log_failure(closed: Future[Outcome]) -> None:
    error = closed.result().error
    if error is not None:
        log.warning("a node's generator raised when it was closed: %s", exception_line(error))
