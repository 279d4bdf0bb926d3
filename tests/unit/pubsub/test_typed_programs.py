"""A program with types: mypy --strict, which reads this module, takes commands, conditions and stages as users write.

Nothing here is cast or ignored: data is of type Any where a program looks into it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from afl_stream import EmbeddedTransport, RetryPolicy, StreamConfig
from afl_stream.pubsub import (
    Command,
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    FunctionCommand,
    InputTopic,
    InvokeContext,
    Node,
    OutputTopic,
    Publisher,
    Subscription,
    SubscriptionBuilder,
    Topic,
    TopicBase,
    WorkflowInvalid,
)

Events = Sequence[ConsumeFromTopicEvent]

ORDERS, LARGE, SMALL, DONE = InputTopic("orders"), Topic("large"), Topic("small"), OutputTopic("done")


def check(context: InvokeContext, events: Events) -> Iterator[dict[str, int]]:
    for event in events:
        yield {"price": event.data["price"]}


async def sell(context: InvokeContext, events: Events) -> str:
    return f"{context.assistant_request_id} for {events[0].data['price']}"


class Doubt:
    async def invoke(self, context: InvokeContext, events: Events) -> AsyncIterator[str]:
        for event in events:
            yield f"doubts about {event.data['price']}"


def test_commands_of_every_kind_and_conditions_are_typed() -> None:
    commands: list[Command] = [FunctionCommand(check), FunctionCommand(sell), Doubt()]
    topics: list[TopicBase] = [ORDERS, LARGE, SMALL, DONE]
    large = SubscriptionBuilder().subscribed_to(LARGE)
    workflow = (
        EventDrivenWorkflow.builder()
        .node(
            Node.builder()
            .name("check")
            .command(commands[0])
            .retry(RetryPolicy(max_attempts=2))
            .subscribe(topics[0])
            .publish_to(LARGE, when=lambda data: data["price"] > 40)
            .publish_to(SMALL, when=lambda data: data["price"] <= 40)
        )
        .node(Node.builder().name("sell").command(commands[1]).subscribe(SMALL).publish_to(DONE))
        .node(Node.builder().name("doubt").command(commands[2]).subscribe(large).publish_to(DONE))
        .build()
    )

    async def done(price: int) -> list[str]:
        context = InvokeContext(assistant_request_id=f"order-{price}")
        return [event.data async for event in workflow.invoke(context, {"price": price})]

    assert asyncio.run(done(7)) == ["order-7 for 7"]
    assert asyncio.run(done(70)) == ["doubts about 70"]
    with pytest.raises(WorkflowInvalid) as raised:
        EventDrivenWorkflow.builder().build()
    assert raised.value.faults


def test_stages_look_into_the_data_of_messages() -> None:
    async def large() -> list[int]:
        transport = EmbeddedTransport()
        transport.admin().create_topic("orders", partitions=1)
        async with Publisher(transport) as publisher:
            for number in range(4):
                await publisher.publish("orders", {"order": number, "price": number * 30})
        async with Subscription(transport, StreamConfig(), "large", topics=["orders"]) as orders:
            numbers = orders.filter(lambda message: message.data["price"] > 40).map(
                lambda message: message.data["order"]
            )
            return [number async for number in numbers.take(2)]

    assert asyncio.run(large()) == [2, 3]
