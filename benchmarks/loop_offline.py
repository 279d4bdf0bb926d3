"""The evaluator alone, without a broker: what its own work costs, and how many Python functions it calls.

`python -m benchmarks.loop_offline [--workflows W] [--steps S] [--batch N] [--reps K] [--profile FILE]` takes W
workflows through S event steps each. The transport only hands records over, and the answers are made outside of the
measured calls; the store is SQLite with synchronous FULL, as it is shipped. `--profile` writes a cProfile file.

The last line is one JSON object: `cpu_us`, CPU of the evaluator's process a round trip, and `calls`, Python functions
called a round trip. A neighbour on the machine moves the first and not the second.
"""

import argparse
import cProfile
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.stores.sqlite.store import SqliteStore
from afl_stream.agent.records import AgentRecords
from afl_stream.client.client import Client
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import load_config
from afl_stream.topics.declared import Topology
from afl_stream.transport import (
    Assignor,
    BrokerView,
    CommittedOffset,
    DeliveryCallback,
    Headers,
    RebalanceListener,
    Record,
    Start,
    TopicDescription,
    TopicPartition,
    Watermarks,
)
from benchmarks.loop_program import FACET, INPUTS, WORKFLOW, source


class HandedLog:
    """A transport of one process whose topics are lists: it hands records over and does nothing else."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Record]] = {}

    def producer(self) -> "HandingProducer":
        return HandingProducer(self)

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> "HandingConsumer":
        return HandingConsumer(self)

    def admin(self) -> "HandingAdmin":
        return HandingAdmin(self)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class HandingProducer:
    """Appends to the lists; a record is acknowledged at the next poll."""

    def __init__(self, log: HandedLog) -> None:
        self._log = log
        self._delivered: list[tuple[DeliveryCallback, TopicPartition, int]] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        records = self._log.topics[topic]
        if on_delivery is not None:
            self._delivered.append((on_delivery, TopicPartition(topic, 0), len(records)))
        records.append(Record(topic, 0, len(records), key, value, tuple(headers)))

    def poll(self, timeout_s: float = 0.0) -> int:
        delivered, self._delivered = self._delivered, []
        for callback, partition, offset in delivered:
            callback(None, partition, offset)
        return len(delivered)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return 0

    def close(self) -> None:
        """Do nothing."""


class HandingConsumer:
    """Reads the lists, the only member of its group."""

    def __init__(self, log: HandedLog) -> None:
        self._log = log
        self._positions: dict[TopicPartition, int] = {}
        self._to_assign: tuple[list[TopicPartition], RebalanceListener | None] | None = None

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        if pattern is not None:
            raise NotImplementedError("topics are named here")
        self._to_assign = [TopicPartition(topic, 0) for topic in topics], listener

    def assign(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        self._positions = {
            p: len(self._log.topics[p.topic]) if start is Start.LATEST else int(0 if start is Start.EARLIEST else start)
            for p, start in positions.items()
        }

    def assign_more(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        self.assign({**self._positions, **positions})

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    def poll(self, timeout_s: float) -> Record | None:
        return next(iter(self.consume(1, timeout_s)), None)

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        if self._to_assign is not None:
            (partitions, listener), self._to_assign = self._to_assign, None
            found = listener.on_assigned(partitions) if listener is not None else None
            self._positions = dict(found or dict.fromkeys(partitions, 0))
        records: list[Record] = []
        for partition, offset in self._positions.items():
            found_here = self._log.topics[partition.topic][offset : offset + max_records - len(records)]
            records += found_here
            self._positions[partition] = offset + len(found_here)
        return records

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            raise NotImplementedError("no partition of the measured run is paused")

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: no partition is paused."""

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Do nothing: there is no other member."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return {}

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        return Watermarks(low=0, high=len(self._log.topics[partition.topic]))

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        raise NotImplementedError("the measured run asks for no times")

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def view(self) -> BrokerView:
        return BrokerView()

    def close(self) -> None:
        """Do nothing."""


