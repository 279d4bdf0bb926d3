"""Runs a server until it ends or a signal comes: the first one drains it, the second ends the process at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Final

_log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Interrupted(Exception):
    """A second signal came while the server was draining."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by a second {signal.Signals(number).name}")
        self.number = number


def run_until_signalled(start: Callable[[], object], stop: Callable[[], object]) -> None:
    """
    Run `start` in a thread, and call `stop` on the first SIGTERM or SIGINT; return when `start` has.

    The main thread, where signals go, does nothing but wait, so that a signal finds it holding no lock. Outside of it,
    where Python allows no signal handlers, `start` is called and that is all.

    Raises what `start` raises, and Interrupted on the second signal, with `start` still at work.
    """
    if threading.current_thread() is not threading.main_thread():
        start()
        return
    #: A signal's number, or None at the end. Putting something into it is safe inside a signal handler.
    news: SimpleQueue[int | None] = SimpleQueue()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            start()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            failures.append(error)
        finally:
            news.put(None)

    def tell(number: int, frame: FrameType | None) -> None:
        news.put(number)

    before = {number: signal.signal(number, tell) for number in _SIGNALS}
    try:
        threading.Thread(target=run, name="afl-runner", daemon=True).start()
        first = news.get()
        if first is not None:
            _log.info("%s: finishing what is under way", signal.Signals(first).name)
            stop()
            second = news.get()
            if second is not None:
                raise Interrupted(second)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failures:
        raise failures[0]
