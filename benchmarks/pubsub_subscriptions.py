"""Cost of subscriptions: `python -m benchmarks.pubsub_subscriptions [--pairs K] [--events N] [--only WHICH]`.

1. `process`: one publisher and four subscriptions on the embedded transport in memory, against one task that puts the
   same events into four bounded queues of asyncio, and four that get them. Gate: 4 times its CPU an event.
2. `kafka`: events are published and read by a subscription, on a broker, against a program written with the
   confluent-kafka client that does the same: it produces with a callback for each delivery, consumes in lots, hands
   topic, partition, offset, key, value and headers of each record to a function, and commits behind it as often. Both
   have the same client settings. Gate: 2 times its CPU an event.

CPU is that of the whole process, with the threads of the client. Both sides of a pair run one after the other. The
last line is one JSON object: `process_ratio`, `process_us`, `process_floor_us`, `kafka_ratio`, `kafka_us`,
`kafka_floor_us`, and of the Kafka side `publish_ratio` and `read_ratio`.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TextIO

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.kafka.settings import consumer_settings, producer_settings
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub import Publisher, Subscription
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import Transport
from benchmarks.loop import broker
from benchmarks.measure import PairedSeconds, paired

_SUBSCRIBERS: Final = 4
_QUEUE_EVENTS: Final = 2_000
_VALUE: Final = b'{"order": 1234567, "total": 99.5, "currency": "EUR", "items": ["a", "b", "c"]}'
_HEADERS: Final = (("ce_id", b"0123456789abcdef"), ("content-type", b"application/json"))
_KEYS: Final = [b"customer-%d" % number for number in range(1_000)]
_PARTITIONS: Final = 4
#: Records that the floor consumes with one call, and how often it commits: as a subscription does.
_LOT: Final = 500
_COMMIT_S: Final = 1.0
#: Records that may be unacknowledged at once.
_IN_FLIGHT: Final = 10_000


class Seconds(NamedTuple):
    """CPU seconds of publishing and of reading."""

    publishing: float
    reading: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSeconds:
    """Both sides of the Kafka pairs."""

    ours: Sequence[Seconds]
    floor: Sequence[Seconds]

    def ratios(self) -> dict[str, float]:
        """Return the median of the pairs' ratios: of all, of publishing, of reading."""
        return {
            "kafka_ratio": self._paired([sum(each) for each in self.ours], [sum(each) for each in self.floor]),
            "publish_ratio": self._paired([s.publishing for s in self.ours], [s.publishing for s in self.floor]),
            "read_ratio": self._paired([s.reading for s in self.ours], [s.reading for s in self.floor]),
        }

    @staticmethod
    def _paired(ours: Sequence[float], floor: Sequence[float]) -> float:
        return round(PairedSeconds(subject=ours, floor=floor).ratio, 2)


# --- 1. In process ----------------------------------------------------------------------------------------------------


def queues_cpu_s(events: int) -> float:
    """Return the CPU seconds of fanning events out to four queues and getting them."""
    return _cpu_s(_through_queues(events))


async def _through_queues(events: int) -> None:
    queues: list[asyncio.Queue[tuple[bytes, bytes]]] = [asyncio.Queue(_QUEUE_EVENTS) for _ in range(_SUBSCRIBERS)]

    async def get(queue: asyncio.Queue[tuple[bytes, bytes]]) -> int:
        size = 0
        for _ in range(events):
            key, value = await queue.get()
            size += len(key) + len(value)
        return size

    readers = [asyncio.create_task(get(queue)) for queue in queues]
    for number in range(events):
        event = _KEYS[number % 1_000], _VALUE
        for queue in queues:
            await queue.put(event)
    await asyncio.gather(*readers)


def embedded_cpu_s(events: int) -> float:
    """Return the CPU seconds of publishing events and reading them with four subscriptions, in process."""
    transport = EmbeddedTransport()
    transport.admin().create_topic("orders", partitions=_PARTITIONS)
    with closing(transport):
        return _cpu_s(_through_subscriptions(transport, events))


async def _through_subscriptions(transport: Transport, events: int) -> None:
    async def read(number: int, opened: asyncio.Semaphore) -> int:
        size = 0
        async with Subscription(transport, StreamConfig(), f"reader-{number}", topics=["orders"]) as reader:
            opened.release()
            async for message in reader.take(events):
                size += len(message.key or b"") + len(message.value or b"")
        return size

    opened = asyncio.Semaphore(0)
    readers = [asyncio.create_task(read(number, opened)) for number in range(_SUBSCRIBERS)]
    for _ in readers:
        await opened.acquire()
    async with Publisher(transport) as publisher:
        for number in range(events):
            await publisher.publish("orders", _VALUE, key=_KEYS[number % 1_000])
    await asyncio.gather(*readers)


# --- 2. On Kafka ------------------------------------------------------------------------------------------------------


