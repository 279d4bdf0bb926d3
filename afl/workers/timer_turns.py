"""Timers of the workflows of a store, fired by a server between its tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from afl.core.clock import Clock
from afl.core.text.exception_text import exception_traceback
from afl.engine.model.timers import TimerStore
from afl.evaluation.evaluator import Evaluator

_log = logging.getLogger(__name__)

#: How often early external events are looked at, which need no timer.
_EVENTS_INTERVAL_S: Final = 10.0
#: Workflows that one turn continues: the rest has the next one.
_MOST_WORKFLOWS: Final = 100


class TimerTurns:
    """Fires due timers: each turn asks the store for its first timer, and does more only when that is due.

    Several servers may do so on one store: of two that fire one timer, the second finds that it is gone.
    """

    def __init__(self, store: TimerStore, evaluator: Evaluator, clock: Clock, after: Callable[[], object]) -> None:
        """`after` is called when workflows were continued: they may have made tasks."""
        self._store = store
        # One of another make may know no timers.
        self._fire_timers: Callable[[int], object] | None = getattr(evaluator, "fire_timers", None)
        self._clock = clock
        self._after = after
        self._next_look_s = float("-inf")
        self._firing = threading.Lock()

    def turn(self, run: Callable[[Callable[[], object]], object]) -> None:
        """Let `run` fire what is due, if anything is. Raises the store's errors."""
        if self._fire_timers is None:
            return
        next_ms, now_s = self._store.next_timer_ms(), self._clock.monotonic_s()
        is_due = next_ms is not None and next_ms <= self._clock.now_ms()
        if is_due or now_s >= self._next_look_s:
            self._next_look_s = now_s + _EVENTS_INTERVAL_S
            run(self._fire)

    def _fire(self) -> None:
        # A turn that takes longer than the interval does not overlap the next one.
        if self._fire_timers is None or not self._firing.acquire(blocking=False):
            return
        try:
            if self._fire_timers(_MOST_WORKFLOWS):
                self._after()
        except Exception as error:  # noqa: BLE001 - they are still due in the next turn
            _log.error("timers could not be fired\n%s", exception_traceback(error))
        finally:
            self._firing.release()
