"""Leases on the events of one facet: who has which event, and until when."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from threading import Lock
from typing import Any, Final

from afl.core.clock import Clock, SystemClock
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.outcomes import PlainFailure
from afl.core.probes import Probe, no_probe
from afl_stream.errors import StreamError
from afl_stream.gateway.lease_ids import LeasedEvent, lease_id

_log = logging.getLogger(__name__)

#: How much longer a lease holds while its answer is on the way to the broker: seconds.
ANSWERING_S: Final = 30.0


class Ending(Enum):
    """What has become of an event that was held."""

    #: It was answered, or its answer comes later: the event counts as handled.
    DONE = auto()
    #: The lease ran out: the event is offered again, and the try counts.
    RAN_OUT = auto()
    #: It is given back unhandled, and no try counts.
    PUT_BACK = auto()


class LeaseRanOut(PlainFailure):
    """A worker took an event, and neither answered nor extended its lease in time."""

    def __init__(self, facet: str, tries: int) -> None:
        super().__init__(f"a lease on an event of {facet} ran out without an answer (try {tries})")


class LeaseGone(StreamError):
    """A lease does not hold its event any more: it ran out, was answered, or was of an earlier gateway."""

    def __init__(self, event: LeasedEvent) -> None:
        super().__init__(
            f"the lease on the event of step {event.step_id} ({event.facet}) is over: it ran out, was answered, or "
            "this gateway has started since; another worker may have the event, and an answer is still taken"
        )


@dataclass(slots=True, eq=False)
class HeldEvent:
    """An event that is held for workers. Without a lease it waits for a poll."""

    payload: Mapping[str, Any]
    context: HandlerContext
    event: LeasedEvent
    ending: Future[Ending] = field(default_factory=Future)
    lease: str = ""
    lease_s: float = 0.0
    #: When the lease runs out, by the monotonic clock, and by the wall clock as workers are told.
    until_s: float = 0.0
    until_ms: int = 0

    def end(self, ending: Ending) -> None:
        if not self.ending.done():
            self.ending.set_result(ending)


class LeaseDesk:
    """Holds the events of one facet, and leases them. Any thread may use it.

    It holds what the facet's agent has given it, which is bounded by the agent's slots. An event goes this way:
      1. the agent offers it                                                               (gateway.offered)
      2. a poll leases it                                                                  (gateway.leased)
      3. its answer is produced and acknowledged, by `Answers`                             (gateway.answered)
      4. the lease ends, and the agent commits the event's offset                          (gateway.ended)

    After a crash before 3 the next member of the group offers the event again, with the same id. After a crash between
    3 and 4 too: a second answer is a duplicate for the evaluator. The leases themselves are only in memory.
    """

    def __init__(self, facet: str, *, clock: Clock | None = None, probe: Probe = no_probe) -> None:
        self.facet = facet
        self._clock = clock or SystemClock()
        self._probe = probe
        self._lock = Lock()
        self._waiting: deque[HeldEvent] = deque()
        self._leased: dict[str, HeldEvent] = {}
        self._listeners: set[Callable[[], None]] = set()
        self._is_closed = False
        #: Leases given, and how many ended in which way.
        self.taken = 0
        self.ended = dict.fromkeys(Ending, 0)

    # --- the agent's side -------------------------------------------------------------------------------------------

    def offer(self, payload: Mapping[str, Any], context: HandlerContext) -> Future[Ending]:
        """Hold an event until it is done; the result is what has become of it."""
        held = HeldEvent(payload=payload, context=context, event=LeasedEvent.of(context))
        self._probe("gateway.offered")
        with self._lock:
            if self._is_closed:
                held.end(Ending.PUT_BACK)
                return held.ending
            self._waiting.append(held)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()
        return held.ending

    def sweep(self) -> None:
        """End the leases that have run out, and give back events that wait here and now belong to another member."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            over = [held for held in self._leased.values() if held.until_s <= now_s]
            for held in over:
                del self._leased[held.lease]
            self.ended[Ending.RAN_OUT] += len(over)
            back = [held for held in self._waiting if held.context.is_stopping]
            for held in back:
                self._waiting.remove(held)
        for held in over:
            _log.warning(
                "a lease on step %s (%s) ran out without an answer, try %d: the event is offered again",
                held.event.step_id, self.facet, held.event.tries,
            )  # fmt: skip
            held.end(Ending.RAN_OUT)
        for held in back:
            held.end(Ending.PUT_BACK)

    def close(self) -> None:
        """Give back what waits, and take nothing more. Leases go on until they are answered or run out."""
        with self._lock:
            self._is_closed = True
            back, listeners = list(self._waiting), tuple(self._listeners)
            self._waiting.clear()
        for held in back:
            held.end(Ending.PUT_BACK)
        for listener in listeners:
            listener()

    # --- the workers' side ------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many events wait, and how many are leased."""
        return len(self._waiting), len(self._leased)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this whenever an event is offered, on the thread of that."""
        with self._lock:
            self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        with self._lock:
            self._listeners.discard(listener)

    def take(self, most: int, lease_s: float) -> list[HeldEvent]:
        """Lease waiting events, the oldest first."""
        taken: list[HeldEvent] = []
        with self._lock:
            while self._waiting and len(taken) < most:
                held = self._waiting.popleft()
                if held.context.is_stopping:
                    held.end(Ending.PUT_BACK)
                    continue
                held.lease, held.lease_s = lease_id(held.event), lease_s
                self._extend(held, lease_s)
                self._leased[held.lease] = held
                self.taken += 1
                taken.append(held)
        if taken:
            self._probe("gateway.leased")
        return taken

    def _extend(self, held: HeldEvent, lease_s: float) -> None:
        held.until_s = self._clock.monotonic_s() + lease_s
        held.until_ms = self._clock.now_ms() + round(lease_s * 1000)

    def held(self, lease: str) -> HeldEvent | None:
        """Return the event of a lease that holds."""
        with self._lock:
            found = self._leased.get(lease)
            return None if found is None or found.until_s <= self._clock.monotonic_s() else found

    def heartbeat(self, lease: str, event: LeasedEvent, lease_s: float | None) -> HeldEvent:
        """Extend a lease, by its own time unless another is given. Raises LeaseGone."""
        with self._lock:
            held = self._leased.get(lease)
            if held is None or held.until_s <= self._clock.monotonic_s():
                raise LeaseGone(event)
            self._extend(held, held.lease_s if lease_s is None else lease_s)
            return held

    def keep_for_answer(self, lease: str) -> HeldEvent | None:
        """Return the event of a lease whose answer is being sent: it does not run out meanwhile."""
        with self._lock:
            held = self._leased.get(lease)
            if held is not None:
                held.until_s = max(held.until_s, self._clock.monotonic_s() + ANSWERING_S)
            return held

    def end(self, lease: str, ending: Ending) -> bool:
        """End a lease; return False where it was over."""
        with self._lock:
            held = self._leased.pop(lease, None)
            if held is not None:
                self.ended[ending] += 1
        if held is None:
            return False
        held.end(ending)
        self._probe("gateway.ended")
        return True
