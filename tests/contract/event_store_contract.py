"""The contract of every event store, whichever database keeps the events.

Inherit EventStoreContract and give a `new_store` fixture: what opens a store on the storage of this test. A store that
outlives its process inherits DurableEventStoreContract too: there `new_store` may be called several times.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeAlias

import pytest

from afl.core.clock import epoch_ms
from afl.core.values import ValueRefused
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import (
    ConsumeFromTopicEvent,
    OutputTopicEvent,
    PublishToTopicEvent,
    StoredEvent,
)

NewStore: TypeAlias = Callable[[], EventStore]

RUNNING, WAITING, FINISHED, FAILED = RequestStatus
KEY = RequestKey("Desk", "r-1")
CONTEXT = InvokeContext(
    assistant_request_id="r-1",
    conversation_id="c-7",
    invoke_id="i-2",
    user_id="ann",
    attributes={"plan": "gold", "limits": [1, 2.5, None]},
)
#: One event of each kind, with everything that an event may say.
EVENTS: tuple[StoredEvent, ...] = (
    PublishToTopicEvent("e-0", "r-1", "questions", 0, {"text": "Grüße 🐢"}, "input", "Workflow", (), 1_764_000_000_123),
    OutputTopicEvent(
        "e-1", "r-1", "answers", 0, ["a", 1, 2.0, None], "desk", "Node", ("e-0", "d-9"), 1_764_000_000_124
    ),
    ConsumeFromTopicEvent("e-0", "r-1", "questions", 0, None, "desk", "Node", 1_764_000_000_125),
)
#: Values at the edges of what JSON holds here.
VALUES: tuple[object, ...] = (
    None, False, True, 0, -1, 2**63 - 1, -(2**63), 0.0, 1e300, 5e-324, 1.0, "", "\0", "a" * 10_000, "🐢", "$x.y", [],
    {}, [[[[]]]], {"": None, "$set": 1, "a.b": {"\0": 2}}, [True, 1, 1.0],
)  # fmt: skip


def with_store(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run the body of a test in a loop of its own, with a store that is closed at the end.

    A body that asks for `open_again` gets what opens further stores on the same storage.
    """
    more = "open_again" in inspect.signature(test).parameters

    def run(self: object, new_store: NewStore) -> None:
        async def body() -> None:
            async with AsyncExitStack() as open_stores:

                def open_again() -> EventStore:
                    store = new_store()
                    open_stores.push_async_callback(store.close)
                    return store

                await (test(self, open_again(), open_again) if more else test(self, open_again()))

        asyncio.run(asyncio.wait_for(body(), 60))

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


def publish(number: int, request_id: str = "r-1", data: object = None) -> PublishToTopicEvent:
    """Return an event that is told from others by its number."""
    return PublishToTopicEvent(f"e-{number}", request_id, "questions", number, data, "n", "Node", (), 1_000 + number)


def publishes(first: int, count: int, request_id: str = "r-1") -> list[StoredEvent]:
    return [publish(number, request_id, {"number": number}) for number in range(first, first + count)]


async def append(
    store: EventStore,
    first: int,
    events: Sequence[StoredEvent],
    status: RequestStatus = RUNNING,
    key: RequestKey = KEY,
) -> None:
    await store.append(key, InvokeContext(assistant_request_id=key.request_id), first, events, status)


async def events_of(store: EventStore, key: RequestKey = KEY) -> list[StoredEvent]:
    found = await store.request(key)
    return [] if found is None else list(found.events)


async def next_millisecond() -> None:
    """Return when the clock has moved on: what happens in one millisecond may be listed in any order."""
    now_ms = epoch_ms()
    while epoch_ms() == now_ms:
        await asyncio.sleep(0)


