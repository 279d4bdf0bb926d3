"""The event store in MongoDB keeps the contract, on a replica set and on a server without transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl.core.clock import ManualClock
from afl.core.process.crashes import Crash
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.mongo import MongoEventStore
from afl_stream.pubsub.event_stores.mongo_connection import MongoConnection
from afl_stream.pubsub.event_stores.mongo_database import MongoDatabase
from afl_stream.pubsub.event_stores.rows import append_of
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.events import StoredEvent
from tests.contract.event_store_contract import (
    CONTEXT,
    FAILED,
    FINISHED,
    KEY,
    RUNNING,
    WAITING,
    DurableEventStoreContract,
    EventStoreContract,
    NewStore,
    PurgingEventStoreContract,
    append,
    events_of,
    publish,
    publishes,
)

HOUR_MS = 3_600_000


class TestMongoEventStore(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, mongodb_of_either_kind: MongoDBConfig) -> NewStore:
        database = mongodb_of_either_kind
        return lambda: MongoEventStore(database.connection_string(), database=database.database)


@pytest.fixture
def database(standalone_mongodb: MongoDBConfig) -> MongoDBConfig:
    """Provide a database on a server that has no transactions to hide behind."""
    return standalone_mongodb


@pytest.fixture
def documents(database: MongoDBConfig) -> Iterator[Any]:
    """Provide the database as the driver sees it."""
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        yield client[database.database]


def with_store_in(database: MongoDBConfig, body: Callable[[MongoEventStore], Awaitable[object]]) -> None:
    async def run() -> None:
        store = MongoEventStore(database.connection_string(), database=database.database)
        try:
            await asyncio.wait_for(body(store), 60)
        finally:
            await store.close()

    asyncio.run(run())


class Process:
    """A process with a store, that ends at a step: the first, the second, ... time that it comes there."""

    def __init__(self, database: MongoDBConfig, step: str = "", at: int = 0, *, now_ms: int = 1_000_000) -> None:
        self.clock = ManualClock(now_ms)
        self.pause: Callable[[], object] | None = None
        self._step, self._left = step, at
        self._connection = MongoConnection(database.connection_string(), database=database.database, timeout_s=10)
        self.database = MongoDatabase(
            self._connection, clock=self.clock.now_ms, clock_s=self.clock.monotonic_s, probe=self._pass
        )

    def _pass(self, step: str) -> None:
        if step == self._step:
            if self._left == 0:
                if self.pause is None:
                    raise Crash(step)
                self._step = ""
                self.pause()
            self._left -= 1

    def append(
        self, first: int, events: Sequence[StoredEvent], status: RequestStatus = RUNNING, key: RequestKey = KEY
    ) -> None:
        (error,) = self.database.append([append_of(key, CONTEXT, first, events, status, clock=self.clock.now_ms)])
        if error is not None:
            raise error

    def end(self) -> None:
        self._connection.close()


@pytest.fixture
def process(database: MongoDBConfig) -> Iterator[Process]:
    process = Process(database)
    yield process
    process.end()


def listed(process: Process) -> dict[str, str]:
    """Return each request's status, as the lists say it."""
    found = {
        key.request_id: status.value for status in RequestStatus for key in process.database.requests("Desk", [status])
    }
    assert sorted(found) == sorted(key.request_id for key in process.database.requests("Desk", []))
    return found


def told(process: Process, key: RequestKey = KEY) -> tuple[list[StoredEvent], str] | None:
    found = process.database.request(key)
    return None if found is None else (list(found.events), found.status.value)


# --- crashes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["mongo_events.made", "mongo_events.marked", "mongo_events.appended"])
def test_a_new_request_is_there_or_not_wherever_a_crash_comes(
    database: MongoDBConfig, process: Process, step: str
) -> None:
    dying = Process(database, step)
    with pytest.raises(Crash):
        dying.append(0, publishes(0, 2), WAITING)
    dying.end()

    if step == "mongo_events.appended":
        assert told(process) == (publishes(0, 2), "waiting")
        assert listed(process) == {"r-1": "waiting"}
        process.append(2, publishes(2, 1))
    else:
        assert told(process) is None
        assert listed(process) == {}
        process.append(0, publishes(0, 3))
    assert told(process) == (publishes(0, 3), "running")


