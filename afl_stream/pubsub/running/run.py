"""One request to a workflow, as it runs."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence

from afl.core.clock import epoch_ms
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, TopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.spans import NO_SPAN
from afl_stream.pubsub.running.errors import RunClosed
from afl_stream.pubsub.running.inputs import open_questions, publish_external
from afl_stream.pubsub.running.node_runner import NodeRunner
from afl_stream.pubsub.running.output_queue import AsyncOutputQueue, MergeIdleQueue
from afl_stream.pubsub.running.restoring import restore
from afl_stream.pubsub.running.scheduler import Scheduler
from afl_stream.pubsub.running.topic_log import Cursor, TopicLog
from afl_stream.pubsub.running.tracker import AsyncNodeTracker
from afl_stream.pubsub.running.writer import EventWriter

_log = logging.getLogger(__name__)


class WorkflowRun:
    """The state of one request: its topics, the nodes at work, the queue of nodes that can run, and the output.

    `open` restores what is stored. Then either the caller of `stream` gets the output, or `drive` runs without one.
    Everything happens on one event loop, and is stored before anybody sees it. Whoever opens a run closes it.
    """

    def __init__(
        self, definition: WorkflowDefinition, context: InvokeContext, store: EventStore, probe: Probe = no_probe
    ) -> None:
        """Make a run of which nothing is restored yet: `open` is what callers use."""
        self.definition = definition
        self.context = context
        self.request_id = context.assistant_request_id
        self.key = RequestKey(definition.name, self.request_id)
        self.tracker = AsyncNodeTracker()
        self.scheduler = Scheduler(definition.name)
        outputs = {topic.name for topic in definition.output_topics}
        self.logs: dict[str, TopicLog] = {
            name: TopicLog(
                topic,
                (*definition.topic_nodes.get(name, ()), *((definition.name,) if name in outputs else ())),
                definition.max_buffered_events,
            )
            for name, topic in definition.topics.items()
        }
        self.runners: dict[str, NodeRunner] = {name: NodeRunner(self, node) for name, node in definition.nodes.items()}
        self.scheduler.set_runners(self.runners)
        self.outputs = AsyncOutputQueue(
            [log for name, log in self.logs.items() if name in outputs], definition.name, definition.type
        )
        self.writer = EventWriter(self, store, self.key, context, probe)
        #: Ids of the events that came from outside.
        self.external_ids: set[str] = set()
        #: Whether the store said, as the run was opened, that the request goes on or has failed.
        self.was_unfinished = False
        #: What this invoke was given, and what the caller gave last, by topic.
        self.given: object = None
        self.last_inputs: dict[str, object] = {}
        self.failure: BaseException | None = None
        #: Of the request, while it is run.
        self.span = NO_SPAN
        self.is_traced = False
        #: Nodes begin nothing more: the run has failed, or is being closed.
        self.is_stopping = False
        self._was_started = False
        self._is_yielding = False
        self._was_interrupted = False
        self._news: asyncio.Future[None] | None = None
        self._probe = probe
        self._is_closing = False
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, definition: WorkflowDefinition, context: InvokeContext, store: EventStore, *, probe: Probe = no_probe
    ) -> WorkflowRun:
        """Return the run of a request, with what the store has of it. No node runs yet."""
        run = cls(definition, context, store, probe)
        stored = await store.request(run.key)
        if stored is not None:
            restore(run, stored)
        return run

    # --- what others ask --------------------------------------------------------------------------------------------

    @property
    def status(self) -> RequestStatus:
        """Where the request stands now."""
        return self.status_with(0)

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is stored of the request."""
        return self.writer.stored == 0

    @property
    def is_closed(self) -> bool:
        """Whether the run was closed, or is being closed."""
        return self._is_closing

    @property
    def invoke_queue(self) -> deque[Node]:
        """Nodes that can run, in the order in which their subscriptions were met."""
        return self.scheduler.invoke_queue

    def is_idle(self) -> bool:
        """Say whether nothing can go on: no node is at work or can be, and nothing is on its way to the store."""
        return not (self.scheduler.at_work or self.writer.busy or self.scheduler.invoke_queue)

    def can_move(self) -> bool:
        """Say whether a node is at work, or can be."""
        return self.scheduler.can_move()

    def status_with(self, published: int) -> RequestStatus:
        """Return where the request stands once so many events more are published."""
        if isinstance(self.failure, NodeFailed):
            return RequestStatus.FAILED
        scheduler = self.scheduler
        if published or scheduler.at_work or scheduler.invoke_queue or self.outputs.has_events() or self._is_yielding:
            return RequestStatus.RUNNING
        if self.is_stopping and (self._was_interrupted or any(each.can_invoke() for each in self.runners.values())):
            return RequestStatus.RUNNING
        if open_questions(self) or any(runner.holds_events() for runner in self.runners.values()):
            return RequestStatus.WAITING
        return RequestStatus.FINISHED

    # --- publishing -------------------------------------------------------------------------------------------------

    async def publish_external(
        self,
        topic: str,
        data: object,
        *,
        event_id: str | None = None,
        publisher: str = "",
        publisher_type: str = "",
    ) -> bool:
        """Publish an event from outside, and return once it is stored. False: it is known, or the topic refuses it.

        The same `event_id` again is the same event; without one the event is another each time. Events that nodes of
        this workflow have made are not for this: their ids are not remembered. Waits for room while nodes are at work
        that can make it.
        """
        return await publish_external(
            self, topic, data, event_id=event_id, publisher=publisher, publisher_type=publisher_type
        )

    def publish_input(self, topic: str, event_id: str, data: object) -> None:
        """Publish what the caller gives; `until_stored` waits for it."""
        self.external_ids.add(event_id)
        definition = self.definition
        self.publish(self.logs[topic], event_id, data, definition.name, definition.type, ())

    async def until_stored(self) -> None:
        """Wait until everything so far is stored, and raise what went wrong with it."""
        await self.writer.until_stored()
        if self.writer.error is not None:
            raise self.writer.error

    def publish(
        self, log: TopicLog, event_id: str, data: object, publisher: str, publisher_type: str, consumed: tuple[str, ...]
    ) -> None:
        """Give an event to the writer; `events_stored` shows it."""
        offset = log.end
        log.end = offset + 1
        fields = (event_id, self.request_id, log.name, offset, data, publisher, publisher_type, consumed, epoch_ms())
        self.writer.publish(log.make(fields))

    async def room_for(self, log: TopicLog) -> None:
        """Wait until the slowest consumer of a topic lags less, or nothing else can move."""
        waiter = self.scheduler.rooms.enter(log)
        self.settle()
        await self.scheduler.rooms.until_granted(waiter)

    # --- what the writer and the nodes tell -------------------------------------------------------------------------

    def events_stored(self, published: Sequence[TopicEvent], committed: Mapping[Cursor, ConsumeFromTopicEvent]) -> None:
        """Show stored events to their consumers, and let go what is committed."""
        logs, outputs = self.logs, self.outputs
        newest: dict[str, TopicEvent] = {}
        for event in published:
            name = event.name
            logs[name].publish(event)
            newest[name] = event
            if name in outputs.topics:
                outputs.add(name)
        for cursor, last in committed.items():
            cursor.committed = last.offset + 1
        for log in {cursor.log for cursor in committed}:
            log.trim()
        for event in newest.values():
            self.on_event(event)
        self.scheduler.rooms.grant_free()
        if outputs.has_events():
            self._tell_reader()
        self.scheduler.start_queued()

    def on_event(self, event: TopicEvent) -> None:
        """Put the nodes into the invoke queue that are subscribed to the event's topic and can run now."""
        self.scheduler.queue(self.definition.topic_nodes[event.name])

    def node_rests(self, runner: NodeRunner, task: asyncio.Task[None] | None) -> None:
        """Note that a node's task ends."""
        self.scheduler.rests(runner, task)
        self.settle()

    def node_failed(self, runner: NodeRunner, error: BaseException) -> None:
        """Fail the request by what a node raised; what it raises as it is cancelled changes nothing any more."""
        self._was_interrupted = True
        if self.is_stopping:
            if not isinstance(error, asyncio.CancelledError):
                _log.warning(
                    "workflow %s, request %s: node %s raised as it was cancelled: %s",
                    self.definition.name,
                    self.request_id,
                    runner.node.name,
                    exception_line(error),
                )
            return
        failure = error
        was_cancelled = isinstance(error, asyncio.CancelledError)
        if isinstance(error, Exception) or (was_cancelled and runner.task is not None and not runner.task.cancelling()):
            reason = "its command was cancelled" if was_cancelled else exception_line(error)
            failure = NodeFailed(self.definition.name, runner.node.name, self.request_id, reason)
            failure.__cause__ = error
        self._fail(failure)

    def writing_failed(self, error: BaseException) -> None:
        """End the run: nothing more can be stored."""
        self._fail(error)

    def _fail(self, failure: BaseException) -> None:
        """Begin nothing more, and cancel what is at work. The first failure is what the caller gets."""
        if self.failure is None:
            self.failure = failure
        if _ends_as_a_crash(failure):
            self.writer.drop()
        self._stop()

    def _stop(self) -> None:
        self.is_stopping = True
        self.scheduler.stop()
        self._tell_reader()

    def settle(self) -> None:
        """Go on with what can go on: nodes of the queue, the reader, or else the publisher that waits longest."""
        if self.is_stopping:
            self._tell_reader()
            return
        scheduler = self.scheduler
        scheduler.start_queued()
        if self.writer.busy or not scheduler.is_stuck():
            return
        if scheduler.rooms and not self.outputs.has_events():
            scheduler.rooms.grant_oldest()
        else:
            self._tell_reader()

    # --- running ----------------------------------------------------------------------------------------------------

    async def stream(self) -> AsyncGenerator[ConsumeFromTopicEvent, None]:
        """Run, and yield the output. Ends when nothing can go on, and the store says how the request stands.

        An event is, in this order:
          1. taken, and committed in the store                                          (run.output_committed)
          2. yielded

        A crash before 1 leaves it for the next reader. After 1 it is not given again, whether or not it was yielded.
        """
        self._start()
        try:
            while True:
                async for cursor, event in MergeIdleQueue(self.outputs, self):
                    # The request has not ended for a caller that does not come back.
                    self._is_yielding = True
                    self.writer.commit(cursor, event)
                    await self.until_stored()
                    self._probe("run.output_committed")
                    self.span.output(event.data)
                    yield event
                    self._is_yielding = False
                if await self._has_ended():
                    return
        except GeneratorExit:
            raise
        except BaseException as error:
            self.span.fail(error)
            if _ends_as_a_crash(error):
                self._fail(error)
            raise
        finally:
            self._end_span()

    async def drive(self) -> RequestStatus:
        """Run until nothing can go on, and return where the request stands then. The output is in the store.

        A run that fails is closed.
        """
        self._start()
        try:
            while True:
                async for cursor, event in MergeIdleQueue(self.outputs, self):
                    self.writer.commit(cursor, event)
                    self.span.output(event.data)
                if await self._has_ended():
                    return self.status
        except BaseException as error:
            self.span.fail(error)
            await self.close()
            raise
        finally:
            self._end_span()

    def _start(self) -> None:
        definition = self.definition
        self.span = definition.spans.request(definition.name, definition.type, definition.oi_span_type, self.context)
        self.is_traced = self.span is not NO_SPAN
        if self.given is not None:
            self.span.input(self.given)
        self._was_started = True
        self.scheduler.start()
        self.settle()

    def _end_span(self) -> None:
        if self.is_traced:
            self.span.set({"afl.pubsub.status": self.status.value})
        self.span.end()

    async def _has_ended(self) -> bool:
        """Store where the request stands, and say whether nothing has come meanwhile."""
        await self.writer.store_status()
        self._probe("run.ended")
        self.raise_failure()
        has_ended = self.is_idle() and not self.outputs.has_events()
        if has_ended:
            self.scheduler.pause()
        return has_ended

    def raise_failure(self) -> None:
        """Raise what has ended the run, if anything has."""
        if self.failure is not None:
            raise self.failure
        if self.is_closed:
            raise RunClosed(self.definition.name, self.request_id)

    async def until_news(self) -> None:
        """Wait until there may be output, the run is idle, or it has failed."""
        self._news = self._loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def close(self) -> None:
        """Cancel what is at work, wait for it, and store where the request stands.

        A command that catches its cancellation holds this up for as long as it goes on, and so does a store. Cancelling
        the caller again cancels both again.
        """
        if self._is_closing:
            await self.until_closed()
            return
        self._is_closing = True
        self._is_yielding = False
        try:
            # A run that never began has found the request as it is.
            if self.writer.busy or (self._was_started and (not self.is_idle() or self.writer.lacks_status())):
                await self._finish()
        finally:
            self.is_stopping = True
            self._closed.set_result(None)

    async def until_closed(self) -> None:
        """Wait until `close`, which somebody else calls, is done."""
        await asyncio.shield(self._closed)

    async def _finish(self) -> None:
        self._stop()
        cancelled: asyncio.CancelledError | None = None
        ending = self._loop.create_task(self._store_end(), name=f"{self.definition.name} end")
        while not ending.done():
            try:
                await asyncio.wait((ending,))
            except asyncio.CancelledError as error:
                cancelled = error
                self.scheduler.cancel_again()
                self.writer.cancel()
        ending.result()
        if cancelled is not None:
            raise cancelled

    async def _store_end(self) -> None:
        await self.scheduler.until_ended()
        if self.failure is not None and _ends_as_a_crash(self.failure):
            self.writer.drop()
            await self.writer.until_stored()
        elif self._was_started:
            await self.writer.store_status()
        else:
            await self.writer.until_stored()

    def __repr__(self) -> str:
        return f"<WorkflowRun {self.definition.name}, request {self.request_id}: {self.status}>"


def _ends_as_a_crash(failure: BaseException) -> bool:
    """Say whether nothing more is to be stored: what is no Exception, and no cancellation, ends the process."""
    return not isinstance(failure, Exception | asyncio.CancelledError)
