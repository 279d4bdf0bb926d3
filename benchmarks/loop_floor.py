"""The least that the loop on Kafka costs: one evaluator, one agent, a broker, fastavro, SQLite, and nothing else.

`python -m benchmarks.loop_floor evaluator BOOTSTRAP [--workflows W] [--steps S] [--linger-ms L]` makes two topics of
one partition, starts the agent as a process of its own, and takes W workflows through S event round trips each, all of
them at once. What it does for each batch of answers is what no evaluator can do without: read, decode, complete the
step, make the next event and encode it, write steps, workflows, outbox and position in one transaction of SQLite with
synchronous FULL, produce, commit the offset. The agent reads, decodes, encodes, produces, waits for the broker's
acknowledgement of the batch, and commits.

`... echo BOOTSTRAP [--round-trips N]` sends one record of the same size there and back, N times, with neither codec nor
store: the bare client.

Both print one JSON object. The clock begins before the first event is made and ends when the last answer is persisted;
starting processes and topics is left out.
"""

import argparse
import io
import itertools
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import fastavro
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

#: What Confluent's framing puts before a value: a zero byte and the schema's number.
_FRAME: Final = b"\x00\x00\x00\x00\x01"
_STOP: Final = b"stop"
_BATCH: Final = 500
#: Round trips at the beginning that the median of single ones leaves out.
_UNTYPICAL: Final = 20

_EVENT: Final = fastavro.parse_schema({
    "type": "record",
    "name": "Event",
    "fields": [
        *({"name": name, "type": "string"} for name in ("id", "step_id", "workflow_id", "event_type", "state")),
        {
            "name": "payload",
            "type": {
                "type": "record",
                "name": "Payload",
                "fields": [
                    {"name": "count", "type": "long"},
                    {"name": "text", "type": "string"},
                    {"name": "share", "type": "double"},
                ],
            },
        },
        {"name": "created_at", "type": "long"},
    ],
})  # fmt: skip

_TABLES: Final = """
    CREATE TABLE workflows(id TEXT PRIMARY KEY, revision INTEGER) WITHOUT ROWID;
    CREATE TABLE steps(id TEXT PRIMARY KEY, workflow TEXT, state TEXT, revision INTEGER, body BLOB) WITHOUT ROWID;
    CREATE TABLE outbox(number INTEGER PRIMARY KEY, key BLOB, value BLOB);
    CREATE TABLE positions(topic TEXT PRIMARY KEY, following INTEGER) WITHOUT ROWID;
    INSERT INTO positions VALUES ('answers', 0);
"""