@pytest.mark.parametrize("before", [RUNNING, WAITING, FINISHED])
@pytest.mark.parametrize("after", [RUNNING, WAITING, FAILED])
@pytest.mark.parametrize("step", ["mongo_events.marked", "mongo_events.appended"])
def test_a_request_is_found_by_the_status_of_its_last_append_wherever_a_crash_comes(
    database: MongoDBConfig, process: Process, before: RequestStatus, after: RequestStatus, step: str
) -> None:
    process.append(0, publishes(0, 1), before)
    dying = Process(database, step)
    with pytest.raises(Crash):
        dying.append(1, publishes(1, 2), after)
    dying.end()

    is_stored = step == "mongo_events.appended"
    now = (after if is_stored else before).value
    new = Process(database)
    assert listed(new) == {"r-1": now}
    assert told(new) == (publishes(0, 3 if is_stored else 1), now)
    first = 3 if is_stored else 1
    new.append(first, publishes(first, 1), FINISHED)
    assert listed(new) == {"r-1": "finished"}
    new.end()


@pytest.mark.parametrize("step", ["mongo_events.key_taken", "mongo_events.ended", "mongo_events.cleared"])
def test_a_request_is_forgotten_wherever_a_crash_comes(
    database: MongoDBConfig, process: Process, documents: Any, step: str
) -> None:
    process.append(0, publishes(0, 1), WAITING)
    process.append(1, publishes(1, 1), WAITING)
    dying = Process(database, step)
    with pytest.raises(Crash):
        dying.database.forget(KEY)
    dying.end()

    assert told(process) is None
    assert listed(process) == {}
    process.append(0, publishes(5, 1))
    new = Process(database)
    assert told(new) == (publishes(5, 1), "running")
    # The mark of the old request and its document stay for a while.
    assert (documents["pubsub_appends"].count_documents({}), documents["pubsub_requests"].count_documents({})) == (2, 2)
    later = Process(database, now_ms=1_000_000 + 3 * HOUR_MS)
    assert (documents["pubsub_appends"].count_documents({}), documents["pubsub_requests"].count_documents({})) == (1, 1)
    for each in (new, later):
        each.end()


def test_whoever_remembers_a_forgotten_request_cannot_append_to_it(database: MongoDBConfig, process: Process) -> None:
    process.append(0, publishes(0, 2))
    other = Process(database)
    other.database.forget(KEY)

    with pytest.raises(RequestConflict) as caught:
        process.append(2, publishes(2, 1))

    assert (caught.value.expected, caught.value.found) == (2, 0)
    process.append(0, publishes(7, 1))
    assert told(other) == (publishes(7, 1), "running")
    other.end()


def test_who_remembers_it_for_longer_than_its_mark_stays_looks_it_up(database: MongoDBConfig, process: Process) -> None:
    process.append(0, publishes(0, 2))
    other = Process(database, now_ms=process.clock.now_ms())
    other.database.forget(KEY)
    for each in (process, other):
        each.clock.advance(3 * HOUR_MS)
    other.database.forget(RequestKey("Desk", "nobody"))

    with pytest.raises(RequestConflict):
        process.append(2, publishes(2, 1))
    other.end()


# --- processes that are late ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["mongo_events.marked", "mongo_events.appended"])
def test_a_status_that_is_set_late_does_not_hide_what_came_after(
    database: MongoDBConfig, process: Process, step: str
) -> None:
    """A process is stopped between two of its steps, and wakes up when another has gone on."""
    process.append(0, publishes(0, 1), WAITING)
    late = Process(database, step)
    went_on: list[int] = []

    def go_on() -> None:
        first = 2 if step == "mongo_events.appended" else 1
        process.append(first, publishes(first, 1), FINISHED)
        process.append(first + 1, publishes(first + 1, 1), RUNNING)
        went_on.append(first)

    late.pause = go_on
    if step == "mongo_events.appended":
        late.append(1, publishes(1, 1), FAILED)
    else:
        with pytest.raises(RequestConflict):
            late.append(1, publishes(1, 1), FAILED)

    assert went_on
    assert told(process) == (publishes(0, 4 if step == "mongo_events.appended" else 3), "running")
    assert listed(process) == {"r-1": "running"}
    late.end()