class HandingAdmin:
    """The topics of the lists, one partition each."""

    def __init__(self, log: HandedLog) -> None:
        self._log = log

    def cluster_id(self) -> str:
        return "handed-over"

    def broker_count(self) -> int | None:
        return 1

    def topic_names(self) -> frozenset[str]:
        return frozenset(self._log.topics)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        listed = self._log.topics if names is None else [name for name in names if name in self._log.topics]
        return {name: TopicDescription(name=name, partitions=1, settings={}, topic_id=f"id-{name}") for name in listed}

    def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._log.topics[name] = []

    def delete_topic(self, name: str) -> None:
        del self._log.topics[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineFigures:
    """What a round trip cost: CPU of the evaluator's thread and the store's, and Python functions called."""

    cpu_us: float
    calls: float
    batches: int
    store_bytes: int


class Calls:
    """Counts the Python functions that are called between `start` and `stop`, by where they are defined."""

    def __init__(self) -> None:
        self.by_function: Counter[CodeType] = Counter()

    def start(self) -> None:
        sys.setprofile(self._see)

    def stop(self) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            self.by_function[frame.f_code] += 1


class OfflineRun:
    """An evaluator, its deployment, and the answers to its events."""

    def __init__(self, folder: Path, workflows: int, steps: int, batch: int) -> None:
        self._size = workflows, steps
        log = HandedLog()
        config = load_config(
            environ={
                "AFL_KAFKA_BOOTSTRAP": "handed.over:1",
                "AFL_STORE_PATH": str(folder / "store.sqlite3"),
                "AFL_TOPICS_REPLICATION": "1",
                "AFL_TOPICS_CONTROL_PARTITIONS": "1",
                "AFL_TOPICS_EVENT_PARTITIONS": "1",
                "AFL_EVALUATOR_BATCH_RECORDS": str(batch),
                # The number of records of a batch does not depend on this machine.
                "AFL_EVALUATOR_BATCH_MS": "60000",
            }
        )
        # Work that is due by the clock is not part of a round trip.
        clock = ManualClock(1_700_000_000_000)
        program = CompiledProgram(compile_text(source(steps)).program_json)
        self._client = Client(config, log)
        self._client.apply_topics([program])
        self._client.deploy(program)
        self.store = SqliteStore(config.store_path, prefix=config.prefix)
        self._file = Path(config.store_path)
        self._service = EvaluatorService(config, log, self.store, clock=clock)
        topology = Topology(config)
        self._records = AgentRecords(topology, DeploymentCodec(config, log, topology).codec, "offline")
        self._records.announce()
        self._events = log.topics[topology.facet(FACET)]
        self._control = log.topics[topology.control()]
        self._answered = 0

    def close(self) -> None:
        self._service.close()
        self.store.close()
        self._client.close()

    def measure(self, profile: cProfile.Profile | None = None, calls: Calls | None = None) -> OfflineFigures:
        """Take all workflows to their end; a first one fills every cache and is not measured."""
        workflows, steps = self._size
        self._client.start(WORKFLOW, INPUTS)
        self._drive(1 + steps, None, None)
        for _ in range(workflows):
            self._client.start(WORKFLOW, INPUTS)
        cpu_s, batches = self._drive(workflows * (1 + steps), profile, calls)
        complete = len(self.store.list_workflows(status="COMPLETED", limit=workflows + 2))
        if complete != workflows + 1:
            raise RuntimeError(f"{complete} of {workflows + 1} workflows are complete")
        round_trips = workflows * steps
        return OfflineFigures(
            cpu_us=cpu_s / round_trips * 1e6,
            calls=0.0 if calls is None else calls.by_function.total() / round_trips,
            batches=batches,
            store_bytes=self._file.stat().st_size,
        )

    def _drive(self, records: int, profile: cProfile.Profile | None, calls: Calls | None) -> tuple[float, int]:
        """Let the evaluator handle so many records; return the CPU seconds that it took, and the batches."""
        cpu_s, handled, batches = 0.0, 0, 0
        watch: Callable[[], None] = lambda: None  # noqa: E731
        unwatch = watch
        if profile is not None:
            watch, unwatch = profile.enable, profile.disable
        if calls is not None:
            watch, unwatch = calls.start, calls.stop
        while handled < records:
            watch()
            started_s = time.process_time()
            handled += self._service.loop.run_once(0.0)
            cpu_s += time.process_time() - started_s
            unwatch()
            batches += 1
            self._answer()
        return cpu_s, batches

    def _answer(self) -> None:
        for record in self._events[self._answered :]:
            event = self._records.decode(record)
            asked = event.payload
            result = {"count": int(str(asked["count"])) + 1, "text": asked["text"], "share": asked["share"]}
            out = self._records.continued(event, result, "offline", record.headers)
            self._control.append(Record(out.topic, 0, len(self._control), out.key, out.value, out.headers))
        self._answered = len(self._events)


def run(
    workflows: int, steps: int, batch: int, *, profile: cProfile.Profile | None = None, calls: Calls | None = None
) -> OfflineFigures:
    """Measure a run on a store of its own."""
    with tempfile.TemporaryDirectory() as folder, closing(OfflineRun(Path(folder), workflows, steps, batch)) as offline:
        return offline.measure(profile, calls)


def count_calls(workflows: int = 64, steps: int = 10, batch: int = 64) -> float:
    """Return how many Python functions the evaluator calls a round trip, without those of the transport."""
    run(1, steps, batch)
    return run(workflows, steps, batch, calls=Calls()).calls


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure, and write a line for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop_offline", description="the evaluator alone")
    parser.add_argument("--workflows", type=int, default=512, metavar="W", help="at once (default: 512)")
    parser.add_argument("--steps", type=int, default=30, metavar="S", help="events a workflow (default: 30)")
    parser.add_argument("--batch", type=int, default=200, metavar="N", help="records of a batch (default: 200)")
    parser.add_argument("--reps", type=int, default=3, metavar="K", help="runs (default: 3)")
    parser.add_argument("--profile", metavar="FILE", help="where to write a profile of the last run")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N that are called most")
    given = parser.parse_args(arguments)
    tune_collector()
    figures = []
    for _ in range(given.reps):
        figures.append(run(given.workflows, given.steps, given.batch))
        out.write(f"{figures[-1].cpu_us:.1f} us, {figures[-1].batches} batches, {figures[-1].store_bytes} bytes\n")
    if given.profile is not None:
        profile = cProfile.Profile(time.process_time)
        run(given.workflows, given.steps, given.batch, profile=profile)
        profile.dump_stats(given.profile)
    calls = Calls()
    run(64, 10, 64, calls=calls)
    for code, count in calls.by_function.most_common(given.functions):
        out.write(f"{count / 640:8.3f} {Path(code.co_filename).name}:{code.co_firstlineno} {code.co_qualname}\n")
    cpu_us = round(statistics.median(f.cpu_us for f in figures), 1)
    out.write(json.dumps({"cpu_us": cpu_us, "calls": round(count_calls(), 1)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
