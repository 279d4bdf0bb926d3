"""Work for an AFL event that stops when the event needs no answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from afl.core.handlers.context import HandlerContext
from afl_stream.bridge.errors import AnswerNotNeeded

T = TypeVar("T")

#: How often a run is looked up, whether it was cancelled.
LOOK_INTERVAL_S: Final = 1.0


async def unless_cancelled(work: Awaitable[T], context: HandlerContext, interval_s: float = LOOK_INTERVAL_S) -> T:
    """Await the work; cancel it when the run of the event was cancelled or reset, and raise AnswerNotNeeded."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait((task,), timeout=interval_s))[0]:
            if await asyncio.to_thread(lambda: context.is_cancelled):
                raise AnswerNotNeeded(context.facet, context.event_id)
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
