"""Waits for Kafka's clients during which signals are handled, and a request to stop is obeyed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from afl.core.process.long_waits import WAITS
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl_stream.outage import broker_at
from afl_stream.transport import Stopping

T = TypeVar("T")

#: How often a wait checks for a request to stop.
_SLICE_S: Final = 0.2
#: How often a condition is asked for again.
_ASK_AGAIN_S: Final = 0.02
#: The longest call of a client that nothing can interrupt. A longer wait is several of them.
LONGEST_CALL_S: Final = 2.5


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Run a call that blocks in the client, where no signal is handled, on a thread of its own."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by the call that waits
            outcome.set_exception(error)

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    return outcome


def result_of(future: Future[T], timeout_s: float, what: str, stop: Stop = PROCESS_STOP, *, address: str = "") -> T:
    """Wait for an answer of the broker at an address.

    Raises TimeoutError, Stopping once the process is told to end, and what the future raises.
    """
    deadline_s = time.monotonic() + timeout_s
    with WAITS.on(f"{broker_at(address)}: {what}"):
        while not future.done():
            if stop.is_set():
                raise Stopping(what)
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                break
            _wait(future, min(_SLICE_S, remaining_s))
        return future.result(0)


def came_true(condition: Callable[[], bool], timeout_s: float, stop: Stop = PROCESS_STOP) -> bool:
    """Ask again and again, and return whether it came true: in time, and before the process is to end."""
    deadline_s = time.monotonic() + timeout_s
    while not (is_true := condition()):
        if time.monotonic() >= deadline_s or stop.wait(_ASK_AGAIN_S):
            break
    return is_true


def _wait(future: Future[T], timeout_s: float) -> None:
    """Wait until the future is done, or for `timeout_s`."""
    try:
        future.exception(timeout_s)
    except TimeoutError:
        # A time-out of the wait, or an error of the future: `done` tells them apart.
        return
