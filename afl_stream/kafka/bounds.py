"""Offsets of partitions, asked for until a broker tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaException

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl_stream.kafka.errors import error_of, passes
from afl_stream.kafka.view import is_reported
from afl_stream.transport import Watermarks

#: A broker's answer for a time that no record reaches. The client's own -1001 says that there was no answer.
_NONE_SO_NEW: Final = -1


def since_or_end(offset: int, end: int) -> int:
    """Return the first offset since a time; where no record is so new, the end of the log."""
    return end if offset == _NONE_SO_NEW else offset


def bounds_when_told(
    ask: Callable[[float], Sequence[int]],
    timeout_s: float,
    pause_s: float,
    *,
    stop: Stop = PROCESS_STOP,
    clock_s: MonotonicClock = monotonic_s,
) -> Watermarks | None:
    """Return the bounds that `ask` comes back with, or None; see `offsets_when_told`."""
    found = offsets_when_told(ask, timeout_s, pause_s, stop=stop, clock_s=clock_s)
    return None if found is None else Watermarks(low=found[0], high=found[1])


def offsets_when_told(
    ask: Callable[[float], Sequence[int]],
    timeout_s: float,
    pause_s: float,
    *,
    stop: Stop = PROCESS_STOP,
    clock_s: MonotonicClock = monotonic_s,
) -> Sequence[int] | None:
    """Return the offsets that `ask`, given the seconds that it has, comes back with; None when not told in time.

    A broker that has just come back, or that has just become the leader, answers with an error that passes, and the
    question is repeated. Raises KafkaException for an error that does not pass, and for the last one at the end of the
    time.
    """
    deadline_s = clock_s() + timeout_s
    while True:
        last: KafkaException | None = None
        try:
            found = ask(max(pause_s, deadline_s - clock_s()))
            if is_reported(*found):
                return found
        except KafkaException as error:
            if not passes(error_of(error)):
                raise
            last = error
        if clock_s() >= deadline_s or stop.wait(pause_s):
            if last is not None:
                raise last
            return None
