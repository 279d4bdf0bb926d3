"""The side of an event store on a topic that one thread uses: what is appended, read, and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from afl.core.clock import MonotonicClock, epoch_ms, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.values import plain_value
from afl_stream.errors import Unreadable
from afl_stream.limits import MAX_HELD_EVENT_BYTES
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.on_topic_appends import Appender, TopicAppend, speaking
from afl_stream.pubsub.event_stores.on_topic_delivery import Delivery, Outgoing
from afl_stream.pubsub.event_stores.on_topic_reader import StateReader
from afl_stream.pubsub.event_stores.on_topic_requests import (
    FORGOTTEN,
    RequestState,
    StateKey,
    in_order_of_removal,
    replayed,
)
from afl_stream.pubsub.event_stores.records import context_of
from afl_stream.pubsub.event_stores.rows import damaged
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.transport import TopicPartition, Transport
from afl_stream.wire.codec import Codec
from afl_stream.wire.topic_events import STATUS, TopicEvent

#: How many requests are forgotten at once. Appends wait meanwhile, and for each time what is between them is read.
_REQUESTS_AT_ONCE: Final = 500

#: How long what was read of a partition is kept after its owner has gone: most partitions come back at once.
_DROP_AFTER_S: Final = 300.0


class TopicDatabase:
    """The state topics of workflows. It is for one thread; any number of processes may use the topics beside it."""

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
        self.name = f"on {topic_of('WORKFLOW')}"
        self._topic_of = topic_of
        #: When the owner of a partition has last looked for old requests in it.
        self._owned_s: dict[TopicPartition, float] = {}
        #: Workflows that somebody has asked about.
        self._workflows: set[str] = set()
        self._now_s = clock_s
        self._probe = probe
        self._reader = StateReader(transport, codec, max_held_bytes=max_held_bytes, clock_s=clock_s)
        self._delivery = Delivery(transport, clock_s=clock_s, probe=probe)
        self._appender = Appender(self._reader, self._delivery, codec, topic_of, clock_s=clock_s, probe=probe)

    def append(self, appends: Sequence[TopicAppend]) -> list[Exception | None]:
        self._workflows |= {append.key.workflow for append in appends}
        return self._appender.append(appends)

    def read_step(self, workflow: str, asked_s: float, wanted: str | Collection[int] | None = None) -> bool:
        """Read some of the partition of a request, of these partitions, or of all; return whether they are read."""
        topic = self._topic(workflow)
        with speaking(topic):
            return self._reader.read_steps(self._partitions(topic, wanted), asked_s)

    def request(self, key: RequestKey, asked_s: float = 0.0) -> StoredRequest | None:
        topic = self._topic(key.workflow)
        with speaking(topic):
            partition = self._reader.partition_of(topic, key.request_id)
            found = self._reader.read(partition, asked_s).request(key.request_id)
            if found is not None and found.held is None:
                found = self._read_again(partition, key.request_id, found)
        if found is None:
            return None
        try:
            entries = found.context if isinstance(found.context, dict) else {}
            return StoredRequest(
                key=key,
                context=context_of(entries, key.request_id),
                status=RequestStatus(found.status),
                # Copies: what is held is for others too.
                events=tuple([event._replace(data=plain_value(event.data, "data")) for event in found.stored_events()]),
                created_at_ms=found.created_at_ms,
                updated_at_ms=found.updated_at_ms,
            )
        except (Unreadable, ValueError) as error:
            raise damaged(self.name, f"request {key.request_id}", error) from error

    def requests(
        self,
        workflow: str,
        statuses: Sequence[RequestStatus],
        asked_s: float = 0.0,
        partitions: Collection[int] | None = None,
    ) -> list[RequestKey]:
        topic = self._topic(workflow)
        wanted = {status.value for status in statuses or RequestStatus}
        found: list[tuple[int, int, int, str]] = []
        with speaking(topic):
            for partition in self._partitions(topic, partitions):
                found += [
                    (state.created_at_ms, partition.partition, state.first_offset, request_id)
                    for request_id, state in self._reader.read(partition, asked_s).listed()
                    if state.status in wanted
                ]
        return [RequestKey(workflow, request_id) for _, _, _, request_id in sorted(found)]

    def _topic(self, workflow: str) -> str:
        self._workflows.add(workflow)
        return self._topic_of(workflow)

    def _partitions(self, topic: str, wanted: str | Collection[int] | None) -> list[TopicPartition]:
        if isinstance(wanted, str):
            return [self._reader.partition_of(topic, wanted)]
        numbers = range(self._reader.partitions(topic)) if wanted is None else sorted(wanted)
        return [TopicPartition(topic, number) for number in numbers]

    def _read_again(self, partition: TopicPartition, request_id: str, known: RequestState) -> RequestState:
        found = replayed(self._reader.request_records(partition, request_id, known.first_offset, known.last_offset))
        if found is None or found.last_append != known.last_append or found.events != known.events:
            count = 0 if found is None else found.events
            detail = ValueError(f"{known.events} events were read, and now there are {count}")
            raise damaged(self.name, f"request {request_id}", detail)
        return found

    # --- forgetting -------------------------------------------------------------------------------------------------

    def forget(self, key: RequestKey) -> None:
        topic = self._topic(key.workflow)
        with speaking(topic):
            partition = self._reader.partition_of(topic, key.request_id)
            state = self._reader.read(partition, 0.0)
            if key.request_id not in state.requests and key.request_id not in state.remains:
                # Others may have begun it.
                state = self._reader.read(partition, self._now_s())
            self._forget(partition, {key.request_id: None} if key.request_id in state.requests else {})

    def workflows(self) -> list[str]:
        """Return the workflows that somebody has asked about. Of others no partition is read."""
        return sorted(self._workflows)

    def forget_old(
        self,
        workflow: str,
        before_ms: int,
        statuses: Sequence[RequestStatus],
        partitions: Collection[int] | None = None,
    ) -> int:
        """Remove requests that stand so since before this time, some of one partition; return how many.

        Without `partitions` only those are looked at that were read. What others append meanwhile is not lost: then the
        request stays. What was read of partitions that are not named for some minutes is dropped.
        """
        topic = self._topic(workflow)
        wanted = {status.value for status in statuses}
        known = [each for each in self._reader.known() if each.topic == topic]
        with speaking(topic):
            named = known if partitions is None else self._partitions(topic, partitions)
            if partitions is not None:
                self._drop_others(known, named)
            for partition in named:
                # The owner knows its partitions.
                state = self._reader.read(partition, 0.0 if partitions is not None else self._now_s())
                old = (
                    (request_id, each.last_append)
                    for request_id, each in state.requests.items()
                    if each.status in wanted and each.updated_at_ms < before_ms and each.last_append is not None
                )
                chosen = dict(islice(old, _REQUESTS_AT_ONCE))
                if gone := self._forget(partition, chosen):
                    return gone
        return 0

    def _drop_others(self, known: Sequence[TopicPartition], owned: Sequence[TopicPartition]) -> None:
        now_s = self._now_s()
        self._owned_s |= dict.fromkeys(owned, now_s)
        for partition in known:
            if now_s - self._owned_s.setdefault(partition, now_s) > _DROP_AFTER_S:
                self._reader.forget(partition)
                del self._owned_s[partition]

    def _forget(self, partition: TopicPartition, last_appends: Mapping[str, str | None]) -> int:
        """Remove requests of a partition; those for which an append is given only if that is their last one.

        In this order:
          1. do steps 3 and 4 for what a crash has left of others,
          2. write a record for each that says so: from here on nothing before it counts,
          3. write the tombstones of all records before it,
          4. write the tombstone of the record of step 2.

        What a crash leaves undone is done by the next call for this partition. Returns how many went.
        """
        self._clear(partition)
        if not last_appends:
            return 0
        ends = [self._end(partition, *each) for each in last_appends.items()]
        self._deliver(ends)
        self._probe("state_topic.ended")
        remains = self._reader.read(partition, self._now_s()).remains
        # The end of a request that has gone on meanwhile has ended nothing.
        idle = [end for end in ends if end.key.request_id not in remains]
        self._clear(partition)
        self._deliver([Outgoing(partition, end.key, None, None) for end in idle])
        return len(ends) - len(idle)

    def _clear(self, partition: TopicPartition) -> None:
        """Do steps 3 and 4 of `_forget` for all requests that have ended."""
        remains = dict(self._reader.state(partition).remains)
        if not remains:
            return
        first, last = min(each.first for each in remains.values()), max(each.last for each in remains.values())
        keys: dict[str, list[StateKey]] = {}
        for key, record in self._reader.records(partition, first, last):
            known = remains.get(key.request_id)
            if known is not None and record.value is not None and record.offset < known.end:
                keys.setdefault(key.request_id, []).append(key)
        removed = [key for each in keys.values() for key in in_order_of_removal(each)]
        self._deliver([Outgoing(partition, key, None, None) for key in removed])
        self._probe("state_topic.cleared")
        ends = [StateKey(request_id, 0, each.end_append) for request_id, each in remains.items()]
        self._deliver([Outgoing(partition, key, None, None) for key in ends])
        self._reader.read(partition, self._now_s())

    def _end(self, partition: TopicPartition, request_id: str, after: str | None) -> Outgoing:
        """Return the record that ends a request."""
        append = self._appender.next_id()
        event = TopicEvent(
            id=append,
            request_id=request_id,
            kind=STATUS,
            created_at=epoch_ms(),
            status=FORGOTTEN,
            number=0,
            last=0,
            after=after,
        )
        return self._appender.outgoing(partition, append, event)

    def _deliver(self, records: Sequence[Outgoing]) -> None:
        self._delivery.deliver(records)
        for record in records:
            if record.error is not None:
                raise EventStoreUnavailable(record.partition.topic, str(record.error)) from record.error

    def close(self) -> None:
        """Close the producer and the consumer."""
        try:
            self._delivery.close()
        finally:
            self._reader.close()
