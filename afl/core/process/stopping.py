"""The word to stop: given by a signal handler, looked at by whatever waits."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol


class Stop(Protocol):
    """What a loop asks whether it is to end; threading.Event is one too."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class StopFlag:
    """A Stop that a signal handler may set, whatever the thread holds that the signal has interrupted.

    A threading.Event may not: its lock can be held by that very thread, which then waits for itself.
    """

    def __init__(self) -> None:
        self._is_set = False
        #: Holds something once the flag is set. SimpleQueue.put is safe inside a signal handler.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether the word has come."""
        return self._is_set

    def set(self) -> None:
        """Give the word."""
        self._is_set = True
        self._wakes.put(None)

    def clear(self) -> None:
        """Take the word back: what it was meant for has ended."""
        self._is_set = False
        with suppress(Empty):
            while True:
                self._wakes.get_nowait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the word, up to `timeout` seconds, and say whether it has come."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=timeout)
                # For the others that wait.
                self._wakes.put(None)
        return self._is_set


#: Set while this process ends because a signal has told it to. Waits that a drain does not need look at it.
PROCESS_STOP: Final = StopFlag()
