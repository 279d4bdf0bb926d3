"""A program that appends to several requests until it is killed, and says what is acknowledged.

`python -m tests.scenarios.killed_appends WHERE` goes on where another process has stopped. It appends three events at a
time, and writes a line for each acknowledgement: the request, and how many events are stored of it.
"""

from __future__ import annotations

import asyncio
import sys

from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import PublishToTopicEvent
from tests.scenarios.stores_of_processes import opened

REQUESTS = 6
AT_ONCE = 3
#: Large enough that an append takes several pages of a file, and several packets of a network.
DATA = "x" * 5_000


def event(request_id: str, number: int) -> PublishToTopicEvent:
    event_id = f"{request_id}/{number}"
    return PublishToTopicEvent(event_id, request_id, "t", number, [number, DATA], "n", "Node", (), number)


async def append_for_ever(store: EventStore, request_id: str) -> None:
    key, context = RequestKey("Desk", request_id), InvokeContext(assistant_request_id=request_id)
    found = await store.request(key)
    first = 0 if found is None else len(found.events)
    while True:
        events = [event(request_id, number) for number in range(first, first + AT_ONCE)]
        await store.append(key, context, first, events, RequestStatus.RUNNING)
        first += AT_ONCE
        sys.stdout.write(f"{request_id} {first}\n")
        sys.stdout.flush()


async def main() -> None:
    async with opened(sys.argv[1]) as store:
        await asyncio.gather(*(append_for_ever(store, f"r-{number}") for number in range(REQUESTS)))


if __name__ == "__main__":
    asyncio.run(main())
