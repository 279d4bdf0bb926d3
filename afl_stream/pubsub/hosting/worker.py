"""A worker of a hosted workflow: it runs the requests whose partitions it owns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from afl.core.process.signals import draining
from afl.core.text.exception_text import exception_line
from afl_stream.errors import Unreadable
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.counters import Counters, WorkerCounts, WorkerHealth
from afl_stream.pubsub.hosting.crash_suspects import CrashSuspects
from afl_stream.pubsub.hosting.outbox import Outbox
from afl_stream.pubsub.hosting.publishing_store import PublishingStore
from afl_stream.pubsub.hosting.reader import Received, WorkflowReader
from afl_stream.pubsub.hosting.records import EventReceived, Forwarded, StatusAsked
from afl_stream.pubsub.hosting.requests import WorkerRequests
from afl_stream.pubsub.hosting.resources import HostedTopics, opened_topics
from afl_stream.pubsub.hosting.retention import Retention, forgotten_too_soon
from afl_stream.pubsub.hosting.topics import PartitionsChanged
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.topics.rights import Role
from afl_stream.transport import Assignor, BrokerUnavailable, Consumer, RecordTooLarge, Transport
from afl_stream.wire.codec import Codec

_log = logging.getLogger(__name__)


class WorkerNotRunning(PubSubError):
    """A worker is asked for something that only one that runs can do."""

    def __init__(self, workflow: str) -> None:
        super().__init__(f"the worker of workflow {workflow} does not run: use it inside `async with`, or call run()")


class WorkflowWorker:
    """A member of a workflow's group: the requests of its partitions run here.

    A record of the workflow's topics goes this way; a probe is called at the end of each step:
      1. it is read                                                                        (pubsub.read)
      2. it is decoded                                                                     (pubsub.decoded)
      3. its event is stored, and seen by the nodes of its request                         (pubsub.stored)
      4. the offset moves past it, and past nothing unfinished                             (pubsub.committed)

    A crash before 4 delivers the record again; after 3 its event is known by its id. What nodes publish is stored first
    and then produced: PublishingStore numbers those steps. A record that cannot be decoded becomes a dead letter before
    its offset moves; one on another partition than its request's is produced where it belongs, with the same id.

    `run` blocks until `stop`, or a signal; `async with` runs it on the event loop that is there. A store that is given
    is the caller's to close. A worker is used once.
    """

    def __init__(
        self,
        workflow: EventDrivenWorkflow | WorkflowDefinition,
        transport: Transport,
        store: EventStore | None = None,
        config: WorkerConfig | None = None,
        *,
        codec: Codec | None = None,
    ) -> None:
        """Take the workflow, and the store that its workers share.

        Without one it is the workflow's own, and where that would be memory, the workflow's state topic.
        """
        if isinstance(workflow, EventDrivenWorkflow):
            own = workflow.event_store
            store = own if store is None and not isinstance(own, MemoryEventStore) else store
            workflow = workflow.definition
        self.workflow = workflow
        self.config = config or WorkerConfig()
        self._transport = transport
        self._store = store
        self._opened_store: TopicEventStore | None = None
        self._codec = codec
        self._counters = Counters()
        self._hosted: HostedTopics | None = None
        self._outbox: Outbox | None = None
        self._reader: WorkflowReader | None = None
        self._publishing: PublishingStore | None = None
        self._requests: WorkerRequests | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._retention: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._is_stopping = False
        self._is_dead = False
        self._error: BaseException | None = None

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until `stop`, SIGINT or SIGTERM; then let requests go on for `pubsub.grace_s`, commit, and leave.

        Raises what `start` raises, and the error that ended the worker.
        """
        grace_s = self.config.stream.pubsub.grace_s
        with draining(self.stop, self._remaining, limit_s=grace_s + self.config.ending_s):
            asyncio.run(self._run())

    async def _run(self) -> None:
        async with self:
            await self.until_stopped()

    async def __aenter__(self) -> Self:
        """Join the group. Raises WorkflowTopicMissing, PartitionsNotEqual, and what the transport raises."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        hosted = self._hosted = await self._opened_topics()
        try:
            self._start(hosted)
        except BaseException:
            await self._close()
            raise
        return self

    def _start(self, hosted: HostedTopics) -> None:
        assert self._loop is not None
        assert self._stopped is not None
        outbox = self._outbox = Outbox(
            self._transport.producer(), self.config.stream.pubsub.max_unacknowledged, self._die
        )
        reader = self._reader = WorkflowReader(
            self._consumer,
            sorted(hosted.topics.of.values()),
            self.config,
            hosted.records.decoded,
            self,
            f"group {hosted.topics.group}",
        )
        store = self._shared_store(hosted)
        self._publishing = PublishingStore(
            store,
            self.workflow,
            hosted,
            outbox,
            self._counters,
            self.config.probe,
            reader.finished,
        )
        requests = self._requests = WorkerRequests(
            self._publishing,
            CrashSuspects(self.config.stream.pubsub.max_crashes, self.config.name),
            hosted.records.partitions,
            self.config.stream.pubsub.max_open_requests,
            self._counters,
            self._die,
        )
        if self._is_stopping:
            self._stopped.set()
        retention = Retention(store, self.workflow.name, self.config, lambda: requests.owned, self._counters)
        self._retention = self._loop.create_task(retention.run(), name=f"{self.workflow.name} retention")
        reader.start()

    async def _opened_topics(self) -> HostedTopics:
        hosted = await opened_topics(
            self.workflow,
            self._transport,
            self.config.stream,
            self._codec,
            role=Role.PUBSUB_WORKER,
            has_state=self._store is None or isinstance(self._store, TopicEventStore),
            is_stopping=lambda: self._is_stopping,
        )
        read = {name: hosted.existing[name] for name in hosted.topics.of.values()}
        if finding := forgotten_too_soon(self.config.stream.pubsub.keep_finished_ms, read):
            _log.warning("%s", finding)
        return hosted

    def _shared_store(self, hosted: HostedTopics) -> EventStore:
        if self._store is not None:
            return self._store
        self._opened_store = TopicEventStore(self._transport, hosted.codec, lambda _workflow: hosted.topics.state)
        return self._opened_store

    def _consumer(self) -> Consumer:
        assert self._hosted is not None
        return self._transport.consumer(self._hosted.topics.group, client_id=self.config.name, assignor=Assignor.RANGE)

    async def until_stopped(self) -> None:
        """Wait for `stop`, or the error that ends the worker."""
        if self._stopped is None:
            raise WorkerNotRunning(self.workflow.name)
        await self._stopped.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let requests go on for `pubsub.grace_s`, commit what is stored, and leave the group.

        Raises the error that ended the worker.
        """
        await self._close()
        if self._error is not None and self._error is not error:
            raise self._error

    async def _close(self) -> None:
        self._is_stopping = True
        if self._reader is not None and self._requests is not None:
            self._reader.stop_reading()
            await self._requests.close(0 if self._error is not None else self.config.stream.pubsub.grace_s)
            tasks = self._tasks if self._retention is None else {*self._tasks, self._retention}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._reader.close(is_dead=self._is_dead)
        if self._outbox is not None:
            await self._outbox.close(is_dead=self._is_dead)
        try:
            if self._opened_store is not None:
                await self._opened_store.close()
        finally:
            if self._hosted is not None and not self._is_dead:
                await asyncio.to_thread(self._hosted.close)

    def stop(self) -> None:
        """Ask the worker to end. Any thread may call this, and a signal handler."""
        self._is_stopping = True
        loop, stopped = self._loop, self._stopped
        if loop is not None and stopped is not None and not loop.is_closed():
            loop.call_soon_threadsafe(stopped.set)

    def _die(self, error: BaseException) -> None:
        """End with an error. With one that is no Exception, as a killed process does: nothing is committed any more."""
        if self._error is None:
            self._error = error
            if isinstance(error, Exception):
                _log.error("the worker of workflow %s ends: %s", self.workflow.name, exception_line(error))
        self._is_stopping = True
        self._is_dead |= not isinstance(error, Exception)
        if self._requests is not None and self._is_dead:
            self._requests.die()
        if self._stopped is not None:
            self._stopped.set()

    # --- what people ask ----------------------------------------------------------------------------------------------

    def retry(self, request_id: str) -> bool:
        """Go on with a request, also one that failed; False: its partition is another worker's.

        For the worker's event loop; elsewhere a client's `invoke` without input does the same.
        """
        if self._requests is None:
            raise WorkerNotRunning(self.workflow.name)
        return self._requests.retry(request_id)

    @property
    def counts(self) -> WorkerCounts:
        """What the worker has done. Any thread may ask."""
        return self._counters.snapshot()

    @property
    def groups_without_partitions(self) -> tuple[str, ...]:
        """The worker's group, until that has assigned partitions to it."""
        if self._reader is None or self._hosted is None or self._reader.has_partitions:
            return ()
        return (self._hosted.topics.group,)

    def watch_for_idleness(self) -> None:
        """Let `is_idle` be answered from now on: it costs a question to the client after each read without records."""
        if self._reader is None:
            raise WorkerNotRunning(self.workflow.name)
        self._reader.watch_for_idleness()

    def is_idle(self) -> bool:
        """Return whether nothing is left to do now: every record was read, and no request can go on.

        For the worker's event loop, behind `watch_for_idleness`. Requests that wait for an answer may be there.
        """
        reader, requests = self._reader, self._requests
        if reader is None or requests is None:
            raise WorkerNotRunning(self.workflow.name)
        return requests.is_idle and not self._tasks and reader.has_read_all()

    def health(self) -> WorkerHealth:
        """Return whether the worker makes progress. Any thread may ask."""
        requests, reader = self._requests, self._reader
        if requests is None or reader is None:
            reasons: tuple[str, ...] = ("the worker has not started",)
            return WorkerHealth(ready=False, reasons=reasons, open_requests=0, queued=0)
        reasons = reader.problems()
        if (problem := requests.problem) is not None:
            reasons = (*reasons, problem)
        if self._error is not None:
            reasons = (exception_line(self._error), *reasons)
        if self._is_stopping:
            reasons = (*reasons, "the worker is stopping")
        return WorkerHealth(ready=not reasons, reasons=reasons, open_requests=requests.at_work, queued=requests.queued)

    def _remaining(self) -> str:
        count = 0 if self._requests is None else self._requests.at_work
        return f"{count} requests at work" if count else ""

    # --- the reader's news --------------------------------------------------------------------------------------------

    def received(self, records: Sequence[Received]) -> None:
        """Give each record to its request.

        What a read that had begun still brings while the worker ends is its next owner's: nothing may begin any more.
        """
        requests = self._requests
        if requests is None or self._is_stopping:
            return
        for received in records:
            incoming = received.incoming
            if isinstance(incoming, EventReceived | StatusAsked):
                requests.take(incoming.request_id, received)
            else:
                self._spawn(self._pass_on(received))

    async def _pass_on(self, received: Received) -> None:
        """Produce a record elsewhere: to the dead letters, or to the partition where it belongs."""
        publishing, reader = self._publishing, self._reader
        assert publishing is not None
        assert reader is not None
        incoming = received.incoming
        if isinstance(incoming, Unreadable):
            _log.error("%s[%d] offset %d: %s", *received.record.topic_partition, received.record.offset, incoming)
            await publishing.dead_letter(received, incoming)
        elif isinstance(incoming, Forwarded):
            if incoming.is_again:
                await asyncio.to_thread(self._check_partitions)
            try:
                await publishing.produce(incoming.outgoing)
            except RecordTooLarge as error:
                await publishing.dead_letter(received, error)
                return
            self._counters.add("forwarded")
            reader.finished(received)

    def _check_partitions(self) -> None:
        """Raise PartitionsChanged when there are others than there were: a record would be produced again and again."""
        hosted = self._hosted
        assert hosted is not None
        try:
            existing = self._transport.admin().topics([*hosted.topics.of.values()])
        except BrokerUnavailable:
            return
        if any(topic.partitions != hosted.records.partitions for topic in existing.values()):
            raise PartitionsChanged(self.workflow.name, hosted.records.partitions)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.workflow.name} worker")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(error)

    def assigned(self, partitions: frozenset[int], crashed: frozenset[int]) -> None:
        """Take partitions. One that is new ends the worker: which request is on which is no longer what it knows."""
        hosted = self._hosted
        if hosted is not None and any(number >= hosted.records.partitions for number in partitions):
            self._die(PartitionsChanged(self.workflow.name, hosted.records.partitions))
        if self._requests is not None and not self._is_dead:
            self._requests.assigned(partitions, crashed)

    async def revoke(self, partitions: frozenset[int]) -> None:
        """Give up partitions."""
        if self._requests is not None and not self._is_dead:
            await self._requests.revoke(partitions, self.config.drain_s, self.config.suspended_s)

    def lost(self, partitions: frozenset[int]) -> None:
        """Drop partitions."""
        if self._requests is not None and not self._is_dead:
            self._requests.lost(partitions)

    def reader_failed(self, error: BaseException) -> None:
        """End with the reader's error."""
        self._die(error)
