"""An event store on the topics themselves: a compacted topic for each workflow keeps the events of its requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.values import Refused, check_string, plain_value
from afl_stream.limits import MAX_HELD_EVENT_BYTES
from afl_stream.pubsub.event_stores.on_topic_appends import TopicAppend
from afl_stream.pubsub.event_stores.on_topic_database import TopicDatabase
from afl_stream.pubsub.event_stores.records import entries_of_context
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.event_stores.threaded import ThreadedEventStore
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import StoredEvent
from afl_stream.transport import Transport
from afl_stream.wire.codec import Codec

T = TypeVar("T")


class TopicEventStore(ThreadedEventStore[TopicAppend]):
    """The events of requests on the state topics of their workflows, one record each.

    A request's partition is murmur2 of its id, as on the workflow's other topics, so that the owner of a request reads
    its own partitions only. An append that follows another than the last one does not count: of two that append to a
    request the second is refused, whichever process it is in.
    """

    #: A worker then looks whether the state topic has as many partitions as the others.
    is_on_topic = True

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        topic_of: Callable[[str], str],
        *,
        max_held_bytes: int = MAX_HELD_EVENT_BYTES,
        clock_s: MonotonicClock = monotonic_s,
        probe: Probe = no_probe,
    ) -> None:
        """Take the transport, and the state topic of a workflow by its name. The topics have to be there when used.

        `max_held_bytes`: how much is kept of unfinished requests that were read, so that they are not read twice.
        """
        self._topics = TopicDatabase(
            transport, codec, topic_of, max_held_bytes=max_held_bytes, clock_s=clock_s, probe=probe
        )
        self._clock_s = clock_s
        super().__init__(self._topics, append_of)

    async def request(self, key: RequestKey) -> StoredRequest | None:
        """Return a request, as its partition has it now."""
        asked_s = self._clock_s()
        return await self._when_read(key.workflow, key.request_id, asked_s, lambda: self._topics.request(key, asked_s))

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        """Return the requests of a workflow, oldest first. All partitions are read for it."""
        return await self._requests(workflow, statuses, None)

    async def requests_in(
        self, workflow: str, partitions: Collection[int], statuses: Sequence[RequestStatus] = ()
    ) -> list[RequestKey]:
        """Return the requests of a workflow in some partitions, oldest first. No other is read for it."""
        return await self._requests(workflow, statuses, partitions)

    async def forget_old_in(
        self, workflow: str, partitions: Collection[int], before_ms: int, statuses: Sequence[RequestStatus]
    ) -> int:
        """Remove a batch of requests in some partitions: see PurgesByAge. They are read first, if they were not."""
        return await self._when_read(
            workflow, partitions, 0.0, lambda: self._topics.forget_old(workflow, before_ms, statuses, partitions)
        )

    async def _requests(
        self, workflow: str, statuses: Sequence[RequestStatus], partitions: Collection[int] | None
    ) -> list[RequestKey]:
        asked_s = self._clock_s()
        return await self._when_read(
            workflow, partitions, asked_s, lambda: self._topics.requests(workflow, statuses, asked_s, partitions)
        )

    async def _when_read(
        self, workflow: str, wanted: str | Collection[int] | None, asked_s: float, ask: Callable[[], T]
    ) -> T:
        """Read the partitions of a request, some or all, and ask. Appends are served between the steps of reading."""

        def step() -> tuple[bool, T | None]:
            is_read = self._topics.read_step(workflow, asked_s, wanted)
            return is_read, ask() if is_read else None

        while True:
            is_read, found = await self._done(call=step)
            if is_read:
                return cast("T", found)


def append_of(
    key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
) -> TopicAppend:
    """Return what is to be appended, as a copy. Raises ValueRefused for what is not a value of JSON."""
    try:
        check_string(key.request_id)
    except Refused as refused:
        raise refused.at("request") from None
    entries: dict[str, Any] = plain_value(entries_of_context(context), "context")
    copies = tuple([event._replace(data=plain_value(event.data, f"{event.name}.data")) for event in events])
    return TopicAppend(key, entries, first, copies, status.value)
