"""Hosted workflows on a real broker: worker processes that are killed and come and go, and other programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.client import WorkflowClient
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.topics import WorkflowTopics, apply_topics
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.settings.config import StreamConfig, load_config
from afl_stream.transport import Start, TopicPartition
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import TopicEvent
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.eventually import eventually
from tests.tiers import some_now
from tests.worlds.hosted import NODES, Executions, approval, pipeline, request
from tests.worlds.processes import DEADLINE_S, Party, Processes
from tests.worlds.requirements import required_tool

#: Notices a dead member soon; the test broker allows it.
SOON = {"AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "6000", "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "500"}


class HostedOnKafka:
    """One workflow on the run's broker, with worker processes."""

    def __init__(self, bootstrap: str, folder: Path, processes: Processes) -> None:
        self.folder = folder
        self.prefix = f"t{uuid.uuid4().hex[:8]}."
        self.environment = {
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_PREFIX": self.prefix,
            "AFL_TOPICS_CONTROL_PARTITIONS": "6",
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_PUBSUB_DRAIN_S": "1",
            **SOON,
        }
        self.executions = Executions(folder / "executions.jsonl")
        self._processes = processes
        self.config: StreamConfig = load_config(environ=self.environment)
        self.transport = KafkaTransport(self.config)

    def topics(self, workflow: EventDrivenWorkflow) -> WorkflowTopics:
        topics = WorkflowTopics(self.config, workflow.name, workflow.definition.topics)
        apply_topics(topics, self.transport)
        return topics

    def worker(self, workflow: str, *, store: str | None = None, pause_s: float = 0.0, **environment: str) -> Party:
        words = ["tests.worlds.hosted_process", workflow, "--executions", str(self.folder / "executions.jsonl")]
        words += ["--pause", str(pause_s), *(() if store is None else ("--store", store))]
        return self._processes.start("worker", *words, environment={**self.environment, **environment})

    def client(self, workflow: EventDrivenWorkflow) -> WorkflowClient:
        return WorkflowClient(workflow, self.transport, WorkerConfig(stream=self.config, name="client"))

    def events(self, topic: str) -> list[TopicEvent]:
        """Return the events on a topic of the cluster."""
        codec = single_object_codec(InMemorySchemaLog())
        reader = self.transport.consumer(None)
        places = [TopicPartition(topic, number) for number in range(self.config.topics.control_partitions)]
        ends = {place: reader.watermarks(place).high for place in places}
        reader.assign(dict.fromkeys(places, Start.EARLIEST))
        found: list[TopicEvent] = []
        while any(reader.position(place) < end for place, end in ends.items()):
            for record in reader.consume(500, 0.1):
                message = codec.decode(record.value, record.headers)
                assert isinstance(message, TopicEvent)
                found.append(message)
        reader.close()
        return found

    def close(self) -> None:
        self.transport.close()


@pytest.fixture
def hosted(kafka_bootstrap: str, tmp_path: Path) -> Iterator[HostedOnKafka]:
    with Processes(tmp_path) as processes:
        world = HostedOnKafka(kafka_bootstrap, tmp_path, processes)
        yield world
        world.close()


async def outputs(client: WorkflowClient, request_id: str, input: object = None) -> list[object]:
    return [event.data async for event in client.invoke(request(request_id), input, timeout_s=DEADLINE_S)]


async def runs(hosted: HostedOnKafka, count: int) -> None:
    """Wait until nodes have run so often."""
    async with asyncio.timeout(DEADLINE_S):
        while hosted.executions.counts.total() < count:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("store", some_now([None, "sqlite:///events.sqlite3"], 1))
def test_a_killed_worker_loses_nothing_and_its_finished_nodes_do_not_run_again(
    hosted: HostedOnKafka, store: str | None
) -> None:
    workflow = pipeline(hosted.executions)
    hosted.topics(workflow)

    async def scenario() -> None:
        async with hosted.client(workflow) as client:
            killed = hosted.worker("sums", store=store, pause_s=0.02)
            await runs(hosted, 0)
            other = hosted.worker("sums", store=store, pause_s=0.02)
            answers = asyncio.gather(*(outputs(client, f"r{n}", n) for n in range(200)))
            await runs(hosted, 250)
            killed.kill()
            assert await answers == [[f"it is {(n + 1) * 2}"] for n in range(200)]
            stats = await asyncio.to_thread(other.stop)
            assert stats["conflicts"] == 0

    asyncio.run(scenario())

    counts = hosted.executions.counts
    assert counts.keys() == {(node, f"r{n}") for node in NODES for n in range(200)}
    # One node of a request may have been at work when the worker died.
    assert all(sum(counts[node, f"r{n}"] for node in NODES) <= len(NODES) + 1 for n in range(200))


