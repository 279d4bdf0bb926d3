"""Event stores that are closed while they are called, and calls that end in no ordinary error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event, Thread

import pytest

from afl.core.process.crashes import Crash
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.event_stores.threaded import ThreadedEventStore
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import StoredEvent
from tests.worlds.hosted import PATIENCE_S

KEY = RequestKey("sums", "r1")
CONTEXT = InvokeContext(assistant_request_id="r1")


class Append:
    size = 1


def append_of(
    key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
) -> Append:
    return Append()


class SlowDatabase:
    """A database that begins to write when the test lets it, and may raise anything."""

    name = "slow"

    def __init__(self, error: BaseException | None = None) -> None:
        self.may_write = Event()
        self.error = error
        self.written = 0
        self.is_closed = False

    def append(self, appends: Sequence[Append]) -> Sequence[Exception | None]:
        assert self.may_write.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.written += len(appends)
        return [None] * len(appends)

    def request(self, key: RequestKey) -> StoredRequest | None:
        if self.error is not None:
            raise self.error
        return None

    def requests(self, workflow: str, statuses: Sequence[RequestStatus]) -> list[RequestKey]:
        return []

    def forget(self, key: RequestKey) -> None:
        """Nothing is kept."""

    def workflows(self) -> list[str]:
        return []

    def forget_old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus]) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True


def test_calls_that_are_queued_are_carried_out_and_later_ones_refused() -> None:
    async def scenario() -> None:
        database = SlowDatabase()
        store = ThreadedEventStore(database, append_of)
        queued = [
            asyncio.create_task(store.append(KEY, CONTEXT, 0, (), RequestStatus.RUNNING)),
            asyncio.create_task(store.request(KEY)),
            asyncio.create_task(store.close()),
            asyncio.create_task(store.close()),
        ]
        await asyncio.sleep(0)
        with pytest.raises(EventStoreUnavailable, match="has been closed"):
            await store.request(KEY)
        database.may_write.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*queued)
        assert database.written == 1
        assert database.is_closed

    asyncio.run(scenario())


def test_calls_of_other_threads_beside_the_closing_are_carried_out_or_refused() -> None:
    store = ThreadedEventStore(SlowDatabase(), append_of)
    ended: list[object] = []

    async def ask_until_closed() -> None:
        while True:
            await store.request(KEY)

    def ask() -> None:
        try:
            asyncio.run(asyncio.wait_for(ask_until_closed(), PATIENCE_S))
        except (EventStoreUnavailable, TimeoutError) as error:
            ended.append(error)

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(store.close())
    for thread in threads:
        thread.join()
    assert [type(error) for error in ended] == [EventStoreUnavailable] * len(threads)


def test_what_is_no_exception_reaches_its_callers_and_the_store_can_be_closed() -> None:
    async def scenario() -> None:
        database = SlowDatabase(Crash("killed here"))
        database.may_write.set()
        store = ThreadedEventStore(database, append_of)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Crash):
                await store.append(KEY, CONTEXT, 0, (), RequestStatus.RUNNING)
            with pytest.raises(Crash):
                await store.request(KEY)
            await store.close()
        assert database.is_closed

    asyncio.run(scenario())
