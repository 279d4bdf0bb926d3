"""A service outside of a hosted workflow stands in for a node: it reads one topic of it, and publishes to another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from threading import Event, Thread

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.client import WorkflowClient
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.worlds.hosted import PATIENCE_S, HostedWorld, request

Events = Sequence[ConsumeFromTopicEvent]


def shop() -> EventDrivenWorkflow:
    """Return a workflow that asks a service elsewhere for prices."""

    def ask(_context: InvokeContext, events: Events) -> object:
        return {"items": events[0].data}

    def add_up(_context: InvokeContext, events: Events) -> object:
        return {"total": sum(events[0].data["prices"])}

    baskets, wanted = InputTopic("baskets"), InWorkflowOutputTopic("wanted", reply_to="priced")
    priced, totals = InWorkflowInputTopic("priced"), OutputTopic("totals")
    return (
        EventDrivenWorkflow.builder()
        .name("shop")
        .node(Node.builder().name("ask").command(ask).subscribe(baskets).publish_to(wanted))
        .node(Node.builder().name("add_up").command(add_up).subscribe(priced).publish_to(totals))
        .build()
    )


class PriceService:
    """A program of another make: it knows the topics' names, keys, and JSON."""

    def __init__(self, hosted: HostedWorld) -> None:
        self._hosted = hosted
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> PriceService:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        transport = EmbeddedTransport(self._hosted.broker)
        consumer, producer = transport.consumer("prices"), transport.producer()
        consumer.subscribe([self._hosted.topics.of["wanted"]])
        # An event may be on its topic twice, with one id: as every service has to, it answers each once.
        answered: set[str] = set()
        while not self._stop.is_set():
            for record in consumer.consume(10, 0.02):
                event = json.loads(record.value or b"")
                if event["id"] in answered:
                    continue
                answered.add(event["id"])
                items = event["data"]["items"]
                answer = json.dumps({"prices": [len(item) for item in items]})
                producer.produce(self._hosted.topics.of["priced"], answer.encode(), key=record.key)
            producer.poll(0.01)
        transport.close()


@pytest.fixture
def hosted() -> Iterator[HostedWorld]:
    world = HostedWorld(shop(), format="json")
    yield world
    world.close()


def test_a_service_stands_in_for_a_node(hosted: HostedWorld) -> None:
    async def total(client: WorkflowClient, number: int) -> object:
        invocation = client.invoke(request(f"r{number}"), ["x" * number, "yy"], passes_waits=True, timeout_s=PATIENCE_S)
        totals = [event.data for event in [event async for event in invocation] if event.name == "totals"]
        assert invocation.status is RequestStatus.FINISHED
        return totals

    async def scenario() -> None:
        async with hosted.worker("one"), hosted.worker("two"), hosted.client() as client:
            totals = await asyncio.gather(*(total(client, number) for number in range(20)))
        assert totals == [[{"total": number + 2}] for number in range(20)]

    with PriceService(hosted):
        asyncio.run(scenario())


def test_a_service_that_is_away_answers_later(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            invocation = client.invoke(request("r1"), ["abc"], timeout_s=PATIENCE_S)
            assert [event.data async for event in invocation] == [{"items": ["abc"]}]
            assert invocation.status is RequestStatus.WAITING
        with PriceService(hosted):
            async with hosted.worker(), hosted.client() as client:
                later = client.invoke(request("r1"), passes_waits=True, timeout_s=PATIENCE_S)
                assert [event.data async for event in later if event.name == "totals"] == [{"total": 3}]

    asyncio.run(scenario())
