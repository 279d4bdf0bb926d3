"""Appends to event stores, against the least that their databases need: `python -m benchmarks.event_stores`.

Many requests append two events each, again and again, as runs do that work side by side; each waits for its append. The
floor writes the same events, as JSON, with nothing but the driver, from one thread, in groups of as many as there are
requests: `executemany` in a transaction with synchronous=FULL, `insert_many` of one document for each append, or
records that are produced and acknowledged. Then one request appends alone, one append after the other.

`--mongodb URL` and `--kafka BOOTSTRAP` add those servers; a database and a topic of the benchmark's own are used, and
removed. CPU is that of this process; what a server needs is not in it. The last line is one JSON object: by store,
`cpu_us` and `floor_cpu_us` of an event, their `ratio`, `appends_s` and `floor_appends_s`, and `alone_appends_s`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, PublishToTopicEvent, StoredEvent
from afl_stream.transport import TopicPartition, Transport
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.schema_source import InMemorySchemaLog

REQUESTS: Final = 64
EVENTS: Final = 2
DATA: Final = {"order": 4711, "customer": "ann", "lines": [{"item": "bolt", "pieces": 40, "price": 8.0}]}
TOPIC: Final = "afl.pubsub.Desk.state"


class Case(NamedTuple):
    """A store, and its floor: what writes this many groups of appends."""

    store: Callable[[], EventStore]
    floor: Callable[[int], None]


class Spent(NamedTuple):
    """What some appends took: seconds of this process's CPU, and of the clock."""

    cpu_s: float
    clock_s: float


Makes: TypeAlias = Callable[[ExitStack], Case]


def events_of(request_id: str, first: int) -> list[StoredEvent]:
    """Return the events of an append: one that a node has published, and one that it has finished with."""
    own, taken = f"{request_id}/{first}", f"{request_id}/{first - 1}"
    return [
        PublishToTopicEvent(own, request_id, "orders", first, DATA, "desk", "Node", (taken,), 1_000),
        ConsumeFromTopicEvent(taken, request_id, "input", first, None, "desk", "Node", 1_000),
    ]


async def append_to(store: EventStore, request_id: str, appends: int) -> None:
    """Append to one request, one append after the other."""
    key, context = RequestKey("Desk", request_id), InvokeContext(assistant_request_id=request_id)
    for first in range(0, appends * EVENTS, EVENTS):
        await store.append(key, context, first, events_of(request_id, first), RequestStatus.RUNNING)


def spent(work: Callable[[], object]) -> Spent:
    """Return what it takes."""
    cpu_s, clock_s = time.process_time(), time.perf_counter()
    work()
    return Spent(time.process_time() - cpu_s, time.perf_counter() - clock_s)


def through_the_store(open_store: Callable[[], EventStore], requests: int, appends: int) -> Spent:
    """Return what appends to so many requests side by side take, opening and closing apart."""

    async def run() -> Spent:
        store = open_store()
        name = uuid.uuid4().hex[:8]
        await append_to(store, f"{name} warm", 1)
        cpu_s, clock_s = time.process_time(), time.perf_counter()
        await asyncio.gather(*(append_to(store, f"{name} {number}", appends) for number in range(requests)))
        found = Spent(time.process_time() - cpu_s, time.perf_counter() - clock_s)
        await store.close()
        return found

    return asyncio.run(run())


# --- stores and their floors ----------------------------------------------------------------------------------------


def _row(event: StoredEvent) -> tuple[object, ...]:
    return (*event[:4], json.dumps(event.data), *event[5:7], str(event[7:]))


def memory(_ends: ExitStack) -> Case:
    """Return the store in memory; its floor extends a list."""

    def floor(groups: int) -> None:
        kept: dict[int, list[StoredEvent]] = {number: [] for number in range(REQUESTS)}
        for group in range(groups):
            for number, events in kept.items():
                events.extend(events_of(str(number), group * EVENTS))

    return Case(MemoryEventStore, floor)


