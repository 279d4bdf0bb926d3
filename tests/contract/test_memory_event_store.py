"""The event store in memory keeps the contract."""

from __future__ import annotations

import asyncio

import pytest

from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from tests.contract.event_store_contract import EventStoreContract, NewStore, PurgingEventStoreContract


class TestMemoryEventStore(EventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self) -> NewStore:
        return MemoryEventStore


def ended(store: MemoryEventStore, request_id: str, status: RequestStatus = RequestStatus.FINISHED) -> None:
    """Store that a request stands so."""
    key, context = RequestKey("orders", request_id), InvokeContext(assistant_request_id=request_id)
    store.append_now(key, context, 0, (), status)


def kept(store: MemoryEventStore) -> list[str]:
    return [key.request_id for key in asyncio.run(store.requests("orders"))]


def test_of_finished_requests_those_are_kept_that_ended_last() -> None:
    store = MemoryEventStore(max_finished=2)
    for request_id in ("a", "b", "a", "c"):
        ended(store, request_id)

    assert kept(store) == ["a", "c"]


def test_a_request_that_goes_on_after_its_end_is_kept_whatever_ends_meanwhile() -> None:
    store = MemoryEventStore(max_finished=1)
    ended(store, "a")
    ended(store, "a", RequestStatus.RUNNING)
    for request_id in ("b", "c"):
        ended(store, request_id)

    assert kept(store) == ["a", "c"]
