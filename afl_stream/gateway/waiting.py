"""Waiting on the event loop for what other threads tell."""

from __future__ import annotations

import asyncio


class Told:
    """Is told from any thread, and waited for on the event loop that has made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Wake who waits. Any thread may call this."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            # The loop has ended, and nobody waits there any more.
            return

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it was told since the last wait, or the time is over; return whether it was told."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return False
        self._event.clear()
        return True