@pytest.mark.long
def test_a_worker_that_stood_still_finds_its_requests_taken_over(hosted: HostedOnKafka) -> None:
    workflow = pipeline(hosted.executions)
    topics = hosted.topics(workflow)

    async def scenario() -> None:
        async with hosted.client(workflow) as client:
            frozen = hosted.worker("sums", pause_s=0.2)
            other = hosted.worker("sums", pause_s=0.2)
            answers = asyncio.gather(*(outputs(client, f"r{n}", n) for n in range(100)))
            await runs(hosted, 120)
            await asyncio.to_thread(frozen.freeze)
            assert await answers == [[f"it is {(n + 1) * 2}"] for n in range(100)]
            frozen.go_on()
            assert await outputs(client, "after", 20) == ["it is 42"]
            for party in (frozen, other):
                await asyncio.to_thread(party.stop)

    asyncio.run(scenario())

    found = {event.id for event in hosted.events(topics.of["words"])}
    assert len(found) == 101


def test_workers_that_come_and_go_share_the_requests_and_lose_none(hosted: HostedOnKafka) -> None:
    workflow = pipeline(hosted.executions)
    hosted.topics(workflow)

    async def scenario() -> None:
        few_at_once = asyncio.Semaphore(5)

        async def answer(client: WorkflowClient, n: int) -> list[object]:
            async with few_at_once:
                return await outputs(client, f"r{n}", n)

        async with hosted.client(workflow) as client:
            first = hosted.worker("sums", pause_s=0.05)
            answers = asyncio.gather(*(answer(client, n) for n in range(200)))
            await runs(hosted, 100)
            second = hosted.worker("sums", pause_s=0.05)
            await runs(hosted, 300)
            of_first = await asyncio.to_thread(first.stop)
            assert await answers == [[f"it is {(n + 1) * 2}"] for n in range(200)]
            of_second = await asyncio.to_thread(second.stop)
            assert of_first["finished"] + of_second["finished"] >= 200
            assert of_second["finished"] > 0

    asyncio.run(scenario())

    assert hosted.executions.counts.keys() == {(node, f"r{n}") for node in NODES for n in range(200)}


def test_a_person_answers_after_the_worker_that_asked_has_gone(hosted: HostedOnKafka) -> None:
    workflow = approval()
    hosted.topics(workflow)

    async def ask() -> None:
        worker = hosted.worker("approval")
        async with hosted.client(workflow) as client:
            invocation = client.invoke(request("r1"), "news", timeout_s=DEADLINE_S)
            assert [event.data async for event in invocation] == ["publish news?"]
            assert invocation.status is RequestStatus.WAITING
        await asyncio.to_thread(worker.stop)

    async def answer() -> None:
        async with hosted.client(workflow) as client:
            hosted.worker("approval")
            assert await outputs(client, "r1", {"answers": "yes"}) == ["person said yes"]
            # Events of different topics come in any order.
            assert sorted(map(str, await outputs(client, "r1"))) == ["person said yes", "publish news?"]

    asyncio.run(ask())
    asyncio.run(answer())


@pytest.mark.parametrize("partitioner", ["consistent_random", "murmur2_random"])
def test_kcat_starts_a_request_and_reads_its_output_as_json(hosted: HostedOnKafka, partitioner: str) -> None:
    kcat, workflow = required_tool("kcat"), pipeline(hosted.executions)
    topics = hosted.topics(workflow)
    hosted.worker("sums", AFL_PUBSUB_FORMAT="json")
    at = ["-b", hosted.environment["AFL_KAFKA_BOOTSTRAP"]]
    producing = [kcat, "-P", *at, "-t", topics.of["numbers"], "-K:", "-X", f"topic.partitioner={partitioner}"]
    subprocess.run(producing, input=b"order-17:20\norder-18:30\n", check=True)

    def read() -> dict[str, object]:
        reading = [kcat, "-C", *at, "-t", topics.of["words"], "-e", "-q", "-f", "%k|%s\n"]
        lines = subprocess.run(reading, capture_output=True, check=True, text=True).stdout.splitlines()
        return {key: json.loads(value)["data"] for key, _, value in (line.partition("|") for line in lines)}

    eventually(lambda: read() == {"order-17": "it is 42", "order-18": "it is 62"}, DEADLINE_S, interval_s=0.2)


def test_a_worker_that_is_told_to_end_leaves_the_request_that_takes_long(hosted: HostedOnKafka) -> None:
    workflow = pipeline(hosted.executions)
    hosted.topics(workflow)

    async def scenario() -> None:
        async with hosted.client(workflow) as client:
            slow = hosted.worker("sums", pause_s=3_600, AFL_PUBSUB_GRACE_S="1")
            await client.start(request("r1"), 20)
            await runs(hosted, 1)
            stats = await asyncio.to_thread(slow.stop)
            assert stats["finished"] == 0
            hosted.worker("sums")
            assert await outputs(client, "r1") == ["it is 42"]

    asyncio.run(scenario())

    assert hosted.executions.counts == {("increase", "r1"): 2, ("double", "r1"): 1, ("say", "r1"): 1}
