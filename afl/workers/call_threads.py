"""The calling of handlers: in the caller's thread, or in own threads where a handler out of time can be abandoned."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from afl.core.handlers.loops import cancel_the_rest, run_loop
from afl.core.handlers.returned import awaitable_of
from afl.core.handlers.stuck_handlers import StuckHandlers
from afl.engine import limits
from afl.workers.task_context import TaskContext, call_shape
from afl.workers.tool_registry import Handler

#: The time that the loop may take to notice that a coroutine's time is up.
_GRACE_S = 0.5


class HandlerTimeout(Exception):
    """A handler did not end in its time."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the handler did not end within {timeout_s:g} s")


class LoopRunsHere(Exception):
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
        """Whether handlers run in the caller's thread, where Ctrl-C may be raised too."""

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
        returned = _invoke(handler, payload, context)
        value = awaitable_of(returned)
        if value is None:
            return returned
        if _runs_loop():
            if asyncio.iscoroutine(value):
                value.close()
            raise LoopRunsHere
        loop: asyncio.AbstractEventLoop | None = getattr(self._own, "loop", None)
        if loop is None:
            # One loop for all calls until `close`: objects that handlers keep between calls may belong to a loop.
            loop = self._own.loop = asyncio.new_event_loop()
        return loop.run_until_complete(_within(value, timeout_s, timeout_s))

    def close(self) -> None:
        """Close the loop of the calling thread, with the tasks that handlers have left in it."""
        loop: asyncio.AbstractEventLoop | None = getattr(self._own, "loop", None)
        if loop is not None:
            self._own.loop = None
            loop.run_until_complete(cancel_the_rest(_GRACE_S))
            loop.close()


class CallThreads:
    """Reusable threads for handlers, and one loop for all coroutines. They do not delay the end of the process."""

    in_callers_thread = False

    def __init__(self, max_stuck: int = limits.MAX_STUCK_HANDLERS) -> None:
        self._stuck = StuckHandlers(max_stuck)
        self._idle: deque[SimpleQueue[Callable[[], None] | None]] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Run it in a thread immediately."""
        future: Future[Any] = Future()

        def run() -> None:
            # The caller may have given up before it began, and does not need it. From here on it cannot be cancelled.
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - told to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            jobs = self._idle.pop()
        except IndexError:
            jobs = SimpleQueue()
            threading.Thread(target=self._serve, args=(jobs,), name="afl-task", daemon=True).start()
        jobs.put(run)
        return future

    def call(self, handler: Handler, payload: dict[str, Any], context: TaskContext, timeout_s: float | None) -> Any:
        """Call the handler and wait for it. When its time is up, a thread is abandoned and a coroutine is cancelled."""
        if call_shape(handler).is_async:
            return self._await(_invoke(handler, payload, context), context, timeout_s, timeout_s)
        if timeout_s is None:
            returned = _invoke(handler, payload, context)
            value = awaitable_of(returned)
            return returned if value is None else self._await(value, context, None, None)
        until_s = time.monotonic() + timeout_s
        running = self.submit(lambda: _invoke(handler, payload, context))
        try:
            returned = _result(running, timeout_s, timeout_s)
        except HandlerTimeout:
            self._note_stuck(running, context)
            raise
        value = awaitable_of(returned)
        return (
            returned if value is None else self._await(value, context, timeout_s, max(0.0, until_s - time.monotonic()))
        )

    def close(self) -> None:
        """Let free threads end, busy ones when they are done, and the loop with its tasks."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        self._dismiss_idle()
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _serve(self, jobs: SimpleQueue[Callable[[], None] | None]) -> None:
        while (job := jobs.get()) is not None:
            job()
            self._idle.append(jobs)
            if self._closed:
                self._dismiss_idle()

    def _dismiss_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().put(None)
            except IndexError:
                return

    def check(self) -> None:
        """Raise HandlersStuck when too many handlers still run after their time was up."""
        problem = self._stuck.problem()
        if problem is not None:
            raise problem

    def _note_stuck(self, running: Future[Any], context: TaskContext) -> None:
        self._stuck.add(running, context.facet)
        # Called immediately, if it has ended meanwhile.
        running.add_done_callback(self._stuck.remove)

    def _await(self, value: Awaitable[Any], context: TaskContext, timeout_s: float | None, left_s: float | None) -> Any:
        """Wait for the rest of the handler's time; a coroutine whose time is up is cancelled."""
        loop = self._running_loop()
        if loop is None:
            if asyncio.iscoroutine(value):
                value.close()
            raise asyncio.CancelledError
        running: Future[_Ended] = Future()
        tasks: list[asyncio.Task[_Ended]] = []
        is_late = threading.Event()

        def begin() -> None:
            if is_late.is_set():
                # Another coroutine has blocked the loop during all of this one's time.
                if asyncio.iscoroutine(value):
                    value.close()
                running.set_result(_Ended())
                return
            tasks.append(loop.create_task(_kept(value)))
            tasks[0].add_done_callback(lambda done: running.set_result(_Ended() if done.cancelled() else done.result()))

        loop.call_soon_threadsafe(begin)
        try:
            ended = running.result(left_s)
        except FutureTimeout:
            assert timeout_s is not None
            is_late.set()
            self._note_stuck(running, context)
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise HandlerTimeout(timeout_s) from None
        if ended.error is not None:
            raise ended.error
        return ended.value

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop, started if necessary; None after `close`, because a new loop would never be closed."""
        with self._lock:
            if self._loop is None and not self._closed:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=run_loop, args=(self._loop, _GRACE_S), name="afl-task-loop", daemon=True
                ).start()
            return self._loop


def _invoke(handler: Handler, payload: dict[str, Any], context: TaskContext) -> Any:
    return handler(payload, context) if call_shape(handler).takes_context else handler(payload)


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _result(future: Future[Any], timeout_s: float | None, wait_s: float | None) -> Any:
    try:
        return future.result(wait_s)
    except FutureTimeout:
        if future.done():
            # A TimeoutError of the handler itself, or the handler finished at the last moment.
            return future.result()
        future.cancel()
        assert timeout_s is not None
        raise HandlerTimeout(timeout_s) from None


async def _within(value: Awaitable[Any], left_s: float | None, timeout_s: float | None) -> Any:
    if left_s is None or timeout_s is None:
        return await value
    task = asyncio.ensure_future(_kept(value))
    done, _ = await asyncio.wait([task], timeout=left_s)
    if not done:
        task.cancel()
        raise HandlerTimeout(timeout_s)
    ended = task.result()
    if ended.error is not None:
        raise ended.error
    return ended.value


class _Ended(NamedTuple):
    """The outcome of a coroutine."""

    value: Any = None
    error: BaseException | None = None


async def _kept(value: Awaitable[Any]) -> _Ended:
    """Await, and return a raised exception: a task that raises SystemExit would end the loop and all other tasks."""
    try:
        return _Ended(await value)
    except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for it
        return _Ended(error=error)
