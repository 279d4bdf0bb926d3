"""Hosted workflows on the embedded broker: workers, clients, and what stands on the topics."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from afl.core.probes import Probe
from afl.core.process.crashes import Crash
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, StoredRequest
from afl_stream.pubsub.hosting.client import WorkflowClient
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.topics import WorkflowTopics, apply_topics
from afl_stream.pubsub.hosting.worker import WorkflowWorker
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.settings.config import PubSubSettings, StreamConfig, TopicSettings
from afl_stream.transport import Headers, Record, TopicPartition
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import TopicEvent
from afl_stream.wire.schema_source import InMemorySchemaLog
from afl_stream.wire.topic_events import STATUS

#: A node's function, as tests write them.
Command = Callable[[InvokeContext, Sequence[ConsumeFromTopicEvent]], object]
#: Longer than anything takes, and short enough for a test that fails.
PATIENCE_S = 20.0


def request(request_id: str, **more: str) -> InvokeContext:
    return InvokeContext(assistant_request_id=request_id, **more)  # type: ignore[arg-type]  # attributes are no text


class Executions:
    """Counts which node ran for which request; in a file, so that other processes are counted too."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, node: str, request_id: str) -> None:
        if self._path is None:
            self._counts[node, request_id] += 1
            return
        with self._path.open("a") as file:
            file.write(json.dumps([node, request_id]) + "\n")

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        if self._path is not None and self._path.exists():
            lines = self._path.read_text().splitlines()
            return Counter((node, request_id) for node, request_id in map(json.loads, lines))
        return self._counts


