"""Several calls at once, all of them ended when this ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def run_together(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]], at_once: int) -> list[T]:
    """Make the calls, at most `at_once` of them at a time, and return their results in the order of the calls.

    The first one that raises cancels the others, and its exception is raised after they have ended.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    room = asyncio.Semaphore(at_once)

    async def call_in_turn(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await call()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call_in_turn(call)) for call in calls]
    except BaseExceptionGroup as failed:
        # The group is the task group's own: the callers of these calls know none.
        first = failed.exceptions[0]
        raise first from first.__cause__
    return [task.result() for task in tasks]
