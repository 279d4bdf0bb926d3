"""What a client follows of a request: its output, as it comes, and how the request stands then."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.failures import RequestFailed, RequestNotAnswered
from afl_stream.pubsub.hosting.records import RequestReport
from afl_stream.pubsub.model.events import TopicEvent
from afl_stream.transport import TopicPartition


class Invocation(AsyncIterator[TopicEvent]):
    """The output events of a request from its input on, until it is finished, waits, or failed.

    The events of one topic come in their order; those of different topics in any. `status` says at the end how the
    request stands; None before. Iterating raises NodeFailed or RequestFailed for a request that failed,
    RequestNotAnswered when the time is up, and the error that ended the client. Leaving the iteration early leaves the
    request alone.
    """

    def __init__(
        self,
        workflow: str,
        request_id: str,
        begin: Callable[[Invocation], Awaitable[None]],
        on_taken: Callable[[Invocation], None],
        timeout_s: float | None,
    ) -> None:
        """Follow a request; `begin` publishes the input, and when it is called once more, a question."""
        self.workflow = workflow
        self.request_id = request_id
        self.status: RequestStatus | None = None
        #: Ids that a report has to name before it is about this invocation.
        self.asked: set[str] = set()
        #: Whether all output from the request's beginning on is to come, and not only what follows an answer.
        self.is_whole = False
        #: Whether the request is followed on while it waits for what others publish.
        self.passes_waits = False
        #: Whether the input may be another one of a request that had output before.
        self.may_be_next = False
        self._has_to_ask = False
        self._begin = begin
        self._on_taken = on_taken
        self._timeout_s = timeout_s
        self._deadline_s: float | None = None
        self._events: deque[TopicEvent] = deque()
        self._seen: dict[str, set[str]] = {}
        self._report: RequestReport | None = None
        #: Up to where the output topics must have been read before the report counts.
        self._missing: dict[TopicPartition, int] = {}
        self._error: BaseException | None = None
        self._news: asyncio.Future[None] | None = None
        self._has_begun = False
        #: Whether the caller has all that it wants.
        self.is_over = False

    # --- the caller's side ------------------------------------------------------------------------------------------

    def __aiter__(self) -> Invocation:
        return self

    async def __anext__(self) -> TopicEvent:
        try:
            return await self._next()
        except BaseException:
            await self.aclose()
            raise

    async def _next(self) -> TopicEvent:
        if self.is_over and not self._events:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout_at(self._deadline()):
                if not self._has_begun:
                    self._has_begun = True
                    await self._begin(self)
                while True:
                    if self._events:
                        event = self._events.popleft()
                        self._on_taken(self)
                        return event
                    if self._error is not None:
                        raise self._error
                    if self._has_to_ask:
                        self._has_to_ask = False
                        await self._begin(self)
                        # Output and report may have come meanwhile; the output goes first.
                        continue
                    if self._report is not None and not self._missing:
                        self._ended(self._report)
                    self._news = asyncio.get_running_loop().create_future()
                    await self._news
        except TimeoutError:
            if self._timeout_s is None:
                raise
            raise RequestNotAnswered(self.workflow, self.request_id, self._timeout_s) from None

    def _deadline(self) -> float | None:
        if self._deadline_s is None and self._timeout_s is not None:
            self._deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        return self._deadline_s

    def _ended(self, report: RequestReport) -> None:
        self.status = report.status
        if report.status is RequestStatus.FAILED:
            if report.node:
                raise NodeFailed(self.workflow, report.node, self.request_id, report.error)
            raise RequestFailed(self.workflow, self.request_id, report.error)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Follow the request no longer."""
        if not self.is_over:
            self.is_over = True
            self._events.clear()
            self._on_taken(self)

    @property
    def buffered(self) -> int:
        """The number of events that the caller has not taken."""
        return len(self._events)

    # --- the client's side ------------------------------------------------------------------------------------------

    def take(self, event: TopicEvent) -> None:
        """Take an output event, unless it is known: a worker may have produced it twice."""
        seen = self._seen.setdefault(event.name, set())
        if event.event_id not in seen and not self.is_over:
            seen.add(event.event_id)
            self._events.append(event)
            self._wake()

    def take_report(self, report: RequestReport, places: Mapping[str, TopicPartition]) -> bool:
        """Take how the request stands; False: that is not about this invocation. `places`: where its output stands."""
        if not self.asked <= report.heard or (self.passes_waits and report.status is RequestStatus.WAITING):
            return False
        self._report = report
        self._missing = {places[topic]: last for topic, (_, last) in report.outputs.items() if last is not None}
        return True

    def has_ended(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Return whether the report counts no more, or all that it is about was read; `positions`: up to where."""
        report = self._report
        if report is None or self.is_over:
            return True
        self._missing = {place: last for place, last in self._missing.items() if positions.get(place, -1) < last}
        if self._missing:
            return False
        if self.is_whole and any(len(self._seen.get(name, ())) < count for name, (count, _) in report.outputs.items()):
            # Another caller was told before this one began to read: its own answer comes, with all of the output.
            self._report = None
            # Or there was output before this input: nobody produces that again unless he is asked.
            self._has_to_ask, self.may_be_next = self.may_be_next, False
        self._wake()
        return True

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
