"""The event store of a hosted workflow: what is stored of a request goes on to the workflow's topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from afl.core.probes import Probe
from afl_stream.pubsub.errors import NodeFailed, RequestConflict
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.hosting.counters import Counters
from afl_stream.pubsub.hosting.outbox import Outbox, Receipts
from afl_stream.pubsub.hosting.reader import Received
from afl_stream.pubsub.hosting.records import Outgoing, RequestReport, is_of_client
from afl_stream.pubsub.hosting.request import HostedRequest
from afl_stream.pubsub.hosting.resources import HostedTopics
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent, TopicEvent
from afl_stream.transport import RecordTooLarge

#: What ends a request, or a part of it: clients are told.
_ENDS: Final = frozenset({RequestStatus.WAITING, RequestStatus.FINISHED, RequestStatus.FAILED})


class PublishingStore:
    """The store that the runs of a worker append to. It keeps the port of event stores over another store.

    An append goes this way; a probe is called at the end of each step:
      1. the records of the events that nodes published are encoded
      2. the events are stored, and the request as running                              (pubsub.stored)
      3. the records are produced                                                       (pubsub.produced)
    and where the request ends, waits or has failed with it, or is found so later:
      4. the broker acknowledges all records of the request                             (pubsub.acknowledged)
      5. clients are told on the status topic, a failure is a dead letter too, and the
         broker acknowledges that                                                       (pubsub.told)
      6. the status is stored                                                           (pubsub.ended)

    A crash before 2 leaves nothing: the nodes run again and make the same events. Between 2 and 6 the request stands as
    running: its next owner produces the events of its nodes again, with the same ids, tells it again, and stores the
    status; readers know the events by their ids. After 6 nothing is done again.
    """

    def __init__(
        self,
        store: EventStore,
        workflow: WorkflowDefinition,
        hosted: HostedTopics,
        outbox: Outbox,
        counters: Counters,
        probe: Probe,
        finished: Callable[[Received], None],
    ) -> None:
        self.workflow = workflow
        self.finished = finished
        self._store = store
        self._topics = hosted.topics
        self._records = hosted.records
        self._outbox = outbox
        self._counters = counters
        self._probe = probe
        self._outputs = frozenset(topic.name for topic in workflow.output_topics)
        #: The requests of the worker, by their ids.
        self.requests_here: dict[str, HostedRequest] = {}

    # --- the port ---------------------------------------------------------------------------------------------------

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        """Append; see the class. Raises RequestMoved, RequestConflict, and what encoding and the store raise."""
        request = self.requests_here[key.request_id]
        outgoing = self._encoded(request, events)
        heard = [
            event
            for event in events
            if not isinstance(event, ConsumeFromTopicEvent) and event.event_id in request.from_topics
        ]
        ends = status in _ENDS
        if events or not ends:
            await self._append(request, context, first, events, RequestStatus.RUNNING if ends else status)
        self._probe("pubsub.stored")
        self._note_stored(request, events, heard)
        for record in outgoing:
            await self._outbox.produce(record, request.receipts)
        self._counters.add("produced", len(outgoing))
        self._probe("pubsub.produced")
        if ends:
            await self._end(request, context, status)

    async def request(self, key: RequestKey) -> StoredRequest | None:
        """Return what `restored` has found."""
        request = self.requests_here[key.request_id]
        stored, request.stored = request.stored, None
        return stored

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        """Return the requests of the workflow, as the store does."""
        return await self._store.requests(workflow, statuses)

    async def unfinished(self, partitions: frozenset[int]) -> list[RequestKey]:
        """Return the requests that stand as running: of these partitions, or of all."""
        running = (RequestStatus.RUNNING,)
        if isinstance(self._store, TopicEventStore):
            return await self._store.requests_in(self.workflow.name, partitions, running)
        return await self._store.requests(self.workflow.name, running)

    async def forget(self, key: RequestKey) -> None:
        """Remove a request from the store."""
        await self._store.forget(key)

    async def close(self) -> None:
        """Leave the store open: it is the caller's."""

    # --- requests ---------------------------------------------------------------------------------------------------

    async def restored(self, request: HostedRequest) -> StoredRequest | None:
        """Read a request from the store, and produce again what may be missing on the topics."""
        stored = await self._store.request(request.key)
        # Also where nothing is stored: it may have been forgotten while it waited here.
        request.stored_count = 0
        request.outputs.clear()
        request.heard.clear()
        if stored is None:
            return None
        self._counters.add("restored")
        request.stored_count = len(stored.events)
        published = [event for event in stored.events if not isinstance(event, ConsumeFromTopicEvent)]
        for event in published:
            if is_of_client(event):
                request.heard.append(event.event_id)
            if event.name in self._outputs:
                request.outputs[event.name] = request.outputs.get(event.name, 0) + 1
        if stored.status is RequestStatus.RUNNING:
            for event in published:
                if event.publisher_name in self.workflow.nodes:
                    await self._outbox.produce(self._records.encoded(event), request.receipts)
                    self._counters.add("produced")
        return stored

    async def noted(self, request: HostedRequest, stored: StoredRequest, note: ConsumeFromTopicEvent) -> StoredRequest:
        """Append a note to the events of a request that was read, and return it with the note."""
        await self._append(request, stored.context, len(stored.events), (note,), RequestStatus.RUNNING)
        return replace(stored, events=(*stored.events, note))

    async def resumed(self, request: HostedRequest, context: InvokeContext) -> None:
        """Store that a request that failed is tried again."""
        await self._append(request, context, request.stored_count, (), RequestStatus.RUNNING)

    async def has_changed(self, request: HostedRequest) -> bool:
        """Return whether another worker has appended to a request, or ended it, since this one did."""
        stored = await self._store.request(request.key)
        found = (0, RequestStatus.RUNNING) if stored is None else (len(stored.events), stored.status)
        return found != (request.stored_count, RequestStatus.RUNNING)

    async def fail(self, request: HostedRequest) -> None:
        """Store that a request failed, for `request.failure`, after its run has ended."""
        stored = await self._store.request(request.key)
        if stored is not None:
            request.stored_count = len(stored.events)
            await self._end(request, stored.context, RequestStatus.FAILED)

    async def tell_again(self, request: HostedRequest, status: RequestStatus) -> None:
        """Produce the output of a request again, and tell how it stands: a client asks that has seen neither.

        Raises RequestConflict for a request that was forgotten meanwhile.
        """
        stored = await self._store.request(request.key)
        if stored is None and request.stored_count:
            raise RequestConflict(*request.key, request.stored_count, 0)
        for event in () if stored is None else stored.events:
            if event.name in self._outputs and not isinstance(event, ConsumeFromTopicEvent):
                await self._outbox.produce(self._records.encoded(event), request.receipts)
                self._counters.add("produced")
        await request.receipts.all()
        await self._tell(request, status, frozenset(request.heard))

    async def dead_letter(self, received: Received, error: Exception) -> None:
        """Produce a record to the dead letters, and finish with it."""
        await self.produce_dead_letter(self._records.dead_letter(received.record, error))
        self._counters.add("dead_lettered")
        self.finished(received)

    async def produce_dead_letter(self, letter: Outgoing) -> None:
        """Produce a dead letter, without its value if it is too large, and return when it is acknowledged."""
        try:
            await self.produce(letter)
        except RecordTooLarge:
            await self.produce(self._records.without_value(letter))

    async def produce(self, outgoing: Outgoing) -> None:
        """Produce a record, and return when it is acknowledged."""
        receipts = Receipts()
        await self._outbox.produce(outgoing, receipts)
        await receipts.all()

    # --- steps ------------------------------------------------------------------------------------------------------

    def _encoded(self, request: HostedRequest, events: Sequence[StoredEvent]) -> list[Outgoing]:
        nodes, there = self.workflow.nodes, request.from_topics
        return [
            self._records.encoded(event)
            for event in events
            if not isinstance(event, ConsumeFromTopicEvent)
            and event.publisher_name in nodes
            and event.event_id not in there
        ]

    def _note_stored(self, request: HostedRequest, events: Sequence[StoredEvent], heard: Sequence[TopicEvent]) -> None:
        request.heard.extend(event.event_id for event in heard if is_of_client(event))
        self._counters.add("events", len(heard))
        outputs = self._outputs
        for event in events:
            if event.name in outputs and not isinstance(event, ConsumeFromTopicEvent):
                request.outputs[event.name] = request.outputs.get(event.name, 0) + 1

    async def _end(self, request: HostedRequest, context: InvokeContext, status: RequestStatus) -> None:
        """Take steps 4 to 6."""
        # As of now: what comes while this waits is not taken into account.
        heard = frozenset(request.heard)
        count = request.stored_count
        if status is RequestStatus.FAILED and request.run is not None and isinstance(request.run.failure, NodeFailed):
            request.failure = request.run.failure
        await request.receipts.all()
        self._probe("pubsub.acknowledged")
        if status is RequestStatus.FAILED:
            await self._dead_letter_request(request)
            request.has_told_failure = True
        await self._tell(request, status, heard)
        self._probe("pubsub.told")
        await self._append(request, context, count, (), status)
        self._counters.add(status.value)
        self._probe("pubsub.ended")

    async def _append(
        self,
        request: HostedRequest,
        context: InvokeContext,
        first: int,
        events: Sequence[StoredEvent],
        status: RequestStatus,
    ) -> None:
        await request.ownership.begin_write()
        try:
            await self._store.append(request.key, context, first, events, status)
            request.stored_count = first + len(events)
        finally:
            request.ownership.end_write()

    async def _tell(self, request: HostedRequest, status: RequestStatus, heard: frozenset[str]) -> None:
        offsets = request.receipts.offsets
        outputs: Mapping[str, tuple[int, int | None]] = {
            name: (count, offsets.get(self._topics.of[name])) for name, count in request.outputs.items()
        }
        failure = request.failure if status is RequestStatus.FAILED else None
        report = RequestReport(
            request_id=request.key.request_id,
            status=status,
            heard=heard,
            outputs=outputs,
            node=failure.node if isinstance(failure, NodeFailed) else "",
            error="" if failure is None else failure.reason,
        )
        await self._outbox.produce(self._records.told(report), request.receipts)
        await request.receipts.all()

    async def _dead_letter_request(self, request: HostedRequest) -> None:
        assert request.failure is not None
        stored = await self._store.request(request.key)
        first = None if stored is None else next(iter(stored.events), None)
        if first is None or isinstance(first, ConsumeFromTopicEvent):
            return
        await self.produce_dead_letter(self._records.failed_request(first, request.failure))
        self._counters.add("dead_lettered")
