"""Schemas that take long to announce or to look up hold up their own record, and no other task of the event loop."""

from __future__ import annotations

import asyncio
from contextlib import closing
from threading import Event as Told

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.pubsub import OnError, Publisher, Subscription, SubscriptionSettings
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Start
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import Event, StepContinue
from afl_stream.wire.schema_source import InMemorySchemaLog

RECORD = StepContinue(step_id="w:1", result={"total": 7})


class SlowLog(InMemorySchemaLog):
    """A schemas topic whose broker answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.asked = Told(), Told()

    def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        self.asked.set()
        assert self.answers.wait(20)
        return super().read_to_end()


def test_a_first_announcement_holds_up_no_other_task() -> None:
    async def body(transport: EmbeddedTransport, log: SlowLog) -> None:
        async with Publisher(transport, codec=single_object_codec(log)) as publisher:
            publishing = asyncio.create_task(publisher.publish_and_wait("t", RECORD))
            assert await asyncio.to_thread(log.asked.wait, 20)
            # The loop is free, or this would not be reached.
            assert not publishing.done()
            log.answers.set()
            published = await publishing
        assert published.offset == 0

    with closing(EmbeddedTransport()) as transport:
        transport.admin().create_topic("t", partitions=1)
        asyncio.run(asyncio.wait_for(body(transport, SlowLog()), 30))


def test_a_schema_that_is_looked_up_for_a_message_holds_up_no_other_task() -> None:
    async def body(transport: EmbeddedTransport, log: SlowLog) -> None:
        settings = SubscriptionSettings(codec=single_object_codec(log), on_error=OnError.SKIP)
        subscription = Subscription(
            transport, StreamConfig(), "reader", topics=["t"], start=Start.EARLIEST, settings=settings
        )
        async with subscription as messages:
            reading = asyncio.create_task(anext(aiter(messages)))
            assert await asyncio.to_thread(log.asked.wait, 20)
            assert not reading.done()
            log.answers.set()
            message = await reading
        assert message.data == event

    # Its schema is no built-in one, so that the log has to be read.
    announced = InMemorySchemaLog()
    writer = single_object_codec(announced).event_writer("shop.Pay", [{"name": "amount", "type": "Long"}])
    event = Event(
        id="w:1#1", workflow_id="w", execution_id="e", step_id="w:1", event_type="shop.Pay", state="event.Created",
        payload={"amount": 7}, attempt=1, created_at=1,
    )  # fmt: skip
    log = SlowLog()
    log.records = announced.records
    with closing(EmbeddedTransport()) as transport:
        transport.admin().create_topic("t", partitions=1)
        producer = transport.producer()
        producer.produce("t", writer.encode(event), key=b"k")
        producer.flush(5)
        asyncio.run(asyncio.wait_for(body(transport, log), 30))