def test_two_processes_that_make_a_request_at_once_make_one(database: MongoDBConfig, process: Process) -> None:
    late = Process(database, "mongo_events.made")
    late.pause = lambda: process.append(0, [publish(0, data="first")])

    with pytest.raises(RequestConflict):
        late.append(0, [publish(0, data="late")])

    assert told(late) == ([publish(0, data="first")], "running")
    late.end()


def test_an_append_behind_a_status_that_another_process_has_set_is_stored(
    database: MongoDBConfig, process: Process
) -> None:
    process.append(0, publishes(0, 2))
    other = Process(database)
    other.append(2, [], WAITING)

    process.append(2, publishes(2, 1), RUNNING)

    assert told(other) == (publishes(0, 3), "running")
    assert listed(other) == {"r-1": "running"}
    other.end()


# --- what a database may be -----------------------------------------------------------------------------------------


def test_an_append_that_is_larger_than_a_document_is_refused_before_anything_is_written(
    database: MongoDBConfig, documents: Any
) -> None:
    async def body(store: MongoEventStore) -> None:
        await append(store, 0, publishes(0, 1))
        with pytest.raises(EventsTooLarge, match=r"appended at once to request r-1 \(2 events\) takes 1\d,\d{3},\d{3}"):
            await append(store, 1, [publish(n, data="x" * 8_000_000) for n in (1, 2)])
        await append(store, 1, [publish(1, data="é" * 3_000_000)])
        assert len(await events_of(store)) == 2

    with_store_in(database, body)
    assert documents["pubsub_appends"].count_documents({}) == 2


def test_a_store_of_a_newer_release_is_refused(database: MongoDBConfig, documents: Any) -> None:
    documents["pubsub_store"].insert_one({"_id": "format", "format": 2})

    with pytest.raises(EventStoreUnusable, match="its format is 2; expected format 1: use a newer release"):
        MongoEventStore(database.connection_string(), database=database.database)


def test_a_missing_append_is_not_passed_over(process: Process, documents: Any) -> None:
    for first in range(3):
        process.append(first, publishes(first, 1))
    documents["pubsub_appends"].delete_one({"first": 1})

    with pytest.raises(EventStoreUnusable, match="request r-1 is damaged: append 2 is missing"):
        process.database.request(KEY)


def test_a_damaged_event_is_named_by_its_number(process: Process, documents: Any) -> None:
    process.append(0, publishes(0, 2))
    documents["pubsub_appends"].update_one({"first": 0}, {"$set": {"events.1.8": "{"}})

    with pytest.raises(EventStoreUnusable, match="event 1 of request r-1 is damaged"):
        process.database.request(KEY)


def test_a_server_that_is_away_is_reported_without_the_password() -> None:
    with pytest.raises(EventStoreUnavailable, match=r"event store mongodb://127\.0\.0\.1:9") as caught:
        MongoEventStore("mongodb://ann:sesame@127.0.0.1:9/desk", timeout_s=0.2)
    assert "sesame" not in str(caught.value)


def test_finished_requests_that_go_on_are_not_forgotten(database: MongoDBConfig, process: Process) -> None:
    process.append(0, publishes(0, 1), FINISHED)
    late = Process(database, "mongo_events.key_taken", now_ms=process.clock.now_ms() + 10)
    process.append(1, publishes(1, 1), RUNNING)

    assert late.database.forget_old("Desk", late.clock.now_ms(), (FINISHED,)) == 0
    assert told(process) == (publishes(0, 2), "running")
    late.end()
