"""Calls a task's handler: in the calling thread, or in the handler pool, where one out of time is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol

from afl.core.errors import AFLError
from afl.core.handlers.loops import cancel_the_rest
from afl.core.handlers.outcomes import HandlerTimeout, NotRun, Outcome, Returned, outcome_within
from afl.core.handlers.pool import LOOP_GRACE_S, HandlerPool
from afl.core.handlers.returned import awaitable_of, discard
from afl.core.handlers.stuck_handlers import HandlersStuck
from afl.engine import limits
from afl.workers.task_context import TaskContext, call_shape
from afl.workers.tool_registry import Handler

__all__ = ["CallThreads", "Calls", "CallsHere", "HandlerTimeout", "LoopRunsHere"]


class LoopRunsHere(AFLError):
    """A handler's coroutine should run to its end in a thread whose event loop is already running."""

    def __init__(self) -> None:
        super().__init__(
            "a coroutine handler cannot be run to its end inside a running event loop; "
            "call this in another thread: await asyncio.to_thread(poller.poll_once)"
        )


class Calls(Protocol):
    """The interface for calling handlers. Raises the exceptions of handlers, and HandlerTimeout."""

    @property
    def in_callers_thread(self) -> bool:
        """Return whether handlers run in the caller's thread, where Ctrl-C may be raised too."""

    def call(self, handler: Handler, payload: dict[str, Any], context: TaskContext, timeout_s: float | None) -> Any: ...
    def close(self) -> None: ...


class CallsHere:
    """Calls in the caller's thread, on a loop of its own. A synchronous handler has no time limit."""

    in_callers_thread = True

    def __init__(self) -> None:
        self._own = threading.local()

    def call(self, handler: Handler, payload: dict[str, Any], context: TaskContext, timeout_s: float | None) -> Any:
        """Call the handler; a coroutine runs to completion, or is cancelled when its time is up.

        Raises LoopRunsHere for a coroutine, when the caller is a coroutine too.
        """
        returned = handler(*_arguments(handler, payload, context))
        value = awaitable_of(returned)
        if value is None:
            return returned
        if _runs_loop():
            discard(value)
            raise LoopRunsHere
        loop: asyncio.AbstractEventLoop | None = getattr(self._own, "loop", None)
        if loop is None:
            # One loop for all calls until `close`: objects that handlers keep between calls may belong to a loop.
            loop = self._own.loop = asyncio.new_event_loop()
        return _value_of(loop.run_until_complete(outcome_within(value, timeout_s)))

    def close(self) -> None:
        """Close the loop of the calling thread, with the tasks that handlers have left in it."""
        loop: asyncio.AbstractEventLoop | None = getattr(self._own, "loop", None)
        if loop is not None:
            self._own.loop = None
            loop.run_until_complete(cancel_the_rest(LOOP_GRACE_S))
            loop.close()


class CallThreads:
    """The handler pool, for threads that each wait for one task's handler."""

    in_callers_thread = False

    def __init__(self, max_stuck: int = limits.MAX_STUCK_HANDLERS, on_stuck: Callable[[], None] = lambda: None) -> None:
        """`on_stuck` is called when there is something to `check`."""
        self._problem: HandlersStuck | None = None
        self._on_stuck = on_stuck
        self._pool = HandlerPool(
            # The loop counts its tasks, and each has one handler at most.
            0, max_stuck=max_stuck, on_stuck=self._are_stuck, on_fatal=lambda _error: None, name="afl-task",
        )  # fmt: skip

    def submit(self, work: Callable[[], object]) -> None:
        """Run it in a thread, at once."""
        self._pool.submit(work)

    def call(self, handler: Handler, payload: dict[str, Any], context: TaskContext, timeout_s: float | None) -> Any:
        """Call the handler and wait for it; one whose time is up is left behind, a coroutine is cancelled."""
        arguments, is_async = _arguments(handler, payload, context), call_shape(handler).is_async
        return _value_of(
            self._pool.call(handler, arguments, is_async=is_async, timeout_s=timeout_s, facet=context.facet)
        )

    def check(self) -> None:
        """Raise HandlersStuck where more handlers than may be still ran after their time was up."""
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """Let the threads go that are free, the others when they are, and the loop with what runs in it."""
        self._pool.close()

    def _are_stuck(self, problem: HandlersStuck) -> None:
        self._problem = self._problem or problem
        self._on_stuck()


def _arguments(handler: Handler, payload: dict[str, Any], context: TaskContext) -> tuple[object, ...]:
    return (payload, context) if call_shape(handler).takes_context else (payload,)


def _value_of(outcome: Outcome) -> Any:
    """Return what the handler has returned. Raises what it has raised, and HandlerTimeout."""
    if isinstance(outcome, Returned):
        return outcome.value
    assert not isinstance(outcome, NotRun)
    try:
        raise outcome.error
    finally:
        # The error's traceback has this frame, which must not have the error: what it holds would be kept for longer.
        del outcome


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
