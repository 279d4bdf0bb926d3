"""The event loop of a bridge, on a thread of its own: nodes, workflows and subscriptions run there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Lock, Thread, current_thread
from typing import Any, Final, TypeVar

from afl.core.handlers.loops import run_loop
from afl_stream.bridge.errors import BridgeNotRunning, WaitsForItself

T = TypeVar("T")

#: How long coroutines that are left at the end may take to end.
_GRACE_S: Final = 5.0


class LoopThread:
    """An event loop and its thread. Any thread, and any other event loop, may have coroutines run there."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread. It is started once."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=run_loop, args=(self._loop, _GRACE_S), name=self._name, daemon=True)
                self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and await it from another event loop; cancelling this cancels it.

        Raises BridgeNotRunning.
        """
        return await asyncio.wrap_future(self._begun(work))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and block until it has ended. Raises BridgeNotRunning, and WaitsForItself there."""
        if current_thread() is self._thread:
            work.close()
            raise WaitsForItself if self.is_running else BridgeNotRunning
        return self._begun(work).result()

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not closed."""
        return self._loop is not None

    def _begun(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._loop is None:
                work.close()
                raise BridgeNotRunning
            # Before the loop is told to stop: nobody would begin what comes after that, or tell its end.
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what is left, and end the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
