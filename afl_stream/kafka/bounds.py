"""Questions to brokers that are repeated while leaders change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl_stream.kafka.errors import error_of, passes

T = TypeVar("T")


def answer_to(
    ask: Callable[[float], T],
    timeout_s: float,
    pause_s: float,
    *,
    stop: Stop = PROCESS_STOP,
    clock_s: MonotonicClock = monotonic_s,
) -> T:
    """Return what `ask`, given the seconds that it has, comes back with.

    A broker that has just come back, or that has just become the leader, answers with an error that passes, and the
    question is repeated. Raises KafkaException for an error that does not pass, and for the last one at the end of the
    time.
    """
    deadline_s = clock_s() + timeout_s
    while True:
        try:
            return ask(max(pause_s, deadline_s - clock_s()))
        except KafkaException as error:
            if not passes(error_of(error)) or clock_s() >= deadline_s or stop.wait(pause_s):
                raise
