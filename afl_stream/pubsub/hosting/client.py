"""The client of a hosted workflow: it starts requests, answers their questions, and follows their output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from afl.core.clock import epoch_ms
from afl.core.ids import time_ordered_id
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.following import Invocation
from afl_stream.pubsub.hosting.outbox import Outbox, OutboxClosed, Receipts
from afl_stream.pubsub.hosting.output_reader import OutputReader, ReadNews
from afl_stream.pubsub.hosting.records import CLIENT_TYPE, Outgoing, RequestReport, WorkflowRecords
from afl_stream.pubsub.hosting.resources import HostedTopics, opened_topics
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import PublishToTopicEvent, derived_event_id
from afl_stream.pubsub.running.errors import InputRefused
from afl_stream.pubsub.running.inputs import is_taken
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.topics.rights import Role
from afl_stream.transport import TopicPartition, Transport
from afl_stream.wire.codec import Codec

#: The publisher of what a client publishes, and part of the ids of its events: never change it.
_PUBLISHER: Final = "client"
#: Events of one request that its caller has not taken, above which the client reads nothing more.
MAX_BUFFERED: Final = 1_000


class ClientNotOpen(PubSubError):
    """A client is used outside of `async with`, or was closed before the broker had acknowledged what was published."""

    def __init__(self, workflow: str, *, was_publishing: bool = False) -> None:
        super().__init__(
            f"the client of workflow {workflow} was closed while it published: the broker may have the records, or not"
            if was_publishing
            else f"the client of workflow {workflow} is not open: use it inside `async with WorkflowClient(...)`"
        )


class TopicNotNamed(PubSubError):
    """An answer does not say for which topic it is, and the workflow has several for answers, or none."""

    def __init__(self, workflow: str, found: str, topics: tuple[str, ...]) -> None:
        has = f"takes answers on {', '.join(topics)}" if topics else "has no topic for answers"
        given = f"there is no topic {found} for answers" if found else "name the topic of the answer"
        super().__init__(f"workflow {workflow} {has}; {given}")
        self.workflow = workflow
        self.topics = topics


class WorkflowClient:
    """A hosted workflow, as callers in other processes use it. Needs the workflow's declaration and no store.

        async with WorkflowClient(workflow, transport) as client:
            async for event in client.invoke(InvokeContext(assistant_request_id="r1"), {"text": "..."}):
                print(event.name, event.data)

    The same request id again is the same request: its input counts once. A caller that takes its events slowly slows
    down the reading for all callers of this client, once MAX_BUFFERED of them wait.
    """

    def __init__(
        self,
        workflow: EventDrivenWorkflow | WorkflowDefinition,
        transport: Transport,
        config: WorkerConfig | None = None,
        *,
        codec: Codec | None = None,
    ) -> None:
        self.workflow = workflow.definition if isinstance(workflow, EventDrivenWorkflow) else workflow
        self._config = config or WorkerConfig()
        self._transport = transport
        self._given_codec = codec
        self._followed: dict[bytes, list[Invocation]] = {}
        #: Up to which offsets the topics were read.
        self._positions: dict[TopicPartition, int] = {}
        #: Those that have a report, and maybe not all output; those whose callers are slow.
        self._reported: set[Invocation] = set()
        self._full: set[Invocation] = set()
        self._hosted: HostedTopics | None = None
        self._outbox: Outbox | None = None
        self._reader: OutputReader | None = None
        self._error: BaseException | None = None
        self._closing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Begin to read the output topics.

        Raises WorkflowTopicMissing, TopicHidden, what the transport raises, and ClientNotOpen when closed meanwhile.
        """
        self._error = None
        hosted = self._hosted = await opened_topics(
            self.workflow,
            self._transport,
            self._config.stream,
            self._given_codec,
            role=Role.PUBSUB_CLIENT,
            has_state=False,
            is_stopping=lambda: self._error is not None,
        )
        try:
            await self._open(hosted)
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self, hosted: HostedTopics) -> None:
        self._check_no_error()
        self._outbox = Outbox(self._transport.producer(), self._config.stream.pubsub.max_unacknowledged, self._fail)
        outputs = [hosted.topics.of[topic.name] for topic in self.workflow.output_topics]
        numbers = range(hosted.records.partitions)
        reader = self._reader = OutputReader(
            self._transport,
            [TopicPartition(topic, number) for topic in (*outputs, hosted.topics.status) for number in numbers],
            hosted.topics.status,
            hosted.records,
            self._config,
            wanted=self._followed,
            take=self._take,
            fail=self._fail,
        )
        reader.start()
        await reader.opened
        self._check_no_error()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the threads. Requests go on.

        Calls that are under way raise ClientNotOpen, unless the last acknowledgements are for them.
        """
        async with self._closing:
            try:
                if self._reader is not None:
                    await self._reader.close()
                if self._outbox is not None:
                    await self._outbox.close()
            finally:
                hosted = self._hosted
                self._reader, self._outbox, self._hosted = None, None, None
                self._fail(ClientNotOpen(self.workflow.name))
                if hosted is not None:
                    await asyncio.to_thread(hosted.close)

    # --- requests ---------------------------------------------------------------------------------------------------

    def invoke(
        self,
        context: InvokeContext,
        input: object = None,
        *,
        topic: str | None = None,
        passes_waits: bool = False,
        timeout_s: float | None = None,
    ) -> Invocation:
        """Start a request with its input, or go on with it, and return its output events as they come.

        Without an input (None) the request goes on, a failed one is tried again, and all of its output comes, also what
        was there before. With `topic` the input is the answer to a question, and what follows it comes; so does a dict
        of answers by the topics that take them. The `invoke_id` of the context tells a request's further inputs apart;
        for these, output that was there before comes again, behind the new. With `passes_waits` it is followed on while
        it waits for what others publish: a service that stands in for a node, or another person. `timeout_s`: until the
        request has come to its end or to a question.
        """
        # Here, where the caller's span is the current one.
        carried = self.workflow.spans.carried(context)

        async def begin(invocation: Invocation) -> None:
            if invocation.asked:
                event_id, _ = question = self._question(carried)
                invocation.asked = {event_id}
                await self._publish([question])
            else:
                await self._begin(invocation, carried, input, topic)

        invocation = Invocation(self.workflow.name, context.assistant_request_id, begin, self._on_taken, timeout_s)
        invocation.passes_waits = passes_waits
        return invocation

    async def start(self, context: InvokeContext, input: object) -> None:
        """Start a request, and return when its input is acknowledged."""
        await self._publish(self._inputs(self.workflow.spans.carried(context), input))

    async def answer(self, context: InvokeContext | str, data: object, *, topic: str | None = None) -> None:
        """Answer a question of a request, and return when the answer is acknowledged.

        `context` may be the request's id alone. `topic` is where the answer goes; not needed where the workflow has one
        topic for answers. The same `invoke_id` of the context again is the same answer. Raises TopicNotNamed.
        """
        if isinstance(context, str):
            context = InvokeContext(assistant_request_id=context)
        await self._publish([self._answer(self.workflow.spans.carried(context), data, topic)])

    # --- publishing -------------------------------------------------------------------------------------------------

    async def _begin(self, invocation: Invocation, context: InvokeContext, input: object, topic: str | None) -> None:
        self._opened_outbox()
        answers = {topic: input} if topic is not None else self._named_answers(input)
        if input is None:
            published = [self._question(context)]
        elif answers:
            published = [self._answer(context, data, name) for name, data in answers.items()]
        else:
            published = self._inputs(context, input)
        invocation.asked = {event_id for event_id, _ in published}
        invocation.is_whole = not answers
        # Without an id of the call a request has one input.
        invocation.may_be_next = bool(context.invoke_id) and invocation.is_whole
        key = context.assistant_request_id.encode()
        self._followed.setdefault(key, []).append(invocation)
        await self._publish(published)

    def _named_answers(self, input: object) -> Mapping[str, object]:
        known = {topic.name for topic in self.workflow.in_workflow_input_topics}
        return input if isinstance(input, dict) and input and set(input) <= known else {}

    def _inputs(self, context: InvokeContext, input: object) -> list[tuple[str, Outgoing]]:
        name, request_id, inputs = self.workflow.name, context.assistant_request_id, self.workflow.input_topics
        topics = [topic.name for topic in inputs if is_taken(topic, input, name, request_id)]
        if not topics:
            raise InputRefused(name, request_id, [topic.name for topic in inputs])
        calls = (context.invoke_id,) if context.invoke_id else ()
        return [self._input(topic, input, context, calls) for topic in topics]

    def _answer(self, context: InvokeContext, data: object, topic: str | None) -> tuple[str, Outgoing]:
        known = tuple(each.name for each in self.workflow.in_workflow_input_topics)
        if topic is None and len(known) == 1:
            topic = known[0]
        if topic not in known:
            raise TopicNotNamed(self.workflow.name, topic or "", known)
        return self._input(topic, data, context, (context.invoke_id or _drawn_id(),))

    def _input(self, topic: str, data: object, context: InvokeContext, calls: tuple[str, ...]) -> tuple[str, Outgoing]:
        request_id = context.assistant_request_id
        event_id = derived_event_id(request_id, _PUBLISHER, topic, 0, calls)
        event = PublishToTopicEvent(event_id, request_id, topic, 0, data, _PUBLISHER, CLIENT_TYPE, (), epoch_ms())
        return event_id, self._records.encoded(event, context)

    def _question(self, context: InvokeContext) -> tuple[str, Outgoing]:
        event_id = _drawn_id()
        topic = self.workflow.input_topics[0].name
        return event_id, self._records.question(topic, context.assistant_request_id, event_id)

    async def _publish(self, published: list[tuple[str, Outgoing]]) -> None:
        outbox = self._opened_outbox()
        receipts = Receipts()
        try:
            for _, outgoing in published:
                await outbox.produce(outgoing, receipts)
            await receipts.all()
        except OutboxClosed as error:
            if self._error is not None and not isinstance(self._error, ClientNotOpen):
                raise self._error from error
            raise ClientNotOpen(self.workflow.name, was_publishing=True) from error

    @property
    def _records(self) -> WorkflowRecords:
        if self._hosted is None:
            raise ClientNotOpen(self.workflow.name)
        return self._hosted.records

    def _opened_outbox(self) -> Outbox:
        self._check_no_error()
        if self._outbox is None:
            raise ClientNotOpen(self.workflow.name)
        return self._outbox

    def _check_no_error(self) -> None:
        if self._error is not None:
            raise self._error

    # --- following --------------------------------------------------------------------------------------------------

    def _take(self, news: ReadNews) -> None:
        for item in news.found:
            if isinstance(item, RequestReport):
                key = item.request_id.encode()
                for invocation in self._followed.get(key, ()):
                    if invocation.take_report(item, self._places(key)):
                        self._reported.add(invocation)
                continue
            for invocation in self._followed.get(item.assistant_request_id.encode(), ()):
                invocation.take(item)
                if invocation.buffered >= MAX_BUFFERED:
                    self._full.add(invocation)
        self._positions.update(news.positions)
        self._reported = {each for each in self._reported if not each.has_ended(self._positions)}
        if self._full and self._reader is not None:
            self._reader.room.clear()

    def _places(self, key: bytes) -> Mapping[str, TopicPartition]:
        assert self._hosted is not None
        number = partition_for(key, self._hosted.records.partitions)
        of = self._hosted.topics.of
        return {topic.name: TopicPartition(of[topic.name], number) for topic in self.workflow.output_topics}

    def _on_taken(self, invocation: Invocation) -> None:
        if invocation.is_over:
            key = invocation.request_id.encode()
            followed = [other for other in self._followed.get(key, ()) if other is not invocation]
            if followed:
                self._followed[key] = followed
            else:
                self._followed.pop(key, None)
        if invocation in self._full and invocation.buffered * 2 <= MAX_BUFFERED:
            self._full.discard(invocation)
            if not self._full and self._reader is not None:
                self._reader.room.set()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        for invocations in list(self._followed.values()):
            for invocation in invocations:
                invocation.fail(error)


def _drawn_id() -> str:
    return time_ordered_id(epoch_ms())
