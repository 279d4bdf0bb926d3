"""Cost of hosted workflows: `python -m benchmarks.pubsub_hosting [--pairs K] [--requests N] [--only WHICH]`.

A worker answers requests that stand on the input topic of a workflow of three nodes in a row. For each request it reads
one record, runs three nodes, stores their events, produces three records and one that says that the request has ended,
and reads the three again, since it is subscribed to all topics. The floor is a program without a workflow that reads
the same records, produces as many of the same size with a callback for each delivery, reads those again, and commits as
often: on the embedded broker with its consumer and producer, on Kafka with the confluent-kafka client.

Events are kept in memory (`memory`), or on the workflow's state topic (`topics`), which the floor knows nothing of: its
records come on top. CPU is that of the whole process, with the threads of the client and, where it is embedded, the
broker. The last line is one JSON object, for each broker and store: `ratio`, CPU of a request over that of the floor;
`request_us` and `floor_us`; `event_us`, a seventh of `request_us`, since a request is seven records read or produced
and the status; and `requests_per_s`, by the clock.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import median
from typing import Any, Final, NamedTuple, TextIO

from confluent_kafka import Consumer as KafkaClientConsumer
from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as KafkaClientProducer
from confluent_kafka import TopicPartition as KafkaPartition

from afl.core.process.collector import tune_collector
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.kafka.settings import consumer_settings, producer_settings
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    EventStore,
    InputTopic,
    InvokeContext,
    MemoryEventStore,
    Node,
    OutputTopic,
    Topic,
    WorkerConfig,
    WorkflowTopics,
    WorkflowWorker,
    apply_topics,
)
from afl_stream.settings.config import KafkaSettings, StreamConfig, TopicSettings
from afl_stream.transport import CommittedOffset, Record, TopicPartition, Transport
from benchmarks.loop import broker

_NODES: Final = 3
#: What a request is: its input and three events are read, three events are produced. The status comes on top.
_RECORDS: Final = 2 * _NODES + 1
_PAYLOAD: Final = {"order": 1234567, "total": 99.5, "currency": "EUR", "items": ["a", "b", "c"]}
_LOT: Final = 500
_COMMIT_S: Final = 0.1


class Measured(NamedTuple):
    """CPU seconds, and seconds by the clock; ours from the first event on."""

    cpu_s: float
    wall_s: float


async def _passed_on(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    return events[0].data


def _workflow() -> EventDrivenWorkflow:
    topics: list[Topic] = [InputTopic("t0"), *(Topic(f"t{n}") for n in range(1, _NODES)), OutputTopic(f"t{_NODES}")]
    builder = EventDrivenWorkflow.builder().name("bench")
    for number in range(_NODES):
        node = Node.builder().name(f"n{number}").command(_passed_on)
        builder.node(node.subscribe(topics[number]).publish_to(topics[number + 1]))
    return builder.build()


def _config(bootstrap: str | None) -> StreamConfig:
    prefix = f"benchmark-{uuid.uuid4().hex[:8]}."
    kafka = KafkaSettings(bootstrap=bootstrap)
    return StreamConfig(prefix=prefix, kafka=kafka, topics=TopicSettings(replication=1 if bootstrap else None))


def _opened(config: StreamConfig) -> Transport:
    return KafkaTransport(config) if config.is_kafka else EmbeddedTransport()


def _prepared(config: StreamConfig, transport: Transport, requests: int) -> WorkflowTopics:
    """Create the topics, and produce the inputs."""
    topics = WorkflowTopics(config, "bench", _workflow().definition.topics)
    apply_topics(topics, transport)
    value = json.dumps(_PAYLOAD).encode()
    with closing(transport.producer()) as producer:
        for number in range(requests):
            producer.produce(topics.of["t0"], value, key=b"request-%d" % number)
            producer.poll(0)
        producer.flush(60)
    return topics


# --- ours -------------------------------------------------------------------------------------------------------------


def ours(config: StreamConfig, requests: int, store: Callable[[], EventStore | None]) -> tuple[Measured, Record]:
    """Answer the requests with a worker; return also one of the records that it produced."""
    with closing(_opened(config)) as transport:
        topics = _prepared(config, transport, requests)
        worker = WorkflowWorker(_workflow(), transport, store(), WorkerConfig(stream=config))

        began_s = 0.0

        async def answer() -> None:
            nonlocal began_s
            async with worker:
                while worker.counts.finished < requests:
                    await asyncio.sleep(0.005)
                    # Joining the group takes its time, whatever the number of requests.
                    began_s = began_s or (time.perf_counter() if worker.counts.events else 0.0)

        measured = _measured(lambda: asyncio.run(answer()))._replace(wall_s=time.perf_counter() - began_s)
        reader = transport.consumer(None)
        reader.assign({TopicPartition(topics.of["t1"], 0): 0})
        record = reader.poll(10)
        assert record is not None
        reader.close()
    return measured, record


# --- the floor --------------------------------------------------------------------------------------------------------


def embedded_floor(config: StreamConfig, requests: int, like: Record) -> Measured:
    """Read and produce as many records with the embedded broker's clients."""
    with closing(EmbeddedTransport()) as transport:
        topics = _prepared(config, transport, requests)
        names = list(topics.of.values())

        def work() -> None:
            delivered = 0

            def report(_error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
                nonlocal delivered
                delivered += 1

            consumer, producer = transport.consumer("floor"), transport.producer()
            consumer.subscribe(names)
            read, next_commit_s, offsets = 0, 0.0, {}
            while read < requests * (_NODES + 1) or delivered < requests * (_NODES + 1):
                for record in consumer.consume(_LOT, 0.01):
                    read += 1
                    offsets[record.topic_partition] = CommittedOffset(offset=record.offset + 1)
                    if record.topic != names[0]:
                        continue
                    for topic in (*names[1:], topics.status):
                        producer.produce(topic, like.value, key=record.key, headers=like.headers, on_delivery=report)
                producer.poll(0.0)
                if time.monotonic() >= next_commit_s:
                    next_commit_s = time.monotonic() + _COMMIT_S
                    consumer.commit(offsets)
            consumer.close()
            producer.close()

        return _measured(work)


def kafka_floor(config: StreamConfig, requests: int, like: Record) -> Measured:
    """Read and produce as many records with the confluent-kafka client."""
    with closing(KafkaTransport(config)) as transport:
        topics = _prepared(config, transport, requests)
    names, headers = list(topics.of.values()), list(like.headers)

    def work() -> None:
        delivered = 0

        def report(error: KafkaError | None, _message: "Message[Any, Any]") -> None:
            nonlocal delivered
            assert error is None
            delivered += 1

        producer = KafkaClientProducer(producer_settings(config))
        consumer = KafkaClientConsumer({**consumer_settings(config, "floor"), "auto.offset.reset": "earliest"})
        consumer.subscribe(names)
        read, next_commit_s, offsets = 0, 0.0, {}
        while read < requests * (_NODES + 1) or delivered < requests * (_NODES + 1):
            for message in consumer.consume(_LOT, 0.01):
                if message.error() is not None:
                    continue
                read += 1
                offsets[message.topic(), message.partition()] = (message.offset() or 0) + 1
                if message.topic() != names[0]:
                    continue
                for topic in (*names[1:], topics.status):
                    producer.produce(topic, like.value, message.key(), on_delivery=report, headers=headers)  # type: ignore[arg-type]
            producer.poll(0)
            if time.monotonic() >= next_commit_s and offsets:
                next_commit_s = time.monotonic() + _COMMIT_S
                committed = [KafkaPartition(str(t), p or 0, offset) for (t, p), offset in offsets.items()]
                consumer.commit(offsets=committed, asynchronous=True)
        consumer.close()

    return _measured(work)


def _measured(work: Callable[[], None]) -> Measured:
    gc.collect()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Measured(time.process_time() - cpu_s, time.perf_counter() - wall_s)


def _figures(
    bootstrap: str | None, requests: int, pairs: int, store: Callable[[], EventStore | None]
) -> dict[str, float]:
    subjects, floors = [], []
    for number in range(pairs + 1):
        subject, like = ours(_config(bootstrap), requests, store)
        floor = (kafka_floor if bootstrap else embedded_floor)(_config(bootstrap), requests, like)
        print(f"{subject.cpu_s / requests * 1e6:.1f} {floor.cpu_s / requests * 1e6:.1f}", file=sys.stderr)
        if number:  # The first round does not count.
            subjects.append(subject)
            floors.append(floor)
    request_us = median(each.cpu_s for each in subjects) / requests * 1e6
    return {
        "ratio": round(median(a.cpu_s / b.cpu_s for a, b in zip(subjects, floors, strict=True)), 2),
        "request_us": round(request_us, 1),
        "event_us": round(request_us / _RECORDS, 1),
        "floor_us": round(median(each.cpu_s for each in floors) / requests * 1e6, 1),
        "requests_per_s": round(requests / median(each.wall_s for each in subjects)),
    }


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--only", choices=["embedded", "kafka"])
    parser.add_argument("--bootstrap", help="a broker that runs already; else one is started")
    options = parser.parse_args(arguments)
    tune_collector()
    stores: dict[str, Callable[[], EventStore | None]] = {"memory": MemoryEventStore, "topics": lambda: None}
    found: dict[str, dict[str, float]] = {}
    if options.only != "kafka":
        for name, store in stores.items():
            found[f"embedded_{name}"] = _figures(None, options.requests, options.pairs, store)
    if options.only != "embedded":
        with broker(options.bootstrap) as bootstrap:
            for name, store in stores.items():
                found[f"kafka_{name}"] = _figures(bootstrap, options.requests, options.pairs, store)
    print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
