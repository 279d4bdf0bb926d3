"""The lifecycle topic as asyncio programs follow it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from afl_stream.client.milestones import Milestones, NotAnswered
from afl_stream.client.threads import CallThread, opened_in_thread
from afl_stream.transport import BrokerUnavailable
from afl_stream.wire.command_answers import checked_answer, is_answer_to
from afl_stream.wire.messages import Lifecycle

#: One read in the thread: closing waits for it.
READ_S: Final = 0.5


class AsyncMilestones:
    """`Milestones` for an event loop: `async with` opens and closes the reader, `async for` yields one after another.

    The reader has a thread of its own, so that the loop never waits. A read whose awaiting is cancelled loses nothing:
    the next one returns what it has read.
    """

    def __init__(self, open_reader: Callable[[], Milestones]) -> None:
        """`open_reader` is called in the reader's thread."""
        self._open_reader = open_reader
        self._reader: Milestones | None = None
        self._thread: CallThread | None = None
        self._reading: asyncio.Future[list[Lifecycle]] | None = None
        self._read: deque[Lifecycle] = deque()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Stand at the place of the topic from which milestones are read. Raises as `Milestones`."""
        self._reader, self._thread = await opened_in_thread("afl-milestones", self._open_reader)

    @property
    def has_read_what_was_there(self) -> bool:
        """Return whether all is read that the topic had when the reader was opened."""
        reader = self._opened()[0]
        return self._reading is None and not self._read and reader.has_read_what_was_there

    async def read(self, timeout_s: float) -> list[Lifecycle]:
        """Return new milestones, after a wait of up to `timeout_s` for the first.

        Raises BrokerUnavailable while no broker answers.
        """
        if self._read:
            found = [*self._read]
            self._read.clear()
            return found
        end_s = time.monotonic() + timeout_s
        while not (found := await self._read_once(max(0.0, end_s - time.monotonic()))) and time.monotonic() < end_s:
            pass
        return found

    async def _read_once(self, timeout_s: float) -> list[Lifecycle]:
        reader, thread = self._opened()
        if self._reading is None:
            self._reading = thread.begin(reader.read, min(timeout_s, READ_S))
        reading = self._reading
        try:
            # Cancelled, it goes on, and what it reads is for the next one.
            return await asyncio.shield(reading)
        finally:
            if reading.done():
                self._reading = None

    async def answer_to(self, command_id: str, timeout_s: float, *, about: str = "a command") -> Lifecycle:
        """Read up to an evaluator's answer to a command, and return it; milestones before it are dropped.

        Raises RefusedByEvaluator, and NotAnswered after `timeout_s`, also while no broker answers.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    milestone = await self._next()
                    if is_answer_to(command_id, milestone):
                        return checked_answer(milestone)
        except TimeoutError:
            raise NotAnswered(about, timeout_s) from None

    async def _next(self) -> Lifecycle:
        while not self._read:
            try:
                self._read.extend(await self.read(READ_S))
            except BrokerUnavailable:
                await asyncio.sleep(READ_S)
        return self._read.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Lifecycle:
        """Return the next milestone, however long it takes; while no broker answers it waits for one."""
        return await self._next()

    def _opened(self) -> tuple[Milestones, CallThread]:
        if self._reader is None or self._thread is None:
            raise RuntimeError("milestones are read inside `async with client.milestones(...) as milestones`")
        return self._reader, self._thread

    async def close(self) -> None:
        """Close the reader; a second time does nothing. Being cancelled meanwhile leaves it to the thread."""
        reader, thread = self._reader, self._thread
        if reader is None or thread is None:
            return
        self._reader = self._thread = None
        reading, closing = self._reading, thread.begin(reader.close)
        thread.end()
        if reading is not None:
            # Nobody awaits it any more: an error of it is nobody's.
            reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.shield(closing)
