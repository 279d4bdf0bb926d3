"""The pauses between requests to a registry that answers late or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.errors import SchemaUnavailable

#: A request that takes longer is late.
LATE_S: Final = 0.5
#: The time in late requests after which the registry is left alone once. With the last request it has to be far below
#: `max.poll.interval.ms`, 300 s by default, after which a group expels a member that has not polled.
LONGEST_STRETCH_S: Final = 10.0
#: How long it is left alone: long enough that the caller returns and polls.
FIRST_PAUSE_S: Final = 1.0
#: The longest pause, after several late requests without an answer.
LONGEST_PAUSE_S: Final = 5.0


class Pace:
    """Says when a registry is left alone. Threads may share it.

    A reader has many partitions, each record of which may name another schema. If it asked for all of them in one go,
    each for as long as a silent registry makes it wait, its group would expel it.
    """

    def __init__(self, clock_s: MonotonicClock = monotonic_s) -> None:
        """Begin without a pause."""
        self._clock_s = clock_s
        self._lock = Lock()
        self._silences = FailedAttempts(Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S))
        #: The time in late requests since the last pause, and when the last request ended.
        self._late_s = 0.0
        self._ended_s = float("-inf")
        self._pause_until_s = float("-inf")
        self._why = ""

    def rests_because(self) -> str | None:
        """Return why the registry is left alone now; None: it may be asked."""
        with self._lock:
            return self._why if self._clock_s() < self._pause_until_s else None

    @contextmanager
    def request(self) -> Iterator[None]:
        """Measure the request inside. SchemaUnavailable means that it was not answered."""
        began_s = self._clock_s()
        try:
            yield
        except SchemaUnavailable as error:
            self._note(began_s, None if error.waits_for_people else error.cause)
            raise
        except Exception:
            self._note(began_s, None)
            raise
        self._note(began_s, None)

    def _note(self, began_s: float, failure: str | None) -> None:
        """Note a request that has ended; `failure` says why it was not answered."""
        with self._lock:
            now_s = self._clock_s()
            took_s = now_s - began_s
            if began_s - self._ended_s >= FIRST_PAUSE_S:
                self._late_s = 0.0
            self._ended_s = now_s
            if failure is None:
                self._silences.reset()
            if took_s < LATE_S:
                return
            self._late_s += took_s
            if failure is not None:
                self._pause(now_s, self._silences.next_wait_s(), failure)
            elif self._late_s >= LONGEST_STRETCH_S:
                self._pause(now_s, FIRST_PAUSE_S, f"its last answers took {self._late_s:.0f} s")

    def _pause(self, now_s: float, pause_s: float, why: str) -> None:
        self._late_s = 0.0
        self._pause_until_s = now_s + pause_s
        self._why = f"{why}; it is asked again soon"
