"""The handler pool: plain handlers run on threads, async ones on one event loop, within slots and time limits."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final

from afl.core.handlers.calling import Handler
from afl.core.handlers.loops import run_loop
from afl.core.handlers.returned import awaitable_of
from afl.core.handlers.stuck_handlers import HandlersStuck, StuckHandlers
from afl.core.process.crashes import Crash
from afl_stream.agent.handlers import NotRun, Outcome, Raised, Returned, RunTimeEstimate, TimedOut
from afl_stream.limits import MAX_STUCK_HANDLERS

#: How long a call that runs in seclusion keeps others from starting, and how long it waits for those that run.
SECLUSION_S: Final = 60.0
#: A batch that has begun this long ago has met a slow call, and its others go where there is room.
_OVERDUE_S: Final = 0.05


class Call:
    """One run of a handler. The first claimant, its end or its time-out, reports the outcome."""

    __slots__ = (
        "_claimed",
        "_lock",
        "_on_outcome",
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
        self._claimed = False
        self._lock = Lock()

    @property
    def is_over(self) -> bool:
        return self._claimed

    def claim(self) -> bool:
        """Return whether the caller is the first to claim."""
        with self._lock:
            first, self._claimed = not self._claimed, True
            return first

    def tell(self, outcome: Outcome) -> None:
        self._on_outcome(outcome)


class HandlerBatch:
    """Calls that run one after the other in one slot: giving each quick call a thread costs more than the call."""

    __slots__ = ("began_s", "calls", "is_forsaken", "secluded")

    def __init__(self, *calls: Call, secluded: bool = False) -> None:
        self.calls = deque(calls)
        self.secluded = secluded
        self.began_s = float("inf")
        #: Its thread was replaced: another batch has the remaining calls.
        self.is_forsaken = False

    def next(self) -> Call | None:
        """Take the next call out. Any thread may call this; each call goes to one thread."""
        try:
            return self.calls.popleft()
        except IndexError:
            return None


class HandlerPool:
    """Slots for handlers, and the threads that run them. Any thread may use it.

    One batch at a time may run `secluded`, with nothing beside it. From its end to `end_seclusion` nothing starts
    either: its owner first makes it durable that the batch has ended.

    A slot is taken by `reserve` and is free again when all calls of its batch have an outcome, a time-out included: the
    thread of a handler that does not return is replaced, and ends when the handler does. `on_stuck` is called when more
    than `max_stuck` such threads are left. Calls behind a slow one move to other slots as soon as some are free.
    Threads are daemons: a handler that never ends does not keep the process alive.
    """

    def __init__(
        self,
        max_concurrent: int,
        *,
        on_fatal: Callable[[BaseException], None],
        on_stuck: Callable[[HandlersStuck], None] = lambda _error: None,
        max_stuck: int = MAX_STUCK_HANDLERS,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_stuck = on_stuck
        self._stuck = StuckHandlers(max_stuck)
        self._max_concurrent = max_concurrent
        self._on_fatal = on_fatal
        self._clock_s = clock_s
        self._lock = Lock()
        self._reserved = 0
        #: The owner of a secluded batch, running or waiting; whether it runs, or has run; and until when nothing starts
        #: beside it.
        self._secluded: object | None = None
        self._is_granted = False
        self._seclusion_is_over = False
        self._shut_until_s = 0.0
        #: Calls that run and may run out of time.
        self._timed: set[Call] = set()
        #: Lots of several calls that are not through.
        self._batches: set[HandlerBatch] = set()
        self._queue: SimpleQueue[HandlerBatch | None] = SimpleQueue()
        self._workers = 0
        self._busy = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    def on_free(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever a slot becomes free, on the thread that frees it."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

    def not_on_free(self, listener: Callable[[], None]) -> None:
        """Stop calling the listener."""
        with self._lock:
            self._listeners = [other for other in self._listeners if other != listener]

    @property
    def stuck(self) -> int:
        """The number of handlers that still run after their time-out."""
        return len(self._stuck)

    @property
    def in_use(self) -> int:
        """The number of slots that are taken."""
        return self._reserved

    def reserve(self) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            if self._reserved >= self._max_concurrent or (self._secluded is not None and self._is_shut()):
                return False
            self._reserved += 1
            return True

    def _is_shut(self) -> bool:
        return self._seclusion_is_over or self._clock_s() < self._shut_until_s

    def reserve_secluded(self, whose: object) -> bool:
        """Take a slot in which a batch runs `secluded`, if nothing else runs.

        After the first call nothing else starts until `end_seclusion`, but for SECLUSION_S at most, and as long again
        while it runs: calls that take hours must not block all others.
        """
        with self._lock:
            if self._secluded is None:
                self._secluded, self._shut_until_s = whose, self._clock_s() + SECLUSION_S
            if self._secluded is not whose or self._is_granted or self._reserved >= self._max_concurrent:
                return False
            if self._reserved and self._is_shut():
                return False
            self._shut_until_s = self._clock_s() + SECLUSION_S
            self._reserved += 1
            self._is_granted = True
            return True

    def end_seclusion(self, whose: object) -> None:
        """Let others start: the secluded batch has ended, or is not to run any more."""
        with self._lock:
            if self._secluded is not whose:
                return
            self._secluded, self._is_granted, self._seclusion_is_over = None, False, False
        self._tell_free()

    def release(self) -> None:
        """Release a slot in which nothing was run, or nothing runs any more."""
        with self._lock:
            self._reserved -= 1
        self._tell_free()

    def _tell_free(self) -> None:
        for listener in self._listeners:
            listener()

    def run(self, batch: HandlerBatch) -> None:
        """Run the calls in the slot that was reserved for them. A coroutine function's call is a batch of its own."""
        first = batch.calls[0]
        self._begin(first, batch)
        if first.is_async:
            batch.calls.clear()
            self._run_async(first)
            return
        with self._lock:
            if len(batch.calls) > 1:
                self._batches.add(batch)
            self._need_worker()
        self._queue.put(batch)

    def expire(self) -> None:
        """Time out the calls whose time is up, and move the calls behind a slow one to other slots."""
        now_s = self._clock_s()
        if self._timed:
            for call in [call for call in tuple(self._timed) if call.deadline <= now_s]:
                self._expire_one(call)
        if self._batches:
            for batch in [batch for batch in tuple(self._batches) if now_s - batch.began_s > _OVERDUE_S]:
                self._spread(batch)

    def recall(self) -> None:
        """Take back the calls that have not begun: their outcome is NotRun."""
        for batch in tuple(self._batches):
            while (call := batch.next()) is not None:
                if call.claim():
                    self._report(call, NotRun())

    def close(self) -> None:
        """Let the idle threads end. Running handlers continue on their daemon threads."""
        with self._lock:
            self._closed = True
            for _ in range(self._workers):
                self._queue.put(None)
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _need_worker(self) -> None:
        self._busy += 1
        if self._busy > self._workers:
            self._workers += 1
            Thread(target=self._work, name=f"handler-{self._workers}", daemon=True).start()

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            batch.began_s = self._clock_s()
            while (call := batch.next()) is not None:
                if call.batch is None:
                    self._begin(call, batch)
                began_s = time.perf_counter()
                outcome = self._outcome_of(call)
                if call.run_time is not None:
                    call.run_time.note(time.perf_counter() - began_s)
                if outcome is None or not call.claim():
                    # Its time was up and its slot is another's; another thread has taken this one's place.
                    self._stuck.remove(call)
                    return
                self._complete(call, outcome)
            if batch.is_forsaken:
                return
            with self._lock:
                self._busy -= 1
            self._end(batch)

    def _begin(self, call: Call, batch: HandlerBatch) -> None:
        """Start the call's time: for the first of a batch when it is queued, for the others at their turn."""
        call.batch = batch
        if call.timeout_s is not None:
            with self._lock:
                call.deadline = self._clock_s() + call.timeout_s
                self._timed.add(call)

    def _expire_one(self, call: Call) -> None:
        with self._lock:
            if call.is_over:
                return
            # Before it is claimed: from then on its thread takes it out again.
            problem = self._stuck.add(call, call.facet)
            if not call.claim():
                self._stuck.remove(call)
                return
        self._time_is_up(call)
        if problem is not None:
            self._on_stuck(problem)

    def _time_is_up(self, call: Call) -> None:
        batch = call.batch
        assert batch is not None
        if not call.is_async:
            with self._lock:
                self._workers -= 1
                self._busy -= 1
        if call.cancel is not None:
            call.cancel()
        self._complete(call, TimedOut(call.timeout_s or 0.0))
        batch.is_forsaken = True
        rest = HandlerBatch(secluded=batch.secluded)
        while (left := batch.next()) is not None:
            if left is call:
                # It had not begun.
                self._stuck.remove(call)
            else:
                rest.calls.append(left)
        if not rest.calls:
            self._end(batch)
            return
        # They keep the slot.
        with self._lock:
            self._batches.discard(batch)
        self.run(rest)

    def _spread(self, batch: HandlerBatch) -> None:
        while batch.calls and self.reserve():
            call = batch.next()
            if call is None:
                self.release()
            else:
                self.run(HandlerBatch(call))

    def _end(self, batch: HandlerBatch) -> None:
        with self._lock:
            self._batches.discard(batch)
        self.release()

    def _outcome_of(self, call: Call) -> Outcome | None:
        try:
            value = call.handler(*call.arguments)
            waiting = awaitable_of(value)
            if waiting is None:
                return Returned(value)
            future = asyncio.run_coroutine_threadsafe(_awaited(waiting), self._event_loop())
            call.cancel = future.cancel
            return future.result()
        except Crash as error:
            self._on_fatal(error)
            return None
        except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
            return Raised(error)

    def _run_async(self, call: Call) -> None:
        loop = self._event_loop()

        def start() -> None:
            if call.is_over:
                # Its time was up before the loop came to it.
                self._stuck.remove(call)
                return
            task = loop.create_task(_called(call))
            call.cancel = partial(loop.call_soon_threadsafe, task.cancel)
            task.add_done_callback(partial(self._async_done, call))
            if call.is_over:
                task.cancel()

        loop.call_soon_threadsafe(start)

    def _async_done(self, call: Call, done: asyncio.Task[Outcome]) -> None:
        error = None if done.cancelled() else done.exception()
        if not call.claim():
            self._stuck.remove(call)
            return
        if error is not None:
            self._on_fatal(error)
            return
        self._complete(call, Raised(asyncio.CancelledError()) if done.cancelled() else done.result())
        assert call.batch is not None
        self._end(call.batch)

    def _complete(self, call: Call, outcome: Outcome) -> None:
        if call.batch is not None and call.batch.secluded:
            # Before a caller can see the outcome and end the seclusion.
            with self._lock:
                self._seclusion_is_over = True
        self._report(call, outcome)
        if call.timeout_s is not None:
            with self._lock:
                self._timed.discard(call)

    def _report(self, call: Call, outcome: Outcome) -> None:
        try:
            call.tell(outcome)
        except BaseException as error:  # noqa: BLE001 - the agent cannot continue: it decides how to end
            self._on_fatal(error)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=run_loop, args=(self._loop,), name="handler-loop", daemon=True).start()
            return self._loop


async def _called(call: Call) -> Outcome:
    try:
        return await _awaited(call.handler(*call.arguments))
    except Crash:
        raise
    except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
        return Raised(error)


async def _awaited(value: Awaitable[object]) -> Outcome:
    try:
        return Returned(await value)
    except Crash:
        raise
    except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
        # SystemExit and KeyboardInterrupt would end the loop, and with it everybody else's handlers.
        return Raised(error)
