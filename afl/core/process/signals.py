"""SIGINT and SIGTERM, from a process's first line to its last: the first signal drains, a second one ends at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from afl.core.process.long_waits import WAITS
from afl.core.process.stopping import PROCESS_STOP, StopFlag

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

#: A description of the work left before the process can end; empty when nothing is left.
Remaining = Callable[[], str]


class EndedBySignal(KeyboardInterrupt):
    """A signal asked this process to end while no work was under way that it would have to finish."""

    def __init__(self, number: int) -> None:
        super().__init__(f"told to end by {signal.Signals(number).name}")
        self.number = number


class _Drain:
    """The action at the first signal, and the time that it may take."""

    def __init__(self, stop: Callable[[], object], remaining: Remaining, limit_s: float | None, name: str) -> None:
        self.start = f"[{name}] " if name else ""
        self.stop = stop
        self.remaining = remaining
        self.at_most = "" if limit_s is None else f" ({limit_s:g} s at most)"
        #: Set by the signal, or by an end without a signal.
        self.is_stopping_or_over = StopFlag()
        self.is_over = StopFlag()
        #: The drain around this one, whose limit holds for both.
        self.around: _Drain | None = None

    def stopping(self) -> None:
        """Let the time of this drain run, and of those around it."""
        self.is_stopping_or_over.set()
        if self.around is not None:
            self.around.stopping()

    def end_at(self, limit_s: float, code: int) -> None:
        """End the process when the drain exceeds its time. Runs in a thread of its own."""
        self.is_stopping_or_over.wait()
        if self.is_over.wait(limit_s):
            return
        late = f"not done {limit_s:g} s after the signal: {_waits(self)}"
        _say(f"{self.start}{late}. Ended with {code}; remaining work is not lost")
        os._exit(code)


class _Handler:
    """The handler of both signals. The main thread makes it, because Python runs `handle` there."""

    def __init__(self, second_code: Callable[[int], int]) -> None:
        self._second_code = second_code
        self.first: int | None = None
        self.drain: _Drain | None = None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        drain = self.drain
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        name = name if drain is None else f"{drain.start}{name}"
        if self.first is not None:
            _say(f"{name} again: ended at once; the work under way is left to the next process")
            os._exit(self._second_code(number))
        self.first = number
        PROCESS_STOP.set()
        if drain is None:
            raise EndedBySignal(number)
        drain.stop()
        drain.stopping()
        _say(f"{name}: ends when this is done: {_waits(drain)}{drain.at_most}. A second signal ends it at once")


_handlers: list[_Handler] = []


@contextmanager
def signals_handled(second_code: Callable[[int], int] = lambda number: 128 + number) -> Iterator[None]:
    """Handle both signals. Enter this before slow work: connecting, heavy imports, opening a store.

    The first signal raises EndedBySignal in the main thread, or starts the drain inside `draining`. A second one ends
    the process at once with `second_code` of its number. Both signals always have a handler, because the kernel ignores
    signals without a handler for process 1 of a container.

    Nested calls, and calls outside the main thread, where Python allows no handlers, change nothing.
    """
    if _handlers or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _Handler(second_code)
    _handlers.append(handler)
    before = {number: signal.signal(number, handler.handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            # None: another library set the handler outside Python, and it cannot be restored.
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
        _handlers.remove(handler)
        PROCESS_STOP.clear()


@contextmanager
def draining(
    stop: Callable[[], object],
    remaining: Remaining = str,
    *,
    limit_s: float | None = None,
    limit_code: int = 1,
    name: str = "",
) -> Iterator[None]:
    """Call `stop` on the first signal, and report what the process still waits for, from `remaining`.

    Both run inside the signal handler and must not take a lock. A drain that takes longer than `limit_s` after the
    signal is given up: the process ends with `limit_code`. What is said begins with `name`, if given: which of several
    processes of one command says it. Outside the main thread nothing changes.
    """
    with signals_handled():
        if not _handlers or threading.current_thread() is not threading.main_thread():
            yield
            return
        handler, drain = _handlers[0], _Drain(stop, remaining, limit_s, name)
        if limit_s is not None:
            threading.Thread(target=drain.end_at, args=(limit_s, limit_code), name="afl-drain", daemon=True).start()
        before = drain.around = handler.drain
        handler.drain = drain
        try:
            yield
        finally:
            handler.drain = before
            drain.is_over.set()
            drain.is_stopping_or_over.set()


def _waits(drain: _Drain) -> str:
    return (
        "; ".join(text for text in (drain.remaining(), *WAITS.now()) if text)
        or "finishing and committing the current work"
    )


def _say(text: str) -> None:
    """Write to standard error directly: the interrupted thread may be writing to Python's own stream."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))
