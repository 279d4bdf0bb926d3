"""The request to stop: a signal handler makes it, and waiting code checks it."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol


class Stop(Protocol):
    """The interface by which a loop checks whether it should end; threading.Event has it too."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class StopFlag:
    """A Stop that a signal handler may set, whatever lock the interrupted thread holds.

    threading.Event is unsafe there: the interrupted thread itself may hold its lock, and would then wait for itself.
    """

    def __init__(self) -> None:
        self._is_set = False
        #: Not empty once the flag is set. SimpleQueue.put is safe inside a signal handler.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Say whether stopping was requested."""
        return self._is_set

    def set(self) -> None:
        """Request the stop."""
        self._is_set = True
        self._wakes.put(None)

    def clear(self) -> None:
        """Withdraw the request: the work that it was meant for has ended."""
        self._is_set = False
        with suppress(Empty):
            while True:
                self._wakes.get_nowait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the request, up to `timeout` seconds, and say whether it came."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=timeout)
                # Put back for other waiting threads.
                self._wakes.put(None)
        return self._is_set


#: Set while this process ends because of a signal. Waits that a drain does not need check it.
PROCESS_STOP: Final = StopFlag()