Record: TypeAlias = "Message[Any, Any]"
Mode: TypeAlias = Literal["loop", "echo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorFigures:
    """What a run of the floor cost. CPU includes the threads of the client."""

    round_trips: int
    round_trips_per_s: float
    evaluator_cpu_us: float
    agent_cpu_us: float
    p50_ms: float


class Table:
    """The floor's store."""

    def __init__(self, file: Path, workflows: Sequence[str]) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {_TABLES}")
        self._db.executemany("INSERT INTO workflows VALUES (?, 0)", ((workflow,) for workflow in workflows))
        self._position = 0
        self._published = 0

    def commit(
        self,
        revisions: dict[str, int],
        steps: Sequence[tuple[str, str, str, int, str]],
        events: Sequence[tuple[bytes, bytes]],
        following: int,
    ) -> None:
        """Write a batch; `revisions` are those that the workflows had. Raises RuntimeError when someone else wrote."""
        run, run_many = self._db.execute, self._db.executemany
        run("BEGIN IMMEDIATE")
        moved = run(
            "UPDATE positions SET following = ? WHERE topic = 'answers' AND following = ?", (following, self._position)
        )
        bumped = run_many(
            "UPDATE workflows SET revision = revision + 1 WHERE id = ? AND revision = ?", revisions.items()
        )
        if moved.rowcount != 1 or bumped.rowcount != len(revisions):
            raise RuntimeError("the floor's store was written by another")
        run("DELETE FROM outbox WHERE number <= ?", (self._published,))
        run_many(
            "INSERT INTO steps VALUES (?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE "
            "SET state = excluded.state, revision = excluded.revision, body = excluded.body",
            steps,
        )
        run_many("INSERT INTO outbox(key, value) VALUES (?, ?)", events)
        run("COMMIT")
        self._position = following
        self._published += len(events)

    def close(self) -> None:
        self._db.close()


class FloorEvaluator:
    """Workflows that are chains of event steps."""

    def __init__(self, file: Path, workflows: int, steps: int) -> None:
        self._ids = 0
        self._steps = steps
        self._left = {self._new_id(): steps for _ in range(workflows)}
        self._revisions = dict.fromkeys(self._left, 0)
        self._waiting: dict[str, tuple[str, int]] = {}
        self._table = Table(file, list(self._left))

    def begin(self) -> list[tuple[bytes, bytes]]:
        """Persist the first event of each workflow; return what is to be produced."""
        rows: list[tuple[str, str, str, int, str]] = []
        events = [self._ask(workflow, 1, rows) for workflow in self._left]
        self._commit(list(self._left), rows, events, 0)
        return events

    def apply(self, records: Sequence[Record]) -> list[tuple[bytes, bytes]]:
        """Persist a batch of answers and the events that follow; return what is to be produced."""
        rows: list[tuple[str, str, str, int, str]] = []
        events: list[tuple[bytes, bytes]] = []
        touched: list[str] = []
        for record in records:
            answer = decoded(value_of(record))
            step, count = answer["step_id"], answer["payload"]["count"]
            workflow, asked = self._waiting.pop(step)
            body = json.dumps({"params": {"count": asked}, "returns": {"count": count}})
            rows.append((step, workflow, "Complete", 2, body))
            touched.append(workflow)
            self._left[workflow] -= 1
            if self._left[workflow]:
                events.append(self._ask(workflow, count, rows))
        self._commit(touched, rows, events, offset_of(records[-1]) + 1)
        return events

    def close(self) -> None:
        self._table.close()

    def _ask(self, workflow: str, count: int, rows: list[tuple[str, str, str, int, str]]) -> tuple[bytes, bytes]:
        step = self._new_id()
        event = {
            "id": self._new_id(),
            "step_id": step,
            "workflow_id": workflow,
            "event_type": "floor.Work",
            "state": "Created",
            "payload": {"count": count, "text": "some text to carry", "share": 0.25},
            "created_at": 1_700_000_000_000,
        }
        self._waiting[step] = workflow, count
        rows.append((step, workflow, "EventTransmit", 1, json.dumps({"params": {"count": count}})))
        return step.encode(), encoded(event)

    def _commit(
        self,
        touched: Sequence[str],
        rows: Sequence[tuple[str, str, str, int, str]],
        events: Sequence[tuple[bytes, bytes]],
        following: int,
    ) -> None:
        revisions = {workflow: self._revisions[workflow] for workflow in touched}
        self._table.commit(revisions, rows, events, following)
        for workflow in revisions:
            self._revisions[workflow] += 1

    def _new_id(self) -> str:
        # Rising as a time-ordered id does: random primary keys would cost SQLite several times more.
        self._ids += 1
        return f"0190a000-0000-7000-8000-{self._ids:012x}"


def encoded(event: dict[str, object]) -> bytes:
    """Return the event as a framed Avro record."""
    out = io.BytesIO()
    out.write(_FRAME)
    fastavro.schemaless_writer(out, _EVENT, event)
    return out.getvalue()


def decoded(value: bytes) -> dict[str, Any]:
    """Return the event in a framed Avro record."""
    body = io.BytesIO(value)
    body.seek(len(_FRAME))
    event = fastavro.schemaless_reader(body, _EVENT, None)
    assert isinstance(event, dict)
    return event


def value_of(record: Record) -> bytes:
    """Return the bytes of a record; raises RuntimeError for what is none: an error that the client reports as one."""
    value, error = record.value(), record.error()
    if error is not None or not isinstance(value, bytes):
        raise RuntimeError(f"the floor read {error or value!r}")
    return value


def offset_of(record: Record) -> int:
    """Return the offset of a record that a broker has delivered."""
    offset = record.offset()
    assert offset is not None
    return offset


def serve(bootstrap: str, asked: str, answered: str, mode: Mode, linger_ms: float, out: TextIO) -> None:
    """Be the agent until a stop comes: answer each event with a count one higher, or each record with itself."""
    with reading(bootstrap, asked) as consumer:
        producer = _producer(bootstrap, linger_ms)
        out.write("ready\n")
        out.flush()
        started_s, served = time.process_time(), 0
        while True:
            records = next_batch(consumer)
            for record in records:
                value = value_of(record)
                if value == _STOP:
                    producer.flush()
                    out.write(json.dumps({"cpu_us": (time.process_time() - started_s) / max(served, 1) * 1e6}) + "\n")
                    return
                if mode == "loop":
                    event = decoded(value)
                    event["payload"]["count"] += 1
                    event["state"] = "Completed"
                    value = encoded(event)
                producer.produce(answered, value, record.key(), partition=0)
                served += 1
            if not records:
                continue
            if mode == "loop":
                producer.flush()
            producer.poll(0)
            consumer.commit(message=records[-1], asynchronous=True)


def measure_loop(bootstrap: str, workflows: int, steps: int, linger_ms: float) -> FloorFigures:
    """Take the workflows through their steps."""
    with tempfile.TemporaryDirectory() as folder:
        evaluator = FloorEvaluator(Path(folder) / "floor.sqlite3", workflows, steps)
        try:
            return _measure(bootstrap, "loop", workflows * steps, linger_ms, evaluator.begin, evaluator.apply)
        finally:
            evaluator.close()


def measure_echo(bootstrap: str, round_trips: int) -> FloorFigures:
    """Send one record there and back, again and again, at once each time."""
    sent, record = 1, (b"step", b"x" * 180)

    def apply(_records: Sequence[Record]) -> list[tuple[bytes, bytes]]:
        nonlocal sent
        sent += 1
        return [record] if sent <= round_trips else []

    return _measure(bootstrap, "echo", round_trips, 0, lambda: [record], apply)


@contextmanager
def echo(bootstrap: str) -> Iterator[Callable[[], float]]:
    """Yield what sends one record to a process and back, and returns the seconds that it took."""
    with _topics(bootstrap) as (asked, answered), _agent(bootstrap, asked, answered, "echo", 0):
        producer = _producer(bootstrap, 0)
        with reading(bootstrap, answered) as consumer:

            def ping() -> float:
                started_s = time.perf_counter()
                producer.produce(asked, b"x" * 180, b"step", partition=0)
                producer.poll(0)
                while not (records := next_batch(consumer)):
                    continue
                taken_s = time.perf_counter() - started_s
                consumer.commit(message=records[-1], asynchronous=True)
                return taken_s

            yield ping
        producer.flush()


def _measure(
    bootstrap: str,
    mode: Mode,
    round_trips: int,
    linger_ms: float,
    begin: Callable[[], list[tuple[bytes, bytes]]],
    apply: Callable[[Sequence[Record]], list[tuple[bytes, bytes]]],
) -> FloorFigures:
    with _topics(bootstrap) as (asked, answered), _agent(bootstrap, asked, answered, mode, linger_ms) as agent:
        producer = _producer(bootstrap, linger_ms)
        with reading(bootstrap, answered) as consumer:
            started_s, cpu_s = time.perf_counter(), time.process_time()
            turns_s = [started_s]
            got, ready = 0, begin()
            while True:
                for key, value in ready:
                    producer.produce(asked, value, key, partition=0)
                producer.poll(0)
                if got == round_trips:
                    break
                records = next_batch(consumer)
                ready = apply(records) if records else []
                if records:
                    consumer.commit(message=records[-1], asynchronous=True)
                    got += len(records)
                    turns_s.append(time.perf_counter())
            wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        producer.produce(asked, _STOP, partition=0)
        producer.flush()
        assert agent.stdout is not None
        theirs = json.loads(agent.stdout.readline())
    gaps_s = [after - before for before, after in itertools.pairwise(turns_s)]
    return FloorFigures(
        round_trips=got,
        round_trips_per_s=got / wall_s,
        evaluator_cpu_us=cpu_s / got * 1e6,
        agent_cpu_us=theirs["cpu_us"],
        p50_ms=statistics.median(gaps_s[_UNTYPICAL:] or gaps_s) * 1e3,
    )


@contextmanager
def _topics(bootstrap: str) -> Iterator[tuple[str, str]]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"floor.{time.time_ns()}.{what}" for what in ("events", "answers")]
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        created.result(30)
    try:
        yield names[0], names[1]
    finally:
        for deleted in admin.delete_topics(names).values():
            deleted.result(30)


