"""The connection of an asynchronous client: a thread that sends, and one reader of the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from afl_stream.client.async_answers import AsyncAnswers, ClientNotOpen, Expected
from afl_stream.client.async_milestones import AsyncMilestones
from afl_stream.client.client import Client
from afl_stream.client.connection import NAMES_KNOWN_S, drawn_id
from afl_stream.client.milestones import NotAnswered
from afl_stream.client.threads import CallThread, opened_in_thread
from afl_stream.sensitive.redaction import Redaction
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport
from afl_stream.wire.command_answers import checked_answer
from afl_stream.wire.messages import Lifecycle

if TYPE_CHECKING:
    from afl_stream.tracing.tracer import Tracer

T = TypeVar("T")


class AsyncConnection:
    """The part of an asynchronous client that sends commands, and waits for the answers to them."""

    def __init__(
        self,
        config: StreamConfig,
        transport: Transport,
        *,
        timeout_s: float = 10.0,
        names_known_s: float = NAMES_KNOWN_S,
        tracer: Tracer | None = None,
    ) -> None:
        """Take what a `Client` takes. Nothing is connected before `open`."""
        self.topology = Topology(config)
        self._make = lambda: Client(config, transport, timeout_s=timeout_s, names_known_s=names_known_s, tracer=tracer)
        self._client: Client | None = None
        #: How often it was closed: what is opened meanwhile is closed at once.
        self._closings = 0
        self._thread: CallThread | None = None
        self._answers = AsyncAnswers(self.milestones)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. Raises as `Client`, and ClientNotOpen when it is closed meanwhile."""
        closings = self._closings
        client, thread = await opened_in_thread("afl-client", self._make)
        if self._closings != closings:
            await _ended(client, thread)
            raise ClientNotOpen
        self._client, self._thread = client, thread

    async def close(self) -> None:
        """Disconnect, after the calls that are at work; a second time does nothing."""
        self._closings += 1
        client, thread = self._client, self._thread
        if client is None or thread is None:
            return
        self._client = self._thread = None
        try:
            await self._answers.close()
        finally:
            await _ended(client, thread)

    def milestones(
        self,
        workflow_id: str | None = None,
        *,
        from_beginning: bool = False,
        since_ms: int | None = None,
        redaction: Redaction | None = None,
    ) -> AsyncMilestones:
        """Return a reader of the lifecycle topic, which `async with` opens; see `Client.milestones`."""
        client = self._opened()[0]
        return AsyncMilestones(
            lambda: client.milestones(
                workflow_id, from_beginning=from_beginning, since_ms=since_ms, redaction=redaction
            )
        )

    async def _sent(
        self,
        send: Callable[[Client, str | None], T],
        command_id: str | None,
        answer_timeout_s: float | None,
        about: str,
    ) -> T:
        """Send something, wait for the evaluator's answer if there is time for it, and return what sending gave."""
        return (await self._give(send, command_id, answer_timeout_s, about))[0]

    async def _answered(
        self,
        send: Callable[[Client, str | None], object],
        command_id: str | None,
        answer_timeout_s: float | None,
        about: str,
    ) -> Lifecycle | None:
        """Send something, and return the evaluator's answer if there is time for it."""
        return (await self._give(send, command_id, answer_timeout_s, about))[1]

    async def _give(
        self,
        send: Callable[[Client, str | None], T],
        command_id: str | None,
        answer_timeout_s: float | None,
        about: str,
    ) -> tuple[T, Lifecycle | None]:
        """Send something, and return what that gave, with the evaluator's answer if one is waited for."""
        if answer_timeout_s is None:
            return await self._call(lambda client: send(client, command_id)), None
        drawn = command_id or drawn_id()
        async with self._answers.answer_to(drawn) as expected:
            given = await self._call(lambda client: send(client, drawn))
            try:
                answer = await within(expected, time.monotonic() + answer_timeout_s)
            except TimeoutError:
                raise NotAnswered(about, answer_timeout_s) from None
        return given, checked_answer(answer)

    async def _call(self, function: Callable[[Client], T]) -> T:
        client, thread = self._opened()
        return await thread.call(function, client)

    def _opened(self) -> tuple[Client, CallThread]:
        if self._client is None or self._thread is None:
            raise ClientNotOpen
        return self._client, self._thread


async def _ended(client: Client, thread: CallThread) -> None:
    """Close a client by its thread, after the calls that are at work. Cancelled, that goes on."""
    ending = thread.begin(client.close)
    thread.end()
    await asyncio.shield(ending)


async def within(expected: Expected, deadline_s: float) -> Lifecycle:
    """Return what is expected. Raises TimeoutError."""
    async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
        return await expected
