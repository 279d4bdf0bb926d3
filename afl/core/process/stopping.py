"""The request to stop: a signal handler makes it, and waiting code checks it."""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol

#: How long a signal may go unnoticed that comes between the last look at the flag and the wait.
_LONGEST_WAIT_S: Final = 0.5


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
        """Wait for the request, up to `timeout` seconds, and say whether it came.

        A signal that comes when the main thread is just about to wait does not interrupt it: Python runs the handler
        once the main thread is back. So no single wait is long.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left_s = _LONGEST_WAIT_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                break
            with suppress(Empty):
                self._wakes.get(timeout=min(left_s, _LONGEST_WAIT_S))
                if self._is_set:
                    # Put back for other waiting threads.
                    self._wakes.put(None)
        return self._is_set


#: Set while this process ends because of a signal. Waits that a drain does not need check it.
PROCESS_STOP: Final = StopFlag()
