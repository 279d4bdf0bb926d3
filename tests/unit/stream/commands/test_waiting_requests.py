"""What `pubsub invoke --remote` says of a request that its workers called waiting, while others publish to it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from afl_stream.commands.pubsub.invoking import Reached, reached_waiting
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.topics import InWorkflowInputTopic, InWorkflowOutputTopic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import INPUT, OUTPUT, node, passed_on, workflow

PRICES = InWorkflowInputTopic("prices")
WANTED = InWorkflowOutputTopic("wanted", reply_to="prices")


def offering(store: MemoryEventStore) -> EventDrivenWorkflow:
    return workflow(
        node("ask", passed_on, INPUT, WANTED),
        node("offer", passed_on, "prices", OUTPUT),
        topics=[INPUT, PRICES],
        store=store,
    )


def stored_after(*inputs: object) -> tuple[EventDrivenWorkflow, StoredRequest]:
    async def invoked() -> tuple[EventDrivenWorkflow, StoredRequest]:
        store = MemoryEventStore()
        offers = offering(store)
        for data in inputs:
            async for _ in offers.invoke(InvokeContext(assistant_request_id="pens"), data):
                pass
        stored = await store.request(RequestKey(offers.name, "pens"))
        assert stored is not None
        return offers, stored

    return asyncio.run(invoked())


def test_one_that_still_waits_has_its_question() -> None:
    offers, stored = stored_after("pen")

    assert stored.status is RequestStatus.WAITING
    assert reached_waiting(offers.definition, stored) == Reached(RequestStatus.WAITING, ("prices",))


def test_one_whose_wait_is_told_and_not_stored_yet_has_its_question() -> None:
    offers, stored = stored_after("pen")
    told = replace(stored, status=RequestStatus.RUNNING)

    assert reached_waiting(offers.definition, told) == Reached(RequestStatus.WAITING, ("prices",))


def test_one_that_has_ended_meanwhile_waited_for_this_caller_which_has_not_seen_its_end() -> None:
    offers, stored = stored_after("pen", 6)

    assert stored.status is RequestStatus.FINISHED
    assert reached_waiting(offers.definition, stored) == Reached(RequestStatus.WAITING, (), has_gone_on=True)


@pytest.mark.parametrize("status", [RequestStatus.FINISHED, RequestStatus.FAILED])
def test_an_end_that_was_not_followed_is_never_told_as_the_end(status: RequestStatus) -> None:
    offers, stored = stored_after("pen")
    ended = replace(stored, status=status)

    assert reached_waiting(offers.definition, ended).status is RequestStatus.WAITING
    assert reached_waiting(offers.definition, ended).has_gone_on


def test_one_whose_store_is_not_to_be_reached_waits() -> None:
    offers, _ = stored_after("pen")

    assert reached_waiting(offers.definition, None) == Reached(RequestStatus.WAITING)
