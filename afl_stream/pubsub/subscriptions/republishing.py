"""Publishing what a stream gives to another topic, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from afl.core.probes import Probe, no_probe
from afl_stream.pubsub.subscriptions.publisher import Publisher
from afl_stream.pubsub.subscriptions.streams import Item, Stream
from afl_stream.transport import Headers
from afl_stream.wire.headers import trace_context

T = TypeVar("T")


async def republish(
    stream: Stream[T],
    publisher: Publisher,
    topic: str,
    *,
    key: Callable[[T], bytes | str | None] | None = None,
    headers: Callable[[T], Headers] = lambda _value: (),
    probe: Probe = no_probe,
) -> int:
    """Publish every value of a stream to a topic, and return how many when the stream ends.

    For each value, in this order:
      1. it is taken, behind the stream's stages         (republishing.taken)
      2. its record is queued, when there is room        (republishing.queued)
      3. the broker acknowledges the record              (republishing.acknowledged)
      4. the value is acknowledged, and its offset committed later
    Open the publisher inside the subscription's block: it is drained first, and what it acknowledges then is committed.
    A crash before 4 publishes the value again: at least once. The record's `ce_id` is that of the value's place in its
    topic, the same each time, so that readers can tell, and its trace context that of the message behind it. Without
    `key` it has that message's key, too.
    Raises what the stages, `publish` and `flush` raise; nothing that was not written is acknowledged.
    """

    async def publish_all() -> int:
        count = 0
        async for item in stream.items():
            probe("republishing.taken")
            await publisher.publish(
                topic,
                item.value,
                key=item.key if key is None else key(item.value),
                headers=(("ce_id", item.where.encode()), *trace_context(item.headers), *headers(item.value)),
                on_acknowledged=partial(_acknowledged, item, probe),
            )
            probe("republishing.queued")
            count += 1
        await publisher.flush()
        return count

    # The stream may have nothing for long: a record that is not written is told at once all the same.
    publishing, failing = asyncio.create_task(publish_all()), asyncio.create_task(publisher.failure())
    try:
        await asyncio.wait((publishing, failing), return_when=asyncio.FIRST_COMPLETED)
        if failing.done() and not publishing.done():
            failing.result()
        return await publishing
    finally:
        publishing.cancel()
        failing.cancel()
        await asyncio.gather(publishing, failing, return_exceptions=True)


def _acknowledged(item: Item[T], probe: Probe) -> None:
    probe("republishing.acknowledged")
    item.ack()
