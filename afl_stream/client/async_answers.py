"""Evaluators' answers and ends of runs, read by one task for all coroutines of a client that wait for any."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from afl.core.text.exception_text import exception_line
from afl_stream.client.async_milestones import READ_S, AsyncMilestones
from afl_stream.errors import StreamError
from afl_stream.transport import BrokerUnavailable
from afl_stream.wire.bounded_texts import kept_id
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.milestone_kinds import WORKFLOW_ENDS

_log = logging.getLogger(__name__)

#: How long the topic is followed after the last wait, which the next one need not open again.
_IDLE_S: Final = 10.0

#: What one coroutine waits for.
Expected = asyncio.Future[Lifecycle]


class ClientNotOpen(StreamError, RuntimeError):
    """An asynchronous client is used outside its `async with`."""

    def __init__(self) -> None:
        super().__init__(
            "the client is not open: use it inside `async with AsyncClient(config, transport) as client`, or between "
            "`await client.open()` and `await client.close()`"
        )


class AsyncAnswers:
    """Follows the lifecycle topic while there is a wait, and gives each milestone to the coroutines that wait for it.

    A wait is entered before the command is sent: then the topic is followed already.
    """

    def __init__(self, milestones: Callable[[], AsyncMilestones], idle_s: float = _IDLE_S) -> None:
        self._milestones, self._idle_s = milestones, idle_s
        self._by_command: dict[str, Expected] = {}
        self._by_run: dict[str, set[Expected]] = {}
        self._task: asyncio.Task[None] | None = None
        #: Held while following begins or ends.
        self._turning = asyncio.Lock()

    @asynccontextmanager
    async def answer_to(self, command_id: str) -> AsyncIterator[Expected]:
        """Expect the answer to a command. Raises TopicMissing, and what the transport raises."""
        expected: Expected = asyncio.get_running_loop().create_future()
        key = kept_id(command_id)
        assert key is not None
        self._by_command[key] = expected
        try:
            await self._follow_from_now()
            yield expected
        finally:
            expected.cancel()
            self._by_command.pop(key, None)

    @asynccontextmanager
    async def end_of(self, workflow_id: str) -> AsyncIterator[Expected]:
        """Expect the end of a run. Raises as `answer_to`."""
        expected: Expected = asyncio.get_running_loop().create_future()
        self._by_run.setdefault(workflow_id, set()).add(expected)
        try:
            await self._follow_from_now()
            yield expected
        finally:
            expected.cancel()
            waiting = self._by_run.get(workflow_id, set())
            waiting.discard(expected)
            if not waiting:
                self._by_run.pop(workflow_id, None)

    async def close(self) -> None:
        """Follow no more; what is still waited for raises ClientNotOpen."""
        async with self._turning:
            task, self._task = self._task, None
            self._fail(ClientNotOpen())
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow_from_now(self) -> None:
        async with self._turning:
            if self._task is None:
                milestones = self._milestones()
                await milestones.open()
                self._task = asyncio.create_task(self._follow(milestones), name="afl-answers")

    async def _follow(self, milestones: AsyncMilestones) -> None:
        used_s = time.monotonic()
        try:
            while True:
                try:
                    found = await milestones.read(READ_S)
                except BrokerUnavailable as error:
                    _log.debug("the lifecycle topic is read again: %s", exception_line(error))
                    await asyncio.sleep(READ_S)
                    continue
                for milestone in found:
                    self._tell(milestone)
                if self._by_command or self._by_run:
                    used_s = time.monotonic()
                elif time.monotonic() - used_s > self._idle_s and await self._ends():
                    return
        except Exception as error:  # noqa: BLE001 - raised by all that wait
            self._task = None
            self._fail(error)
        finally:
            await milestones.close()

    async def _ends(self) -> bool:
        """End following, unless a wait has begun meanwhile."""
        async with self._turning:
            if self._by_command or self._by_run:
                return False
            self._task = None
            return True

    def _tell(self, milestone: Lifecycle) -> None:
        waiting = [self._by_command.get(milestone.command_id)] if milestone.command_id is not None else []
        if milestone.kind in WORKFLOW_ENDS:
            waiting += self._by_run.get(milestone.workflow_id, set())
        for expected in waiting:
            if expected is not None and not expected.done():
                expected.set_result(milestone)

    def _fail(self, error: Exception) -> None:
        for expected in [*self._by_command.values(), *(one for several in self._by_run.values() for one in several)]:
            if not expected.done():
                expected.set_exception(error)