def kafka_pair(config: StreamConfig, events: int) -> tuple[Seconds, Seconds]:
    """Return the CPU seconds of ours and of the floor, each on a topic of its own."""
    with closing(KafkaTransport(config)) as transport:
        topics = [f"{config.prefix}{name}" for name in ("ours", "floor")]
        for topic in topics:
            transport.admin().create_topic(topic, partitions=_PARTITIONS)
        ours = Seconds(
            _cpu_s(_publish(transport, topics[0], events)), _cpu_s(_read(transport, config, topics[0], events))
        )
        floor = Seconds(_floor_publish_s(config, topics[1], events), _floor_read_s(config, topics[1], events))
        for topic in topics:
            transport.admin().delete_topic(topic)
    return ours, floor


async def _publish(transport: Transport, topic: str, events: int) -> None:
    async with Publisher(transport) as publisher:
        for number in range(events):
            await publisher.publish(topic, _VALUE, key=_KEYS[number % 1_000], headers=_HEADERS)


async def _read(transport: Transport, config: StreamConfig, topic: str, events: int) -> None:
    handle = _Handler()
    async with Subscription(transport, config, "benchmark", topics=[topic]) as reader:
        async for m in reader.take(events):
            handle(m.topic, m.partition, m.offset, m.key, m.value, m.headers)
    assert handle.count == events


class _Handler:
    """What both sides hand each record to."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0

    def __call__(self, topic: Any, partition: Any, offset: Any, key: Any, value: Any, headers: Any) -> None:
        self.count += 1
        self.size += len(key) + len(value)


def _floor_publish_s(config: StreamConfig, topic: str, events: int) -> float:
    start_s = _start_s()
    producer = Producer(producer_settings(config))
    delivered = 0

    def report(error: KafkaError | None, _message: "Message[Any, Any]") -> None:
        nonlocal delivered
        assert error is None
        delivered += 1

    headers = list(_HEADERS)
    for number in range(events):
        while number - delivered >= _IN_FLIGHT:
            producer.poll(0.01)
        producer.produce(topic, _VALUE, _KEYS[number % 1_000], on_delivery=report, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(60) == 0
    assert delivered == events
    return time.process_time() - start_s


def _floor_read_s(config: StreamConfig, topic: str, events: int) -> float:
    start_s = _start_s()
    consumer = Consumer({**consumer_settings(config, f"{topic}-floor"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    handle, next_commit_s = _Handler(), time.monotonic() + _COMMIT_S
    offsets: dict[tuple[str, int], int] = {}
    while handle.count < events:
        for message in consumer.consume(_LOT, 0.1):
            if message.error() is not None:
                continue
            topic_of, partition, offset = message.topic(), message.partition(), message.offset()
            handle(topic_of, partition, offset, message.key(), message.value(), message.headers())
            offsets[topic_of, partition] = offset + 1  # type: ignore[index, operator]  # a record has them
        if time.monotonic() >= next_commit_s:
            next_commit_s += _COMMIT_S
            consumer.commit(offsets=_committable(offsets), asynchronous=True)
    consumer.commit(offsets=_committable(offsets), asynchronous=False)
    consumer.close()
    return time.process_time() - start_s


def _committable(offsets: dict[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]


def _cpu_s(work: Any) -> float:
    start_s = _start_s()
    asyncio.run(work)
    return time.process_time() - start_s


def _start_s() -> float:
    gc.collect()
    return time.process_time()


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--only", choices=["process", "kafka"])
    parser.add_argument("--bootstrap", help="a broker that runs already; else one is started")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {}
    if options.only != "kafka":
        found = paired(lambda: embedded_cpu_s(options.events), lambda: queues_cpu_s(options.events), options.pairs)
        figures |= {
            "process_ratio": round(found.ratio, 2),
            "process_us": round(found.subject_s / options.events * 1e6, 2),
            "process_floor_us": round(found.floor_s / options.events * 1e6, 2),
        }
        print(json.dumps(figures), file=out, flush=True)
    if options.only != "process":
        with broker(options.bootstrap) as bootstrap:
            pairs = []
            for number in range(options.pairs + 1):
                config = StreamConfig(
                    prefix=f"benchmark-{uuid.uuid4().hex[:8]}.", kafka=KafkaSettings(bootstrap=bootstrap)
                )
                pair = kafka_pair(config, options.events)
                print(*(f"{s / options.events * 1e6:.2f}" for side in pair for s in side), file=sys.stderr)
                # The first one does not count.
                pairs += [pair] if number else []
        seconds = KafkaSeconds(ours=[pair[0] for pair in pairs], floor=[pair[1] for pair in pairs])
        ours, floor = (sorted(sum(each) for each in side)[len(pairs) // 2] for side in (seconds.ours, seconds.floor))
        figures |= seconds.ratios()
        figures |= {
            "kafka_us": round(ours / options.events * 1e6, 2),
            "kafka_floor_us": round(floor / options.events * 1e6, 2),
        }
        print(json.dumps(figures), file=out, flush=True)


if __name__ == "__main__":
    main()