def sqlite(ends: ExitStack) -> Case:
    """Return the store in a file; its floor is executemany in transactions."""
    folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))

    def floor(groups: int) -> None:
        with closing(sqlite3.connect(folder / "floor.sqlite3", isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("CREATE TABLE IF NOT EXISTS event(number, id, request, topic, at, data, node, type, more)")
            for group in range(groups):
                rows = [(group, *_row(e)) for n in range(REQUESTS) for e in events_of(str(n), group * EVENTS)]
                db.execute("BEGIN IMMEDIATE")
                db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                db.execute("COMMIT")

    return Case(lambda: SQLiteEventStore(folder / "events.sqlite3"), floor)


def on_topic(transport: Transport, ends: ExitStack) -> Case:
    """Return the store on a topic of one partition; its floor produces the records and polls."""
    ends.callback(transport.close)
    topic = f"{TOPIC}.{uuid.uuid4().hex[:8]}"
    for name in (topic, f"{topic}.floor"):
        transport.admin().create_topic(name, partitions=1, settings={"cleanup.policy": "compact"})
        ends.callback(transport.admin().delete_topic, name)
    codec = single_object_codec(InMemorySchemaLog())

    def floor(groups: int) -> None:
        producer = transport.producer()
        left = 0

        def settle(_error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
            nonlocal left
            left -= 1

        for group in range(groups):
            for number in range(REQUESTS):
                for event in events_of(str(number), group * EVENTS):
                    value = json.dumps(_row(event)).encode()
                    producer.produce(f"{topic}.floor", value, key=event.event_id.encode(), on_delivery=settle)
                    left += 1
            while left:
                producer.poll(0.1)
        producer.close()

    return Case(lambda: TopicEventStore(transport, codec, lambda _workflow: topic), floor)


def embedded(ends: ExitStack) -> Case:
    """Return the store on a topic of an embedded log in a file."""
    folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
    return on_topic(EmbeddedTransport(folder / "log.sqlite3"), ends)


def kafka(bootstrap: str, ends: ExitStack) -> Case:
    """Return the store on a topic of Kafka."""
    from afl_stream.kafka.transport import KafkaTransport
    from afl_stream.settings.config import KafkaSettings, StreamConfig

    return on_topic(KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=bootstrap))), ends)


def mongodb(url: str, ends: ExitStack) -> Case:
    """Return the store in MongoDB; its floor is insert_many."""
    from pymongo import MongoClient
    from pymongo.write_concern import WriteConcern

    from afl_stream.pubsub.event_stores.mongo import MongoEventStore

    database = f"benchmark{uuid.uuid4().hex[:12]}"
    client: MongoClient[dict[str, Any]] = ends.enter_context(MongoClient(url))
    ends.callback(client.drop_database, database)
    kept = client[database].get_collection("floor", write_concern=WriteConcern("majority", j=True))

    def floor(groups: int) -> None:
        for group in range(groups):
            kept.insert_many(
                [
                    {"_id": uuid.uuid4().hex, "events": [_row(event) for event in events_of(str(n), group * EVENTS)]}
                    for n in range(REQUESTS)
                ],
                ordered=False,
            )

    return Case(lambda: MongoEventStore(url, database=database), floor)


# --- figures --------------------------------------------------------------------------------------------------------


def measure(case: Case, groups: int, rounds: int) -> dict[str, float]:
    """Return the figures of a store: the medians of some rounds, in turns with its floor."""
    pairs = [
        (through_the_store(case.store, REQUESTS, groups), spent(lambda: case.floor(groups))) for _ in range(rounds + 1)
    ][1:]
    alone = through_the_store(case.store, 1, groups)
    appends, events = groups * REQUESTS, groups * REQUESTS * EVENTS
    subject, floor = (sorted(each)[rounds // 2] for each in zip(*pairs, strict=True))
    ratios = sorted(own.cpu_s / least.cpu_s for own, least in pairs)
    return {
        "cpu_us": subject.cpu_s * 1e6 / events,
        "floor_cpu_us": floor.cpu_s * 1e6 / events,
        "ratio": ratios[rounds // 2],
        "appends_s": appends / subject.clock_s,
        "floor_appends_s": appends / floor.clock_s,
        "alone_appends_s": groups / alone.clock_s,
    }


def main(words: Sequence[str], out: TextIO = sys.stdout) -> int:
    """Run the benchmark, and print its figures with one JSON object last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_stores", description=__doc__)
    parser.add_argument("--mongodb", metavar="URL", help="a server of which a database is used, and dropped")
    parser.add_argument("--kafka", metavar="BOOTSTRAP", help="a broker of which a topic is used, and deleted")
    parser.add_argument("--groups", type=int, default=200, help=f"appends of each of the {REQUESTS} requests")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    given = parser.parse_args(words)
    makes: dict[str, Makes] = {"memory": memory, "sqlite": sqlite, "embedded topic": embedded}
    if given.mongodb:
        makes["mongodb"] = lambda ends: mongodb(given.mongodb, ends)
    if given.kafka:
        makes["kafka topic"] = lambda ends: kafka(given.kafka, ends)
    found: dict[str, dict[str, float]] = {}
    out.write("store            CPU an event   floor   ratio   appends/s    floor    alone\n")
    for name, make in makes.items():
        with ExitStack() as ends:
            figures = measure(make(ends), given.groups, given.rounds)
        found[name] = {key: round(value, 2) for key, value in figures.items()}
        out.write(
            f"{name:14} {figures['cpu_us']:11.1f} us {figures['floor_cpu_us']:6.1f} us {figures['ratio']:6.1f}"
            f" {figures['appends_s']:11,.0f} {figures['floor_appends_s']:8,.0f} {figures['alone_appends_s']:8,.0f}\n"
        )
    out.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
