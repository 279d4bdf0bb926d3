"""Events of requests in memory: for tests, and for workflows that need not outlive their process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from afl.core.clock import WallClock, epoch_ms
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import StoredEvent

#: How many requests one call of forget_old removes.
_REQUESTS_AT_ONCE: Final = 500


@dataclass(slots=True)
class _Request:
    context: InvokeContext
    status: RequestStatus
    created_at_ms: int
    updated_at_ms: int
    events: list[StoredEvent] = field(default_factory=list)


class MemoryEventStore:
    """The reference of the port. With `max_finished` it keeps so many finished requests, those that ended last."""

    def __init__(self, max_finished: int | None = None, *, clock: WallClock = epoch_ms) -> None:
        self._requests: dict[RequestKey, _Request] = {}
        self._max_finished: Final = max_finished
        self._clock = clock
        # In the order in which they finished.
        self._finished: dict[RequestKey, None] = {}

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        self.append_now(key, context, first, events, status)

    def append_now(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        """Append as `append` does; nothing here waits."""
        request = self._requests.get(key)
        found = 0 if request is None else len(request.events)
        if found != first:
            raise RequestConflict(key.workflow, key.request_id, first, found)
        now_ms = self._clock()
        if request is None:
            request = self._requests[key] = _Request(context, status, now_ms, now_ms)
        request.events.extend(events)
        request.context = context
        request.status = status
        request.updated_at_ms = now_ms
        if self._max_finished is not None:
            self._bound_finished(key, status)

    def _bound_finished(self, key: RequestKey, status: RequestStatus) -> None:
        self._finished.pop(key, None)
        if status == RequestStatus.FINISHED:
            self._finished[key] = None
            while len(self._finished) > (self._max_finished or 0):
                oldest = next(iter(self._finished))
                del self._finished[oldest], self._requests[oldest]

    async def request(self, key: RequestKey) -> StoredRequest | None:
        request = self._requests.get(key)
        if request is None:
            return None
        return StoredRequest(
            key=key,
            context=request.context,
            status=request.status,
            events=tuple(request.events),
            created_at_ms=request.created_at_ms,
            updated_at_ms=request.updated_at_ms,
        )

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        return [
            key
            for key, request in self._requests.items()
            if key.workflow == workflow and (not statuses or request.status in statuses)
        ]

    async def forget(self, key: RequestKey) -> None:
        self._requests.pop(key, None)
        self._finished.pop(key, None)

    async def forget_old(
        self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus] = (RequestStatus.FINISHED,)
    ) -> int:
        """Remove some requests of a workflow: see PurgesByAge."""
        old = (
            key
            for key, request in self._requests.items()
            if key.workflow == workflow and request.status in statuses and request.updated_at_ms < before_ms
        )
        chosen = list(islice(old, _REQUESTS_AT_ONCE))
        for key in chosen:
            await self.forget(key)
        return len(chosen)

    async def forget_finished(self, before_ms: int, workflow: str | None = None) -> int:
        """Remove all requests that finished before this time, of one workflow or of all; return how many."""
        gone = 0
        for name in {key.workflow for key in self._requests} if workflow is None else [workflow]:
            while batch := await self.forget_old(name, before_ms):
                gone += batch
        return gone

    async def close(self) -> None:
        """Keep everything: whoever has the store may go on with it."""

    def __repr__(self) -> str:
        return f"<MemoryEventStore of {len(self._requests)} requests>"