@contextmanager
def _agent(
    bootstrap: str, asked: str, answered: str, mode: Mode, linger_ms: float
) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "benchmarks.loop_floor", "agent", bootstrap]
    command += ["--asked", asked, "--answered", answered, "--mode", mode, "--linger-ms", str(linger_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the floor's agent did not start")
            yield process
        finally:
            process.terminate()


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """Yield a consumer of the only partition of a topic, at its beginning."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}.group",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        yield consumer
    finally:
        consumer.close()


def _producer(bootstrap: str, linger_ms: float) -> Producer:
    return Producer({
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": linger_ms,
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip


def next_batch(consumer: Consumer) -> list[Record]:
    """Return the records that are there; wait half a second for the first."""
    # Asking for many at once would wait for them all.
    first = consumer.poll(0.5)
    return [] if first is None else [first, *consumer.consume(_BATCH - 1, 0)]


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Run one of the floor's parts, and write what it cost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop_floor", description="the floor of the loop")
    parser.add_argument("part", choices=["evaluator", "echo", "agent"])
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("--workflows", type=int, default=1_024)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--round-trips", type=int, default=500, help="of the echo")
    parser.add_argument("--linger-ms", type=float, default=1)
    for name in ("--asked", "--answered", "--mode"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part == "agent":
        serve(given.bootstrap, given.asked, given.answered, given.mode, given.linger_ms, out)
        return
    if given.part == "evaluator":
        figures = measure_loop(given.bootstrap, given.workflows, given.steps, given.linger_ms)
    else:
        figures = measure_echo(given.bootstrap, given.round_trips)
    out.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
