"""Runs handlers: plain ones on threads, async ones on one event loop; so many at once, each within its time.

Agents and pollers both use it. An agent has its handlers run beside its reading and hears of their ends (`run`). A
poller has a thread for each task, which waits for the handler (`call`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.handlers.calling import Handler
from afl.core.handlers.loops import run_loop
from afl.core.handlers.outcomes import Call, HandlerBatch, NotRun, Outcome, Raised, Returned, TimedOut, outcome_of
from afl.core.handlers.returned import awaitable_of, discard
from afl.core.handlers.stuck_handlers import HandlersStuck, StuckHandlers
from afl.core.process.crashes import Crash

#: How long a call that runs in seclusion keeps others from starting, and how long it waits for those that run.
SECLUSION_S: Final = 60.0
#: How long coroutines that are left when a pool is closed have for ending; then they are left behind.
LOOP_GRACE_S: Final = 0.5
#: A batch that has begun this long ago has met a slow call, and its others go where there is room.
_OVERDUE_S: Final = 0.05


class HandlerPool:
    """Slots for handlers, and the threads that run them. Any thread may use it.

    A handler whose time is up is left behind: its outcome is TimedOut, a coroutine is cancelled, and what either does
    from then on is ignored. `call` watches the time of its own call; that of all others is up when `expire` is called.

    One batch at a time may run `secluded`, with nothing beside it. From its end to `end_seclusion` nothing starts
    either: its owner first makes it durable that the batch has ended.

    A slot is taken by `reserve` and is free again when all calls of the batch that was run in it have their outcome,
    also when that is that a time was up: the thread of a handler that does not come back is replaced, and ends when the
    handler does. `on_stuck` is called when more than `max_stuck` of those are left. Calls that are stuck behind a slow
    one go on in other slots as soon as some are free. What `call` and `submit` run takes no slot.

    `on_fatal` hears of what no handler may catch: the death of the process, as tests make it, and what a listener
    raises. Threads are daemons: a handler that never ends does not keep the process.
    """

    def __init__(
        self,
        max_concurrent: int,
        *,
        max_stuck: int,
        on_fatal: Callable[[BaseException], None],
        on_stuck: Callable[[HandlersStuck], None] = lambda _error: None,
        clock_s: MonotonicClock = monotonic_s,
        name: str = "handler",
    ) -> None:
        """`name` is what the names of its threads begin with."""
        self._name = name
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
        self._queue: SimpleQueue[HandlerBatch | Callable[[], object] | None] = SimpleQueue()
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
        self._report_free()

    def release(self) -> None:
        """Release a slot in which nothing was run, or nothing runs any more."""
        with self._lock:
            self._reserved -= 1
        self._report_free()

    def _report_free(self) -> None:
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
        if len(batch.calls) > 1:
            with self._lock:
                self._batches.add(batch)
        self._hand_over(batch)

    def adopt(self, call: Call, began_s: float) -> None:
        """Watch over a call that the thread of its owner has begun, at `began_s` by the pool's clock.

        From now on its time can be up as that of any other. It is in the slot that its owner has reserved, and its
        thread counts among those of the pool until `end_adopted`, which that thread calls.
        """
        batch = HandlerBatch()
        with self._lock:
            self._workers += 1
            self._busy += 1
            call.batch = batch
            if call.timeout_s is not None:
                call.deadline = began_s + call.timeout_s
                self._timed.add(call)

    def end_adopted(self, call: Call, outcome: Outcome) -> None:
        """Take the outcome of an adopted call, unless its time was up. The calling thread then leaves the pool."""
        if not call.claim():
            self._stuck.remove(call)
            return
        with self._lock:
            self._workers -= 1
            self._busy -= 1
        if self._complete(call, outcome):
            self.release()

    def call(
        self, handler: Handler, arguments: tuple[object, ...], *, is_async: bool, timeout_s: float | None, facet: str
    ) -> Outcome:
        """Run one handler now, and wait until it has ended or its time is up. For threads that do nothing else.

        A plain one without a time limit runs in the caller's thread.
        """
        outcomes: list[Outcome] = []
        call = Call(
            handler, arguments, is_async=is_async, timeout_s=timeout_s, on_outcome=outcomes.append, facet=facet
        )  # fmt: skip
        if timeout_s is None and not is_async:
            return self._outcome_of(call)
        ended = Event()
        self.run(HandlerBatch(call, on_end=ended.set))
        if not ended.wait(timeout_s):
            self._expire_one(call)
            # Its time may have been up in the very moment in which it ended.
            ended.wait()
        return outcomes[0]

    def submit(self, work: Callable[[], object]) -> None:
        """Do something else in a thread, at once. What it raises is told by `on_fatal`."""
        self._hand_over(work)

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
        """Let the idle threads end, the others when they are idle, and the loop with what runs in it."""
        with self._lock:
            self._closed = True
            for _ in range(self._workers):
                self._queue.put(None)
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _hand_over(self, job: HandlerBatch | Callable[[], object]) -> None:
        with self._lock:
            self._busy += 1
            if self._closed:
                # No thread waits for jobs any more.
                Thread(target=self._serve, args=(job,), name=f"{self._name}-late", daemon=True).start()
                return
            if self._busy > self._workers:
                self._workers += 1
                Thread(target=self._work, name=f"{self._name}-{self._workers}", daemon=True).start()
            self._queue.put(job)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None and self._serve(job):
            pass

    def _serve(self, job: HandlerBatch | Callable[[], object]) -> bool:
        """Do a job, and say whether the thread is there for another one."""
        if not isinstance(job, HandlerBatch):
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - the thread's last line of defence: it serves others, too
                self._on_fatal(error)
            with self._lock:
                self._busy -= 1
            return True
        job.began_s = self._clock_s()
        while (call := job.next()) is not None:
            if call.batch is None:
                self._begin(call, job)
            if call.timeout_s is not None and call.is_over:
                # Its time was up before it began: it is not made.
                self._stuck.remove(call)
                return False
            began_s = time.perf_counter()
            outcome = self._outcome_of(call)
            if call.run_time is not None:
                call.run_time.note(time.perf_counter() - began_s)
            if not call.claim():
                # Its time was up and its slot is another's; another thread has taken this one's place.
                self._stuck.remove(call)
                return False
            if not self._complete(call, outcome):
                return False
        if job.is_forsaken:
            return False
        with self._lock:
            self._busy -= 1
        self._end(job)
        return True

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
        rest = HandlerBatch(secluded=batch.secluded, on_end=batch.on_end)
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
        (batch.on_end or self.release)()

    def _outcome_of(self, call: Call) -> Outcome:
        try:
            value = call.handler(*call.arguments)
        except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
            return Raised(error)
        return self.settle(call, value)

    def settle(self, call: Call, value: object) -> Outcome:
        """Return the outcome of a plain handler that has returned this: an awaitable is waited for in the loop."""
        waiting = awaitable_of(value)
        if waiting is None:
            return Returned(value)
        # Until it has really ended: one that does not let itself be cancelled is stuck.
        ended: Future[Outcome] = Future()
        if not self._in_loop(call, lambda: waiting, ended.set_result):
            discard(waiting)
            return Raised(asyncio.CancelledError())
        return ended.result()

    def _run_async(self, call: Call) -> None:
        if not self._in_loop(call, lambda: call.handler(*call.arguments), partial(self._async_done, call)):
            self._async_done(call, Raised(asyncio.CancelledError()))

    def _async_done(self, call: Call, outcome: Outcome) -> None:
        if not call.claim():
            self._stuck.remove(call)
            return
        if self._complete(call, outcome):
            assert call.batch is not None
            self._end(call.batch)

    def _in_loop(
        self, call: Call, awaitable: Callable[[], Awaitable[object]], on_done: Callable[[Outcome], object]
    ) -> bool:
        """Await what a call gives in the event loop, and tell what came of it there. False: the pool is closed."""

        def start(loop: asyncio.AbstractEventLoop) -> None:
            if call.is_over:
                # Its time was up before the loop came to it: another handler has blocked it.
                if not call.is_async:
                    discard(awaitable())
                on_done(NotRun())
                return
            task = loop.create_task(_called(awaitable))
            call.cancel = partial(loop.call_soon_threadsafe, task.cancel)
            task.add_done_callback(lambda done: on_done(_task_outcome(done)))
            if call.is_over:
                task.cancel()

        with self._lock:
            if self._closed:
                # Nothing would end another loop.
                return False
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = f"{self._name}-loop"
                Thread(target=run_loop, args=(self._loop, LOOP_GRACE_S), name=name, daemon=True).start()
            self._loop.call_soon_threadsafe(start, self._loop)
        return True

    def _complete(self, call: Call, outcome: Outcome) -> bool:
        """Report an outcome; return whether the process lives, and the call's batch has an end."""
        if call.batch is not None and call.batch.secluded:
            # Before a caller can see the outcome and end the seclusion.
            with self._lock:
                self._seclusion_is_over = True
        if type(outcome) is Raised and issubclass(type(outcome.error), Crash):
            self._on_fatal(outcome.error)
            if call.batch is None or call.batch.on_end is None:
                # The process is dead: nothing follows from what its handler raised. A caller that waits is let go.
                return False
        self._report(call, outcome)
        if call.timeout_s is not None:
            with self._lock:
                self._timed.discard(call)
        return True

    def _report(self, call: Call, outcome: Outcome) -> None:
        try:
            call.tell(outcome)
        except BaseException as error:  # noqa: BLE001 - the agent cannot continue: it decides how to end
            self._on_fatal(error)


async def _called(awaitable: Callable[[], Awaitable[object]]) -> Outcome:
    try:
        value = awaitable()
    except BaseException as error:  # noqa: BLE001 - the handler's, not ours, whatever it is
        return Raised(error)
    return await outcome_of(value)


def _task_outcome(task: asyncio.Task[Outcome]) -> Outcome:
    return Raised(asyncio.CancelledError()) if task.cancelled() else task.result()
