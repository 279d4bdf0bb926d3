"""Handlers that run at once for different keys, and one after the other for one key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from inspect import isawaitable
from typing import NamedTuple

from afl_stream.pubsub.errors import StageFailed
from afl_stream.pubsub.subscriptions.acknowledgements import Acknowledgement
from afl_stream.pubsub.subscriptions.flows import END, NOTHING, Flow, Function, failure, is_cancelled


class _Work(NamedTuple):
    """A value that was taken, and what stands behind it."""

    value: object
    behind: Acknowledgement


class KeyedHandlers:
    """Calls a handler for each value of a flow, with up to `concurrency` of them at work, in the order of each key.

    At most `max_pending` values are taken and not finished: a key whose handlers are slow then holds up the others.
    """

    def __init__(self, flow: Flow, name: str, handler: Function, concurrency: int, max_pending: int) -> None:
        self._flow = flow
        self._name, self._handler = name, handler
        self._concurrency = concurrency
        self._max_pending = max(concurrency, max_pending)
        #: What waits behind the value of each key that is at work.
        self._lanes: dict[Hashable, deque[_Work]] = {}
        self._ready: asyncio.Queue[Hashable] = asyncio.Queue()
        self._room = asyncio.Semaphore(self._max_pending)

    async def run(self) -> None:
        """Run until the flow ends. Raises StageFailed for a handler or stage that raised."""
        if self._concurrency <= 1:
            await self._run_in_turn()
            return
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(self._work()) for _ in range(self._concurrency)]
                await self._feed()
                for worker in workers:
                    worker.cancel()
        except BaseExceptionGroup as errors:
            first = _first(errors)
            raise first from first.__cause__

    async def _run_in_turn(self) -> None:
        while (value := await self._pull()) is not END:
            await self._handle(_Work(value, self._flow.behind))

    async def _feed(self) -> None:
        """Give the values to their keys' lanes, and return when all are finished."""
        while (value := await self._pull()) is not END:
            behind = self._flow.behind
            await self._room.acquire()
            work = _Work(value, behind)
            # Without a key there is no order to keep.
            key: Hashable = object() if behind.key is None else behind.key
            lane = self._lanes.get(key)
            if lane is None:
                self._lanes[key] = deque((work,))
                self._ready.put_nowait(key)
            else:
                lane.append(work)
        for _ in range(self._max_pending):
            await self._room.acquire()

    async def _pull(self) -> object:
        value = self._flow.take()
        return await self._flow.next() if value is NOTHING else value

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            lane = self._lanes[key]
            work = lane.popleft()
            # What has waited while its partition was lost is handled by the next owner alone.
            if not work.behind.is_lost:
                await self._handle(work)
            if lane:
                self._ready.put_nowait(key)
            else:
                del self._lanes[key]
            self._room.release()

    async def _handle(self, work: _Work) -> None:
        try:
            result = self._handler(work.value)
            if isawaitable(result):
                await result
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            # A cancellation of what the handler awaited, too: a worker that it ended would be missed by nobody.
            raise failure(self._name, work.behind, error) from error
        work.behind.ack()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that counts of a group: that of a stage, where there is one."""
    found = errors.subgroup(StageFailed) or errors
    error: BaseException = found
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
