"""Publishers that wait for room on a topic."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from afl_stream.pubsub.running.topic_log import TopicLog


class _Waiter(NamedTuple):
    log: TopicLog
    granted: asyncio.Future[None]


class RoomQueue:
    """Publishers that wait for room, in the order in which they came.

    Room that is granted is taken off the topic's until it is used, so that no later publisher takes it.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[_Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def enter(self, log: TopicLog) -> _Waiter:
        """Begin to wait for room on a topic."""
        waiter = _Waiter(log, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        return waiter

    async def until_granted(self, waiter: _Waiter) -> None:
        """Wait. On return the room is the waiter's, to be used before anything else is awaited."""
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                waiter.log.room_end += 1
            raise
        waiter.log.room_end += 1

    def grant_free(self) -> None:
        """Let go on whoever there is room for now."""
        if not self._waiters:
            return
        kept: deque[_Waiter] = deque()
        for waiter in self._waiters:
            if not waiter.log.is_full():
                _grant(waiter)
            else:
                kept.append(waiter)
        self._waiters = kept

    def grant_oldest(self) -> None:
        """Let the one go on that has waited longest: nothing else would ever make room for it."""
        _grant(self._waiters.popleft())

    def grant_all(self) -> None:
        """Let everyone go on: the run ends."""
        while self._waiters:
            self.grant_oldest()


def _grant(waiter: _Waiter) -> None:
    waiter.log.room_end -= 1
    if not waiter.granted.done():
        waiter.granted.set_result(None)