def pipeline(executions: Executions, name: str = "sums", *, pause_s: float = 0.0) -> EventDrivenWorkflow:
    """Return three nodes in a row: a number is increased, doubled, and put into words. Each takes `pause_s`."""

    def counted(node: str, command: Callable[[int], object]) -> Command:
        async def run(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
            executions.count(node, context.assistant_request_id)
            await asyncio.sleep(pause_s)
            return command(events[0].data)

        return run

    numbers, increased, doubled, words = (
        InputTopic("numbers"),
        Topic("increased"),
        Topic("doubled"),
        OutputTopic("words"),
    )
    return (
        EventDrivenWorkflow.builder()
        .name(name)
        .node(
            Node.builder()
            .name("increase")
            .command(counted("increase", lambda number: number + 1))
            .subscribe(numbers)
            .publish_to(increased)
        )
        .node(
            Node.builder()
            .name("double")
            .command(counted("double", lambda number: number * 2))
            .subscribe(increased)
            .publish_to(doubled)
        )
        .node(
            Node.builder()
            .name("say")
            .command(counted("say", lambda number: f"it is {number}"))
            .subscribe(doubled)
            .publish_to(words)
        )
        .build()
    )


def approval() -> EventDrivenWorkflow:
    """Show a draft to a person, and publish what the person says."""
    drafts, questions = InputTopic("drafts"), InWorkflowOutputTopic("questions", reply_to="answers")
    answers, published = InWorkflowInputTopic("answers"), OutputTopic("published")

    def ask(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        return f"publish {events[0].data}?"

    def publish(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
        return f"person said {events[0].data}"

    return (
        EventDrivenWorkflow.builder()
        .name("approval")
        .node(Node.builder().name("ask").command(ask).subscribe(drafts).publish_to(questions))
        .node(Node.builder().name("publish").command(publish).subscribe(answers).publish_to(published))
        .build()
    )


NODES = ("increase", "double", "say")


class HostedWorld:
    """One broker, one store, one workflow."""

    def __init__(
        self,
        workflow: EventDrivenWorkflow,
        *,
        store: EventStore | None = None,
        on_topics: bool = False,
        **settings: object,
    ) -> None:
        """Take the workflow and a store, by default one in memory; `on_topics`: each worker keeps events on topics."""
        self.workflow = workflow
        pubsub = PubSubSettings(**{"drain_s": 0, "grace_s": 5, **settings})  # type: ignore[arg-type]  # each test's own
        self.config = StreamConfig(topics=TopicSettings(control_partitions=4), pubsub=pubsub)
        self.broker = EmbeddedBroker()
        self.transport = EmbeddedTransport(self.broker)
        self.topics = WorkflowTopics(self.config, workflow.name, workflow.definition.topics)
        apply_topics(self.topics, self.transport)
        self.codec = single_object_codec(InMemorySchemaLog())
        self._on_topics = on_topics
        topics_store = TopicEventStore(self.transport, self.codec, lambda _workflow: self.topics.state)
        self.store = topics_store if on_topics else store or MemoryEventStore()

    def worker_config(self, name: str = "worker", **changes: object) -> WorkerConfig:
        return replace(WorkerConfig(stream=self.config, name=name), **changes)  # type: ignore[arg-type]  # as above

    def worker(self, name: str = "worker", **changes: object) -> WorkflowWorker:
        transport = EmbeddedTransport(self.broker)
        return WorkflowWorker(self.workflow, transport, self._workers_store(), self.worker_config(name, **changes))

    def _workers_store(self) -> EventStore | None:
        return None if self._on_topics else self.store

    async def crash(self, probe: Probe) -> None:
        """Run a worker until its probe raises Crash; it leaves as a killed process does."""
        transport = EmbeddedTransport(self.broker)
        config = self.worker_config("crashing", probe=probe)
        worker = WorkflowWorker(self.workflow, transport, self._workers_store(), config)
        try:
            async with asyncio.timeout(PATIENCE_S), worker:
                await worker.until_stopped()
        except Crash:
            transport.abandon()
        else:
            raise AssertionError("the worker did not crash")

    def client(self) -> WorkflowClient:
        return WorkflowClient(self.workflow, EmbeddedTransport(self.broker), self.worker_config("client"))

    async def outputs(self, client: WorkflowClient, context: InvokeContext, input: object = None) -> list[object]:
        return [event.data async for event in client.invoke(context, input, timeout_s=PATIENCE_S)]

    async def stored(self, request_id: str) -> StoredRequest:
        found = await self.store.request(RequestKey(self.workflow.name, request_id))
        assert found is not None
        return found

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Produce as some other program does; `topic` is the cluster's."""
        producer = self.transport.producer()
        producer.produce(topic, value, key=key, partition=partition, headers=headers)
        producer.flush(PATIENCE_S)
        producer.close()

    def records(self, topic: str) -> list[Record]:
        """Return what stands on a topic of the cluster, partition by partition."""
        reader = self.transport.consumer(None)
        numbers = range(self.transport.admin().topics([topic])[topic].partitions)
        places = [TopicPartition(topic, number) for number in numbers]
        reader.assign({place: reader.watermarks(place).low for place in places})
        found: list[Record] = []
        while batch := reader.consume(1_000, 0):
            found.extend(batch)
        reader.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def events(self, topic: str) -> list[TopicEvent]:
        """Return the events on one of the workflow's topics."""
        events = []
        for record in self.records(self.topics.of.get(topic, topic)):
            message = self.codec.decode(record.value, record.headers, json_allowed=True)
            assert isinstance(message, TopicEvent)
            if message.kind != STATUS:
                events.append(message)
        return events

    def unread(self) -> int:
        """Return how many records the group has not committed."""
        reader = self.transport.consumer(self.topics.group)
        left = 0
        for topic in self.topics.of.values():
            places = [TopicPartition(topic, n) for n in range(self.config.topics.control_partitions)]
            committed = reader.committed(places)
            for place in places:
                bounds = reader.watermarks(place)
                left += bounds.high - (committed[place].offset if place in committed else bounds.low)
        reader.close()
        return left

    def close(self) -> None:
        self.transport.close()
        self.broker.close()


async def until(condition: Callable[[], object], deadline_s: float = PATIENCE_S) -> None:
    """Return as soon as `condition()` is true, while the event loop runs; fail when it is not by the deadline."""
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.005)
