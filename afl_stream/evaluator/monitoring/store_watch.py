"""Looks into the store now and then, on a thread of its own, so that whoever asks for metrics never waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, NamedTuple

from afl.core.clock import Clock, MonotonicClock, monotonic_s
from afl.core.monitoring.health import ServiceHealth
from afl.core.text.exception_text import exception_line
from afl.stores.public.persistence import EngineStore

_log = logging.getLogger(__name__)

#: How often the store is looked into, and when its last answer is too old.
LOOK_INTERVAL_S: Final = 5.0
SILENT_AFTER_S: Final = 20.0
#: Timers that are counted at most.
MOST_TIMERS: Final = 1_000


class StoreLook(NamedTuple):
    """What a look into the store has found."""

    #: Age of the oldest record in the outbox; 0: it is empty.
    outbox_age_s: float
    #: Timers that are due and have not fired, MOST_TIMERS at most, and how late the first of them is.
    timers_due: int
    timer_late_s: float


class StoreWatch:
    """Looks into the store until it is closed. Any thread may read what it has found."""

    def __init__(self, store: EngineStore, clock: Clock, monotonic_s: MonotonicClock = monotonic_s) -> None:
        self._store = store
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._answered_s = monotonic_s()
        self._problem: str | None = None
        self.found: StoreLook | None = None
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = Thread(target=self._run, name="afl-store-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more. A store that does not answer is not waited for."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def look(self) -> None:
        """Look once."""
        now_ms = self._clock.now_ms()
        try:
            oldest = self._store.outbox(limit=1)
            due = self._store.timers_due(now_ms, limit=MOST_TIMERS)
        except Exception as error:  # noqa: BLE001 - whatever the store's library raises is what is reported
            self._problem = f"the store does not answer: {exception_line(error)}"
            _log.debug("%s", self._problem)
            return
        self._problem, self._answered_s = None, self._monotonic_s()
        self.found = StoreLook(
            max(0.0, (now_ms - oldest[0].created_at_ms) / 1_000) if oldest else 0.0,
            len(due),
            max(0.0, (now_ms - due[0].due_at_ms) / 1_000) if due else 0.0,
        )

    def health(self) -> ServiceHealth:
        """Return whether the store answers."""
        silent_s = self._monotonic_s() - self._answered_s
        if self._problem is not None:
            return ServiceHealth(reasons=(self._problem,))
        if silent_s > SILENT_AFTER_S:
            return ServiceHealth(reasons=(f"the store has not answered for {silent_s:.0f} s",))
        return ServiceHealth()

    def _run(self) -> None:
        ask: Callable[[float], bool] = self._stopped.wait
        while True:
            self.look()
            if ask(LOOK_INTERVAL_S):
                return
