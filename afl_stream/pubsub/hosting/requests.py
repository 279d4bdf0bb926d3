"""The requests that a worker has: which are at work, which wait for room, and whose they are in a rebalance."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from typing import Any, Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.text.exception_text import exception_line
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.errors import PubSubError, RequestConflict
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.counters import Counters
from afl_stream.pubsub.hosting.crash_suspects import CrashSuspects
from afl_stream.pubsub.hosting.failures import RequestMoved
from afl_stream.pubsub.hosting.publishing_store import PublishingStore
from afl_stream.pubsub.hosting.reader import Received
from afl_stream.pubsub.hosting.request import HostedRequest
from afl_stream.transport import BrokerUnavailable, TransportError

_log = logging.getLogger(__name__)

#: The waits before a request is opened again whose store failed, or that another worker ran too.
_AGAIN: Final = Backoff(0.1, 5.0)
#: Requests that are compared with the store at once after a rebalance.
_COMPARED: Final = 16


class WorkerRequests:
    """The requests of one worker's partitions. At most `limit` are at work or kept; others wait in their order.

    `on_fatal` is called with an error that is about more than one request.
    """

    def __init__(
        self,
        store: PublishingStore,
        suspects: CrashSuspects,
        partitions: int,
        limit: int,
        counters: Counters,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._suspects = suspects
        #: Partitions of which it is not known yet which requests were at work when their last owner died.
        self._unsearched: frozenset[int] = frozenset()
        self._partitions = partitions
        self._limit = limit
        self._counters = counters
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._variables = copy_context()
        self._all: dict[str, HostedRequest] = store.requests_here
        #: Requests with records, or taken over, that wait for room.
        self._queued: OrderedDict[str, None] = OrderedDict()
        self._takeovers: deque[str] = deque()
        self._at_work: set[HostedRequest] = set()
        #: Requests that wait for an event, kept so that they need not be restored; the one used longest ago first.
        self._kept: OrderedDict[str, HostedRequest] = OrderedDict()
        #: Attempts in a row of requests that could not go on.
        self._failures: dict[str, FailedAttempts] = {}
        self._owned: frozenset[int] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._last_error = ""

    @property
    def at_work(self) -> int:
        """How many requests are at work."""
        return len(self._at_work)

    @property
    def queued(self) -> int:
        """How many requests wait for room."""
        return len(self._queued) + len(self._takeovers)

    @property
    def problem(self) -> str | None:
        """Why requests cannot go on now, in words."""
        delayed = sum(request.is_delayed for request in tuple(self._all.values()))
        return f"{delayed} requests wait to be tried again: {self._last_error}" if delayed else None

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are this worker's now."""
        return self._owned

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do: requests that are here wait for events that have not come."""
        is_delayed = any(request.is_delayed for request in self._all.values())
        return not (self._at_work or self._queued or self._takeovers or self._tasks or is_delayed)

    # --- records ----------------------------------------------------------------------------------------------------

    def take(self, request_id: str, received: Received) -> None:
        """Take a record of a request."""
        if not received.partition.is_assigned:
            return
        request = self._request(request_id, received.record.partition)
        request.take(received)
        self._begin(request)

    def retry(self, request_id: str) -> bool:
        """Go on with a request, also one that failed; False: it is another worker's."""
        number = partition_for(request_id.encode(), self._partitions)
        if number not in self._owned or self._is_closing:
            return False
        request = self._request(request_id, number)
        request.is_wanted = True
        self._begin(request)
        return True

    def _request(self, request_id: str, partition: int) -> HostedRequest:
        request = self._all.get(request_id)
        if request is None:
            request = self._all[request_id] = HostedRequest(self._store, self._suspects, request_id, partition)
        return request

    # --- one request's task -----------------------------------------------------------------------------------------

    def _begin(self, request: HostedRequest) -> None:
        """Let a request be served as soon as there is room, unless it is."""
        if request.task is not None or request.is_delayed:
            return
        request_id = request.key.request_id
        is_full = len(self._at_work) >= self._limit and request_id not in self._kept
        if is_full or request.partition in self._unsearched:
            self._queued[request_id] = None
            return
        self._kept.pop(request_id, None)
        self._queued.pop(request_id, None)
        self._at_work.add(request)
        # With the worker's context variables: those current here may be of the request that has made room for this one.
        request.task = self._loop.create_task(
            self._serve(request), name=f"{request.key.workflow} {request_id}", context=self._variables.copy()
        )
        while self._kept and len(self._at_work) + len(self._kept) > self._limit:
            self._forget(self._kept[next(iter(self._kept))])

    async def _serve(self, request: HostedRequest) -> None:
        try:
            await request.serve()
        except (RequestMoved, asyncio.CancelledError):
            self._forget(request)
            return
        except RequestConflict as error:
            self._counters.add("conflicts")
            _log.warning("%s; it is restored from the store", error)
            self._later(request, error)
        except PubSubError as error:
            if isinstance(error.__cause__, TransportError) and not isinstance(error.__cause__, BrokerUnavailable):
                self._forget(request)
                self._on_fatal(error.__cause__)
                return
            self._counters.add("store_failures")
            _log.warning("%s; it is restored from the store and goes on", error)
            self._later(request, error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is about more than this request
            self._forget(request)
            self._on_fatal(error)
            return
        else:
            self._failures.pop(request.key.request_id, None)
            if request.failure is not None:
                _log.error("%s", request.failure)
        finally:
            request.task = None
            self._at_work.discard(request)
            self._rests(request)

    def _rests(self, request: HostedRequest) -> None:
        """Keep or drop a request that nothing can go on in, and let others begin."""
        if request.ownership.is_gone:
            self._forget(request)
        elif request.is_delayed or request.is_wanted or request.unfinished():
            self._begin(request)
        elif request.run is not None and request.run.status is RequestStatus.WAITING:
            self._kept[request.key.request_id] = request
        else:
            self._forget(request)
        self._begin_queued()

    def _later(self, request: HostedRequest, error: Exception) -> None:
        """Open a request again after a while."""
        attempts = self._failures.setdefault(request.key.request_id, FailedAttempts(_AGAIN))
        request.is_delayed = True
        self._last_error = exception_line(error)
        self._loop.call_later(attempts.next_wait_s(), self._again, request)

    def _again(self, request: HostedRequest) -> None:
        request.is_delayed = False
        if not request.ownership.is_gone and not self._is_closing:
            self._begin(request)

    def _forget(self, request: HostedRequest) -> None:
        request.ownership.give_up()
        request_id = request.key.request_id
        if self._all.get(request_id) is request:
            del self._all[request_id]
            self._queued.pop(request_id, None)
            self._kept.pop(request_id, None)
            self._failures.pop(request_id, None)

    def _begin_queued(self) -> None:
        """Begin what waits for room."""
        while len(self._at_work) < self._limit and not self._is_closing:
            may_begin = (r for r in self._queued if self._all[r].partition not in self._unsearched)
            if (request_id := next(may_begin, None)) is not None:
                self._begin(self._all[request_id])
            elif self._takeovers:
                request_id = self._takeovers.popleft()
                number = partition_for(request_id.encode(), self._partitions)
                if number in self._owned:
                    self._begin(self._request(request_id, number))
            else:
                return

    # --- partitions that come and go ----------------------------------------------------------------------------------

    def assigned(self, partitions: frozenset[int], crashed: frozenset[int]) -> None:
        """Take partitions: requests that were suspended go on, and unfinished ones of the store are taken over.

        Of partitions whose last owner `crashed` no request begins before it is known which were at work then.
        """
        self._owned |= partitions
        self._unsearched |= crashed
        self._spawn(self._take_over(partitions), "takeover")

    async def _take_over(self, partitions: frozenset[int]) -> None:
        suspended = [r for r in self._all.values() if r.ownership.is_suspended and r.partition in partitions]
        for start in range(0, len(suspended), _COMPARED):
            await asyncio.gather(*(self._compare(request) for request in suspended[start : start + _COMPARED]))
        attempts = FailedAttempts(_AGAIN)
        while not self._is_closing and partitions & self._owned:
            try:
                unfinished = await self._store.unfinished(partitions)
            except PubSubError as error:
                _log.warning("unfinished requests cannot be listed yet: %s", error)
                await asyncio.sleep(attempts.next_wait_s())
                continue
            for key in unfinished:
                number = partition_for(key.request_id.encode(), self._partitions)
                if number in partitions and number in self._owned:
                    if number in self._unsearched:
                        self._suspects.add(key.request_id, number)
                    if key.request_id not in self._all:
                        self._takeovers.append(key.request_id)
            break
        self._unsearched -= partitions
        self._begin_queued()

    async def _compare(self, request: HostedRequest) -> None:
        """Let a suspended request go on, if it stands as this worker left it; else it is restored."""
        try:
            has_changed = await self._store.has_changed(request)
        except PubSubError as error:
            _log.warning("%s: %s", request.key.request_id, exception_line(error))
            has_changed = True
        if has_changed:
            # Those that have come since the partition was assigned. Those that come from now on are behind them.
            records = [received for received in request.unfinished() if received.partition.is_assigned]
            self._forget(request)
            if not records:
                await self._drop([request])
                return
            restored = self._request(request.key.request_id, request.partition)
            restored.is_delayed = True
            for received in records:
                restored.take(received)
            await self._drop([request])
            self._again(restored)
        elif request.partition in self._owned:
            # Not one that was taken away again while the store was asked.
            self._counters.add("suspended")
            request.ownership.resume()

    async def revoke(self, partitions: frozenset[int], drain_s: float, suspended_s: float) -> None:
        """Let requests go on for so long, and suspend what is still at work then.

        Whether the same partitions come back is not known before they do. A request whose partition does not come back
        in `suspended_s` is dropped: what its nodes have not published by then, another worker's do again.
        """
        self._owned -= partitions
        self._suspects.drop(partitions)
        await self._rest(partitions, drain_s)
        left = [request for request in self._all.values() if request.partition in partitions]
        idle = [request for request in left if request.task is None]
        for request in idle:
            self._forget(request)
        at_work = [request for request in left if request.task is not None]
        await asyncio.gather(*(request.ownership.suspend() for request in at_work))
        for request in at_work:
            # Their records come again, to whoever is the owner.
            request.drop_records()
        self._loop.call_later(suspended_s, self._drop_suspended, at_work)

    async def _rest(self, partitions: frozenset[int], drain_s: float) -> None:
        tasks = [request.task for request in self._at_work if request.partition in partitions and request.task]
        if tasks and drain_s > 0:
            await asyncio.wait(tasks, timeout=drain_s)

    def _drop_suspended(self, requests: Iterable[HostedRequest]) -> None:
        suspended = [request for request in requests if request.ownership.is_suspended]
        if suspended:
            self._spawn(self._drop(suspended), "drop")

    def lost(self, partitions: frozenset[int]) -> None:
        """Drop the requests of partitions that another worker has already."""
        self._owned -= partitions
        self._suspects.drop(partitions)
        self._spawn(self._drop([r for r in self._all.values() if r.partition in partitions]), "drop")

    async def _drop(self, requests: Iterable[HostedRequest]) -> None:
        """End requests without another write, and return when their nodes have ended."""
        tasks = []
        for request in requests:
            request.drop_records()
            self._forget(request)
            if request.task is not None:
                request.task.cancel()
                tasks.append(request.task)
        if tasks:
            await asyncio.wait(tasks)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self, grace_s: float) -> None:
        """Let requests go on for so long, then end what is still at work: another worker goes on with it."""
        self._is_closing = True
        self._takeovers.clear()
        await self._rest(frozenset(range(self._partitions)), grace_s)
        at_work = [request for request in self._all.values() if request.task is not None]
        await asyncio.gather(*(request.ownership.suspend() for request in at_work))
        await self._drop(list(self._all.values()))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def die(self) -> None:
        """Store nothing more, as a killed process does."""
        self._is_closing = True
        for request in self._all.values():
            request.ownership.give_up()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=f"{self._store.workflow.name} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(error)
