"""Quick handlers on the thread that reads, and how another thread reads on when one of them does not end."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from afl.core.handlers.outcomes import SLOW_S, Call, Outcome, Raised, Returned
from afl.core.handlers.routes import Route
from afl.core.process.crashes import Crash
from afl_stream.agent.answers import Answering
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import INLINE_TIMEOUT_S, Work
from afl_stream.errors import StreamError
from afl_stream.wire.messages import Event

#: How long a handler runs on the thread that reads before another thread reads in its place.
TAKEOVER_S: Final = 0.1


class TurnsTaken(StreamError):
    """Another thread has taken the turns of a member, because a handler took too long on the thread that had them."""

    def __init__(self) -> None:
        super().__init__("another thread takes the turns of this member now")


def may_run_inline(route: Route) -> bool:
    """Return whether a handler may run on the thread that reads.

    It is a plain function that is known to be quick, and may take longer than it takes until another thread reads on.
    """
    return route.run_time.is_quick and (route.timeout_s is None or route.timeout_s >= INLINE_TIMEOUT_S)


class InlineBatch:
    """Records whose handlers run on the thread that calls `run`, one after the other, in one slot.

    For each record, in this order:
      1. it is taken out of those that wait, and its handler runs,
      2. the end of the handler is noted, unless another thread has taken over meanwhile,
      3. its answer is produced.

    In 1, any other thread may `take_over` once the handler has run for TAKEOVER_S. From then on the handler is one of
    the pool, with its time limit and its slot, and the records that wait are started again elsewhere. One of both
    threads comes first, so that each record is run and answered once. The thread of the handler answers for that one
    when it ends, and does nothing else any more.
    """

    __slots__ = ("_answering", "_began_s", "_call", "_is_taken", "_lock", "_resources", "_waiting", "_work")

    def __init__(self, resources: AgentResources, answering: Answering, works: Sequence[Work]) -> None:
        self._resources = resources
        self._answering = answering
        self._waiting = deque(works)
        self._lock = Lock()
        self._is_taken = False
        #: The record whose handler runs, since when, and its call in the pool if it has one.
        self._work: Work | None = None
        self._began_s = 0.0
        self._call: Call | None = None

    def run(self) -> bool:
        """Run the handlers, and return whether this thread still has the turns of its member.

        A handler that turns out slow ends the batch: the records behind it start again elsewhere.
        """
        resources, answering = self._resources, self._answering
        waiting, lock, clock_s, tracing = self._waiting, self._lock, resources.clock_s, resources.tracing
        known: Route | None = None
        run: Callable[[Work, Event], object] | None = None
        while waiting:
            work = waiting.popleft()
            route, event = work.route, work.event
            assert route is not None
            assert event is not None
            error: BaseException | None = None
            value: object = None
            if tracing is not None:
                # Before the clock: a thread that loses its processor here has no slow handler.
                work.trace = tracing.begin(work.record, event.workflow_id)
            began_s = self._began_s = clock_s()
            self._work = work
            try:
                if run is None or route is not known:
                    known, run = route, answering.runner_of(route)
                value = run(work, event)
            except BaseException as raised:  # noqa: BLE001 - the handler's, not ours, whatever it is
                error = raised
            if error is None and value is not None and type(value) is not dict:
                value, error = self._awaited(work, value)
            took_s = clock_s() - began_s
            with lock:
                self._work = None
                if self._is_taken:
                    break
            route.run_time.note(took_s)
            self._take(work, value, error)
            if took_s > SLOW_S:
                self._give_back()
        else:
            resources.pool.release()
            return True
        assert self._call is not None
        resources.pool.end_adopted(self._call, Returned(value) if error is None else Raised(error))
        return False

    def take_over(self, now_s: float) -> bool:
        """Take the turns from the thread whose handler has run too long; return whether that is so. Any thread may."""
        with self._lock:
            work = self._work
            if work is None or self._is_taken or now_s - self._began_s < TAKEOVER_S:
                return False
            self._is_taken = True
            if self._call is None:
                self._call = self._answering.call_of(work)
            assert work.route is not None
            # From now on the pool runs the records of this handler, until it is quick again.
            work.route.run_time.note(now_s - self._began_s)
            self._resources.pool.adopt(self._call, self._began_s)
            self._answering.note_slow(work)
            self._give_back()
            return True

    def _give_back(self) -> None:
        while self._waiting:
            self._answering.start_again(self._waiting.popleft())

    def _take(self, work: Work, value: object, error: BaseException | None) -> None:
        try:
            if error is None:
                self._answering.take_result(work, value)
                return
            if issubclass(type(error), Crash):
                raise error
            self._answering.take_outcome(work, Raised(error))
        except BaseException as fatal:
            # As where a handler runs on a thread of the pool: the agent cannot continue.
            self._resources.shutdown.die(fatal)
            raise

    def _awaited(self, work: Work, value: object) -> tuple[object, BaseException | None]:
        """Return what a value comes to that is neither a dict nor None: a plain function may return an awaitable."""
        call = self._answering.call_of(work)
        with self._lock:
            if self._call is None:
                self._call = call
            else:
                call = self._call
        outcome: Outcome = self._resources.pool.settle(call, value)
        with self._lock:
            if not self._is_taken:
                self._call = None
        if isinstance(outcome, Returned):
            return outcome.value, None
        # NotRun: its time was up before it could be awaited. The answer has been given, and this is not looked at.
        return None, outcome.error if isinstance(outcome, Raised) else CancelledError()