def is_same(left: object, right: object) -> bool:
    """Whether two values are the same, and not only equal: 1, 1.0 and true are three."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


class EventStoreContract:
    """What every event store must do."""

    @with_store
    async def test_a_request_that_nobody_made_is_not_there(self, store: EventStore) -> None:
        assert await store.request(KEY) is None
        assert await store.requests("Desk") == []

    @with_store
    async def test_a_request_comes_back_with_its_events_in_their_order(self, store: EventStore) -> None:
        began_ms = epoch_ms()
        await store.append(KEY, CONTEXT, 0, EVENTS[:1], RUNNING)
        await store.append(KEY, CONTEXT, 1, EVENTS[1:], WAITING)

        found = await store.request(KEY)

        assert found is not None
        assert (found.key, found.context, found.status) == (KEY, CONTEXT, WAITING)
        assert found.events == EVENTS
        assert [type(event) for event in found.events] == [type(event) for event in EVENTS]
        assert began_ms <= found.created_at_ms <= found.updated_at_ms <= epoch_ms()

    @with_store
    async def test_every_value_comes_back_as_it_was(self, store: EventStore) -> None:
        await append(store, 0, [publish(number, data=value) for number, value in enumerate(VALUES)])

        found = [event.data for event in await events_of(store)]

        assert [value for value, back in zip(VALUES, found, strict=True) if not is_same(value, back)] == []

    @with_store
    async def test_the_last_context_is_the_one_of_the_request(self, store: EventStore) -> None:
        await store.append(KEY, InvokeContext(assistant_request_id="r-1", user_id="ann"), 0, publishes(0, 1), WAITING)
        await store.append(KEY, InvokeContext(assistant_request_id="r-1", user_id="ben"), 1, publishes(1, 1), RUNNING)

        found = await store.request(KEY)

        assert found is not None
        assert found.context == InvokeContext(assistant_request_id="r-1", user_id="ben")

    @pytest.mark.parametrize("first", [0, 1, 3, 7])
    def test_an_append_behind_another_number_is_refused_and_changes_nothing(
        self, new_store: NewStore, first: int
    ) -> None:
        @with_store
        async def body(_: object, store: EventStore) -> None:
            await append(store, 0, publishes(0, 2), WAITING)

            with pytest.raises(RequestConflict) as caught:
                await append(store, first, publishes(first, 2), FINISHED)

            assert (caught.value.expected, caught.value.found) == (first, 2)
            found = await store.request(KEY)
            assert found is not None
            assert (list(found.events), found.status) == (publishes(0, 2), WAITING)

        body(self, new_store)

    @with_store
    async def test_a_request_begins_with_its_first_event(self, store: EventStore) -> None:
        with pytest.raises(RequestConflict):
            await append(store, 1, publishes(1, 1))

        assert await store.request(KEY) is None
        assert await store.requests("Desk") == []

    @with_store
    async def test_a_status_changes_without_an_event(self, store: EventStore) -> None:
        await append(store, 0, publishes(0, 2), RUNNING)
        await append(store, 2, [], FAILED)

        found = await store.request(KEY)

        assert found is not None
        assert (list(found.events), found.status) == (publishes(0, 2), FAILED)
        with pytest.raises(RequestConflict):
            await append(store, 1, [], FINISHED)
        await append(store, 2, [], RUNNING)
        await append(store, 2, publishes(2, 1), FINISHED)
        assert await events_of(store) == publishes(0, 3)

    @with_store
    async def test_a_request_may_begin_without_an_event(self, store: EventStore) -> None:
        await append(store, 0, [], RUNNING)

        found = await store.request(KEY)

        assert found is not None
        assert (found.events, found.status) == ((), RUNNING)
        assert await store.requests("Desk") == [KEY]

    @with_store
    async def test_appends_that_wait_together_are_stored_in_the_order_of_their_calls(self, store: EventStore) -> None:
        keys = [RequestKey("Desk", f"r-{number}") for number in range(20)]

        await asyncio.gather(
            *(
                append(store, first, publishes(first, 2, key.request_id), key=key)
                for first in range(0, 20, 2)
                for key in keys
            )
        )

        for key in keys:
            assert await events_of(store, key) == publishes(0, 20, key.request_id)

    @with_store
    async def test_of_two_appends_behind_the_same_number_one_is_stored(self, store: EventStore) -> None:
        await append(store, 0, publishes(0, 1))
        rivals = [[publish(1, data=f"{name} {number}") for number in range(3)] for name in "ab"]

        outcomes = await asyncio.gather(*(append(store, 1, events) for events in rivals), return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [type(None), RequestConflict]
        assert await events_of(store) == [*publishes(0, 1), *rivals[0]]

    @with_store
    async def test_a_refused_append_does_not_disturb_those_beside_it(self, store: EventStore) -> None:
        keys = [RequestKey("Desk", f"r-{number}") for number in range(4)]

        outcomes = await asyncio.gather(
            *(append(store, index % 2, publishes(0, 1, key.request_id), key=key) for index, key in enumerate(keys)),
            return_exceptions=True,
        )

        assert [outcome is None for outcome in outcomes] == [True, False, True, False]
        assert await store.requests("Desk") == [keys[0], keys[2]]

    @with_store
    async def test_requests_are_listed_by_workflow_and_status_oldest_first(self, store: EventStore) -> None:
        ids = ["z", "a", "m", "b"]
        statuses = (RUNNING, WAITING, RUNNING, FINISHED)
        for request_id, status in zip(ids, statuses, strict=True):
            await append(store, 0, publishes(0, 1, request_id), status, RequestKey("Desk", request_id))
            await next_millisecond()
        await append(store, 0, publishes(0, 1), RUNNING, RequestKey("Other", "a"))
        await append(store, 1, publishes(1, 1, "z"), RUNNING, RequestKey("Desk", "z"))

        async def listed(*wanted: RequestStatus) -> list[str]:
            return [key.request_id for key in await store.requests("Desk", wanted)]

        assert await listed() == ids
        assert await listed(RUNNING) == ["z", "m"]
        assert await listed(WAITING, FINISHED) == ["a", "b"]
        assert await listed(FAILED) == []
        assert await store.requests("Other") == [RequestKey("Other", "a")]

    @with_store
    async def test_a_request_is_listed_as_it_stands_now(self, store: EventStore) -> None:
        for first, status in enumerate((WAITING, RUNNING, FAILED, RUNNING, FINISHED)):
            await append(store, first, publishes(first, 1), status)

            for asked in RequestStatus:
                assert await store.requests("Desk", [asked]) == ([KEY] if asked is status else [])

    @with_store
    async def test_a_forgotten_request_is_gone_and_may_begin_again(self, store: EventStore) -> None:
        other = RequestKey("Desk", "r-2")
        await append(store, 0, publishes(0, 3), FINISHED)
        await append(store, 0, publishes(0, 1, "r-2"), key=other)

        await store.forget(KEY)

        assert await store.request(KEY) is None
        assert await store.requests("Desk") == [other]
        with pytest.raises(RequestConflict) as caught:
            await append(store, 3, publishes(3, 1))
        assert caught.value.found == 0
        await append(store, 0, publishes(5, 2), RUNNING)
        assert await events_of(store) == publishes(5, 2)
        assert set(await store.requests("Desk")) == {other, KEY}

    @with_store
    async def test_forgetting_what_is_not_there_is_no_error(self, store: EventStore) -> None:
        await store.forget(KEY)
        await store.forget(KEY)

        assert await store.request(KEY) is None

    @pytest.mark.parametrize(
        "request_id", ["", "a/b", "a/0/x", "a\0b", "r 1", "Grüße 🐢", "x" * 1_000, "0", "-", "/", "{}", "$where"]
    )
    def test_a_request_may_be_called_anything(self, new_store: NewStore, request_id: str) -> None:
        @with_store
        async def body(_: object, store: EventStore) -> None:
            key = RequestKey("Desk", request_id)
            await append(store, 0, publishes(0, 2, request_id), key=key)
            await append(store, 2, publishes(2, 1, request_id), key=key)

            assert await events_of(store, key) == publishes(0, 3, request_id)
            assert await store.requests("Desk") == [key]
            await store.forget(key)
            assert await store.request(key) is None

        body(self, new_store)

    @with_store
    async def test_requests_whose_names_run_into_each_other_are_different(self, store: EventStore) -> None:
        keys = [RequestKey("Desk", name) for name in ("r", "r/1", "r/1/1", "r\0", "R", "r ")]
        for number, key in enumerate(keys):
            await append(store, 0, publishes(number, 1, key.request_id), key=key)

        assert [await events_of(store, key) for key in keys] == [
            publishes(number, 1, key.request_id) for number, key in enumerate(keys)
        ]

    @with_store
    async def test_an_append_that_nobody_waits_for_any_more_is_whole_or_not_there(self, store: EventStore) -> None:
        await append(store, 0, publishes(0, 1))
        appending = asyncio.ensure_future(append(store, 1, publishes(1, 5)))
        await asyncio.sleep(0)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)

        found = await events_of(store)

        assert found in (publishes(0, 1), publishes(0, 6))
        await append(store, len(found), publishes(len(found), 1))
        assert await events_of(store) == publishes(0, len(found) + 1)

    @with_store
    async def test_a_long_request_comes_back_whole(self, store: EventStore) -> None:
        await append(store, 0, publishes(0, 1_500))
        await append(store, 1_500, publishes(1_500, 1_500), FINISHED)

        assert await events_of(store) == publishes(0, 3_000)


class DurableEventStoreContract:
    """What a store must do that outlives its process, and that several processes may use."""

    @with_store
    async def test_another_process_finds_what_was_appended(self, store: EventStore, open_again: NewStore) -> None:
        await store.append(KEY, CONTEXT, 0, EVENTS, WAITING)
        await store.close()

        found = await open_again().request(KEY)

        assert found is not None
        assert (found.context, found.status, found.events) == (CONTEXT, WAITING, EVENTS)

    @with_store
    async def test_appends_that_are_waited_for_are_stored_before_the_store_closes(
        self, store: EventStore, open_again: NewStore
    ) -> None:
        appends = [asyncio.ensure_future(append(store, first, publishes(first, 1), FINISHED)) for first in range(50)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*appends)

        assert await events_of(open_again()) == publishes(0, 50)

    @with_store
    async def test_a_process_goes_on_where_another_has_stopped(self, store: EventStore, open_again: NewStore) -> None:
        other = open_again()
        await append(store, 0, publishes(0, 2))
        await append(other, 2, publishes(2, 2))
        await append(store, 4, publishes(4, 1), WAITING)

        for each in (store, other, open_again()):
            assert await events_of(each) == publishes(0, 5)
            assert await each.requests("Desk", [WAITING]) == [KEY]

    @with_store
    async def test_of_two_processes_that_run_a_request_one_goes_on(
        self, store: EventStore, open_again: NewStore
    ) -> None:
        other = open_again()
        await append(store, 0, publishes(0, 1))
        assert await events_of(other) == publishes(0, 1)
        await append(store, 1, publishes(1, 3))

        with pytest.raises(RequestConflict) as caught:
            await append(other, 1, [publish(1, data="mine")], FINISHED)

        assert (caught.value.expected, caught.value.found) == (1, 4)
        await append(store, 4, publishes(4, 1))
        assert await events_of(other) == await events_of(store) == publishes(0, 5)
        assert await other.requests("Desk", [RUNNING]) == [KEY]

    @with_store
    async def test_rivals_that_append_at_the_same_time_are_never_mixed(
        self, store: EventStore, open_again: NewStore
    ) -> None:
        async def run(rival: EventStore, name: str) -> int:
            """Append three events at a time, from wherever the request stands, as a run that is started again does."""
            refused = 0
            for turn in range(15):
                first = len(await events_of(rival))
                try:
                    await append(rival, first, [publish(first + n, data=f"{name} {turn} {n}") for n in range(3)])
                except RequestConflict:
                    refused += 1
            return refused

        refused = await asyncio.gather(run(store, "a"), run(open_again(), "b"), run(open_again(), "c"))

        found = await events_of(store)
        assert len(found) == 3 * (45 - sum(refused))
        assert [event.offset for event in found] == list(range(len(found)))
        for at in range(0, len(found), 3):
            who = {str(event.data).rpartition(" ")[0] for event in found[at : at + 3]}
            assert len(who) == 1

    @with_store
    async def test_a_status_that_another_process_has_set_does_not_hide_a_request(
        self, store: EventStore, open_again: NewStore
    ) -> None:
        other = open_again()
        await append(store, 0, publishes(0, 1), WAITING)
        await append(other, 1, publishes(1, 1), RUNNING)
        await append(other, 2, publishes(2, 1), WAITING)
        await append(store, 3, publishes(3, 1), RUNNING)

        for each in (store, other):
            assert await each.requests("Desk", [RUNNING]) == [KEY]
            assert await each.requests("Desk", [WAITING]) == []

    @with_store
    async def test_what_a_process_has_forgotten_is_gone_for_all(self, store: EventStore, open_again: NewStore) -> None:
        other = open_again()
        await append(store, 0, publishes(0, 2), FINISHED)
        assert await events_of(other) == publishes(0, 2)

        await other.forget(KEY)

        assert await store.request(KEY) is None
        assert await store.requests("Desk") == []
        await append(store, 0, publishes(7, 1))
        assert await events_of(other) == publishes(7, 1)

    @with_store
    async def test_what_changes_after_it_was_appended_is_stored_as_it_was(self, store: EventStore) -> None:
        data = {"items": [1]}
        appending = asyncio.ensure_future(append(store, 0, [publish(0, data=data)]))
        await asyncio.sleep(0)
        data["items"].append(2)
        await appending
        data["items"].append(3)

        assert [event.data for event in await events_of(store)] == [{"items": [1]}]

    @with_store
    async def test_what_a_reader_changes_stays_as_it_was_stored(self, store: EventStore) -> None:
        await append(store, 0, [publish(0, data={"items": [1]})])
        for event in await events_of(store):
            assert isinstance(event.data, dict)
            event.data["items"].append(2)

        assert [event.data for event in await events_of(store)] == [{"items": [1]}]

    @pytest.mark.parametrize(
        "data", [{1, 2}, float("nan"), 2**63, {1: 2}, "\ud800", b"x", [object()]], ids=lambda data: type(data).__name__
    )
    def test_data_that_is_no_value_is_refused_with_its_place_and_nothing_is_stored(
        self, new_store: NewStore, data: object
    ) -> None:
        @with_store
        async def body(_: object, store: EventStore) -> None:
            with pytest.raises(ValueRefused, match="items"):
                await append(store, 0, [publish(0), publish(1, data={"items": [data]})])
            assert await store.request(KEY) is None

        body(self, new_store)

    @with_store
    async def test_a_closed_store_says_so(self, store: EventStore) -> None:
        await append(store, 0, publishes(0, 1))
        await store.close()
        await store.close()

        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: append(store, 1, publishes(1, 1)),
            lambda: store.request(KEY),
            lambda: store.requests("Desk"),
            lambda: store.forget(KEY),
        ]
        for call in calls:
            with pytest.raises(EventStoreUnavailable, match="closed"):
                await call()


class Purging(EventStore, Protocol):
    """A store that removes what has finished long ago."""

    async def forget_old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus] = ...) -> int: ...

    async def forget_finished(self, before_ms: int, workflow: str | None = None) -> int: ...


class PurgingEventStoreContract:
    """What a store must do that removes finished requests by their age."""

    @with_store
    async def test_requests_that_finished_long_ago_are_forgotten_and_no_others(self, store: Purging) -> None:
        old = [RequestKey("Desk", f"old {number}") for number in range(3)]
        for key, status in zip(old, (FINISHED, WAITING, FINISHED), strict=True):
            await append(store, 0, publishes(0, 2, key.request_id), status, key)
        await append(store, 2, publishes(2, 1, "old 2"), RUNNING, old[2])
        await next_millisecond()
        now_ms = epoch_ms()
        await append(store, 0, publishes(0, 1, "new"), FINISHED, RequestKey("Desk", "new"))

        assert await store.forget_finished(now_ms, "Office") == 0
        assert await store.forget_finished(now_ms, "Desk") == 1

        assert await store.request(old[0]) is None
        assert {key.request_id for key in await store.requests("Desk")} == {"old 1", "old 2", "new"}
        assert await events_of(store, old[2]) == publishes(0, 3, "old 2")
        assert await store.forget_finished(now_ms) == 0

    @with_store
    async def test_of_one_workflow_those_are_forgotten_that_stand_as_asked(self, store: Purging) -> None:
        for status in RequestStatus:
            await append(store, 0, publishes(0, 2, status.value), status, RequestKey("Desk", status.value))
            await append(store, 0, publishes(0, 2, status.value), status, RequestKey("Other", status.value))
        await next_millisecond()
        now_ms = epoch_ms()
        await append(store, 0, publishes(0, 1, "new"), FAILED, RequestKey("Desk", "new"))

        assert await store.forget_old("Desk", now_ms - 3_600_000, (FAILED, WAITING, FINISHED)) == 0
        assert await store.forget_old("Desk", now_ms) == 1
        assert await store.forget_old("Desk", now_ms) == 0
        assert await store.requests("Desk", (FINISHED,)) == []
        while await store.forget_old("Desk", now_ms, (FAILED, WAITING)):
            pass

        assert {key.request_id for key in await store.requests("Desk")} == {"running", "new"}
        assert len(await store.requests("Other")) == 4

    @with_store
    async def test_a_batch_is_bounded_so_that_others_are_served_soon(self, store: Purging) -> None:
        keys = [RequestKey("Desk", f"old {number}") for number in range(600)]
        await asyncio.gather(*(append(store, 0, (), FINISHED, key) for key in keys))
        await next_millisecond()

        first = await store.forget_old("Desk", epoch_ms())

        assert 0 < first <= 500
        assert len(await store.requests("Desk")) == 600 - first

    @with_store
    async def test_many_finished_requests_are_forgotten_while_others_go_on(self, store: Purging) -> None:
        keys = [RequestKey("Desk", f"old {number}") for number in range(250)]
        await asyncio.gather(*(append(store, 0, publishes(0, 2, key.request_id), FINISHED, key) for key in keys))
        await append(store, 0, publishes(0, 1))
        await next_millisecond()

        forgetting = asyncio.ensure_future(store.forget_finished(epoch_ms()))
        for first in range(1, 6):
            await append(store, first, publishes(first, 1))

        assert await forgetting == 250
        assert await store.requests("Desk") == [KEY]
        assert await events_of(store) == publishes(0, 6)
        await append(store, 0, publishes(0, 1, "old 7"), RUNNING, keys[7])
        assert await events_of(store, keys[7]) == publishes(0, 1, "old 7")
