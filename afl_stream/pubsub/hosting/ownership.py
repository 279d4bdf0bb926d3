"""Whose a request is, while partitions move between workers."""

from __future__ import annotations

import asyncio

from afl_stream.pubsub.event_stores.store import RequestKey
from afl_stream.pubsub.hosting.failures import RequestMoved


class Ownership:
    """Whether a request may be appended to: it is owned, suspended during a rebalance, or gone."""

    def __init__(self, key: RequestKey) -> None:
        self._key = key
        self._suspended: asyncio.Future[None] | None = None
        self._writing = 0
        self._written: asyncio.Future[None] | None = None
        self.is_gone = False

    @property
    def is_suspended(self) -> bool:
        """Whether a rebalance will say whose the request is."""
        return self._suspended is not None

    async def begin_write(self) -> None:
        """Wait until the request is owned, and count a write. Raises RequestMoved."""
        if self._suspended is not None:
            await asyncio.shield(self._suspended)
        if self.is_gone:
            raise RequestMoved(*self._key)
        self._writing += 1

    def end_write(self) -> None:
        """Note that a write has ended, in whatever way."""
        self._writing -= 1
        if not self._writing and self._written is not None:
            self._written.set_result(None)
            self._written = None

    async def suspend(self) -> None:
        """Let no write begin, and return when none is on its way."""
        if self._suspended is None and not self.is_gone:
            self._suspended = asyncio.get_running_loop().create_future()
        if self._writing:
            self._written = self._written or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._written)

    def resume(self) -> None:
        """Let writes begin again."""
        suspended, self._suspended = self._suspended, None
        if suspended is not None:
            suspended.set_result(None)

    def give_up(self) -> None:
        """Refuse every write from now on."""
        self.is_gone = True
        self.resume()
