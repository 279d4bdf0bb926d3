"""Event stores whose database is used by a thread of its own, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import StoredEvent

#: The most that is written in one transaction: appends, and bytes of them (one that is larger is written alone).
MAX_APPENDS: Final = 1_000
MAX_BYTES: Final = 4 * 1024 * 1024


class _Sized(Protocol):
    @property
    def size(self) -> int:
        """About how many bytes it takes."""


#: What a database takes as an append.
A = TypeVar("A", bound=_Sized)
A_contra = TypeVar("A_contra", bound=_Sized, contravariant=True)
#: Makes it of the arguments of EventStore.append, on the event loop: a copy, which what happens later does not change.
Prepare: TypeAlias = Callable[[RequestKey, InvokeContext, int, Sequence[StoredEvent], RequestStatus], A]


class Database(Protocol[A_contra]):
    """The side of a store that one thread uses."""

    @property
    def name(self) -> str: ...

    def append(self, appends: Sequence[A_contra]) -> Sequence[Exception | None]:
        """Write appends, durably, in this order; return what became of each. What is raised befell all of them."""

    def request(self, key: RequestKey) -> StoredRequest | None: ...

    def requests(self, workflow: str, statuses: Sequence[RequestStatus]) -> list[RequestKey]: ...

    def forget(self, key: RequestKey) -> None: ...

    def workflows(self) -> list[str]: ...

    def forget_old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus]) -> int: ...

    def close(self) -> None: ...


class _Job(NamedTuple, Generic[A]):
    """One call of the store. `call` None: `append` is to be written. Neither: the thread ends."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    append: A | None = None
    call: Callable[[], object] | None = None


class _Outcome(NamedTuple):
    job: _Job[Any]
    result: object
    error: BaseException | None


class ThreadedEventStore(Generic[A]):
    """An event store over a database that one thread uses. It keeps the port EventStore.

    Calls are carried out in the order in which they were made. Appends that wait while others are being written are
    written together, in one transaction. Memory holds the appends that are waited for, and nothing else.
    """

    def __init__(self, database: Database[A], prepare: Prepare[A]) -> None:
        self._database = database
        self._prepare = prepare
        self._jobs: SimpleQueue[_Job[A]] = SimpleQueue()
        self._ended: asyncio.Future[None] | None = None
        #: Held while a call is put: behind the last one the thread serves none, and calls come from any event loop.
        self._putting = Lock()
        self._thread = Thread(target=self._work, name=f"event store {database.name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of calls that the thread has not begun."""
        return self._jobs.qsize()

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        """Append events: see EventStore. Raises EventStoreUnavailable, EventsTooLarge and ValueRefused too."""
        await self._done(append=self._prepare(key, context, first, events, status))

    async def request(self, key: RequestKey) -> StoredRequest | None:
        """Return a request. Raises EventStoreUnavailable, and EventStoreUnusable when a row of it is damaged."""
        found: StoredRequest | None = await self._done(call=lambda: self._database.request(key))
        return found

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        """Return the requests of a workflow, oldest first. Raises EventStoreUnavailable."""
        found: list[RequestKey] = await self._done(call=lambda: self._database.requests(workflow, statuses))
        return found

    async def forget(self, key: RequestKey) -> None:
        """Remove a request and its events. Raises EventStoreUnavailable."""
        await self._done(call=lambda: self._database.forget(key))

    async def forget_old(
        self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus] = (RequestStatus.FINISHED,)
    ) -> int:
        """Remove a batch of requests: see PurgesByAge. Raises EventStoreUnavailable."""
        found: int = await self._done(call=lambda: self._database.forget_old(workflow, before_ms, statuses))
        return found

    async def forget_finished(self, before_ms: int, workflow: str | None = None) -> int:
        """Remove requests that are finished and were last appended to before this time, of one workflow or of all.

        They go in batches, between which others are served. Returns how many went. Raises EventStoreUnavailable.
        """
        gone = 0
        for name in await self._done(call=self._database.workflows) if workflow is None else [workflow]:
            while batch := await self.forget_old(name, before_ms):
                gone += batch
        return gone

    async def close(self) -> None:
        """Carry out what was asked for, and close the database. Later calls raise EventStoreUnavailable."""
        with self._putting:
            if self._ended is None:
                loop = asyncio.get_running_loop()
                self._ended = loop.create_future()
                self._jobs.put(_Job(loop, self._ended))
        await asyncio.shield(self._ended)
        self._thread.join()

    async def _done(self, *, append: A | None = None, call: Callable[[], object] | None = None) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._putting:
            if self._ended is not None:
                raise EventStoreUnavailable(self._database.name, "it has been closed")
            self._jobs.put(_Job(loop, future, append, call))
        return await future

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        pending: _Job[A] | None = None
        while True:
            job = pending or self._jobs.get()
            pending = None
            if job.append is not None:
                appends, pending = self._gathered(job)
                _report(self._written(appends))
            elif job.call is not None:
                _report([_called(job, job.call)])
            else:
                _report([_called(job, self._database.close)])
                return

    def _gathered(self, first: _Job[A]) -> tuple[list[_Job[A]], _Job[A] | None]:
        """Return this append with those that wait behind it, and the job that came after them, if it was taken."""
        gathered, size = [first], first.append.size if first.append else 0
        with suppress(Empty):
            while len(gathered) < MAX_APPENDS and size < MAX_BYTES:
                job = self._jobs.get_nowait()
                if job.append is None:
                    return gathered, job
                gathered.append(job)
                size += job.append.size
        return gathered, None

    def _written(self, jobs: Sequence[_Job[A]]) -> list[_Outcome]:
        try:
            errors: Sequence[BaseException | None] = self._database.append(
                [job.append for job in jobs if job.append is not None]
            )
        except BaseException as error:  # noqa: BLE001 - the callers hear of it; the thread serves others
            errors = [error] * len(jobs)
        return [_Outcome(job, None, error) for job, error in zip(jobs, errors, strict=True)]


def _called(job: _Job[Any], call: Callable[[], object]) -> _Outcome:
    try:
        return _Outcome(job, call(), None)
    except BaseException as error:  # noqa: BLE001 - the caller hears of it; the thread serves others
        return _Outcome(job, None, error)


def _report(outcomes: Sequence[_Outcome]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, told in by_loop.items():
        # A loop that has ended waits for nothing any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, told)


def _settle(outcomes: Sequence[_Outcome]) -> None:
    for job, result, error in outcomes:
        # A caller that was cancelled has cancelled its future.
        if job.future.done():
            continue
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
