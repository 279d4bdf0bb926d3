"""Agents' drain beside other frameworks: `python -m benchmarks.agent_drain [--records N] [--rounds K]`.

N events of one facet lie on one topic of 6 partitions. Our agent with a trivial handler answers them with StepContinue
on the control topic; Faust and Quix Streams read the same records and send as many, in two ways: `answer` decodes the
event and encodes an answer (with fastavro), `echo` sends the bytes on as they came, which is less work than ours does.
Each is one process in a group of its own; they take turns, and each round has all of them, on one broker.

In all of them an offset is committed only when the broker has acknowledged the records before it, as often
(`--commit-interval-s`), with acks=all; everything else is as it is shipped. Our agent writes headers on its answers,
bounds the time of each handler, keeps the events of a step in order, and looks at the lifecycle topic, as it does for
each event that has waited for a second; the others do none of this.

**The gate compares `answer`**: there all three do the same work for a record, from the Avro bytes of an event to the
Avro bytes of its answer, which is acknowledged before the event's offset is committed. Our agent may take 1.5 times the
CPU of Quix Streams for a record, and 0.15 times that of Faust. `echo` is reported beside it: what the bytes alone cost.

Measured is from outside, alike for all: the CPU time of the process, all threads, from when a tenth of the records is
answered until the offset of the last one is committed, and the time until all are answered. Starting, joining and
filling caches are left out.

The last line is one JSON object, medians over the rounds: `cpu_us` and `records_per_s` by contestant; `cpu_ratio`, the
CPU of our agent for a record over that of each other, and `rate_ratio`, records a second likewise; and `gate`, by the
name of each bound: the ratio, the bound, and whether it is kept. `--peers quix` leaves the other peer out, for a short
look.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from confluent_kafka import Consumer, TopicPartition

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import epoch_ms
from afl.core.declared_returns import DeclaredReturns
from afl_stream.client.client import Client
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig, load_config
from afl_stream.topics.declared import Topology
from afl_stream.wire.headers import EventHeaders, unpacked
from afl_stream.wire.new_records import NewEvent
from benchmarks.loop import broker
from benchmarks.measure import process_cpu_s
from benchmarks.peers.ours import FACET
from tools.environments import interpreter_of

ROOT: Final = Path(__file__).parents[1]
PARTITIONS: Final = 6
SOURCE: Final = """
namespace benchmark {
    event facet Work(count: Long, text: String, share: Double) => (count: Long, text: String, share: Double)
    workflow Once(count: Long) => (count: Long) andThen {
        done = Work(count = $.count, text = "some text to carry", share = 0.25)
        yield Once(count = done.count)
    }
}
"""
_FIELDS: Final = (
    {"name": "count", "type": "Long"},
    {"name": "text", "type": "String"},
    {"name": "share", "type": "Double"},
)
_NAMES: Final = tuple(field["name"] for field in _FIELDS)
#: Events that are produced before their acknowledgements are waited for.
_FLUSHED: Final = 10_000
#: The part of the records after which measuring begins.
_WARM: Final = 0.1
_LOOK_S: Final = 0.005
#: How long one contestant may take, and to end once it was asked to. Many times what any of them needs.
_RUN_S: Final = 600
_END_S: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A process that drains the events: its name, its command, and what it is told by its environment."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a drain took."""

    records_per_s: float
    cpu_us: float


class Drain:
    """One topic of events, and what is measured of those who drain it."""

    def __init__(
        self, bootstrap: str, folder: Path, records: int, commit_interval_s: float, peers: Sequence[str]
    ) -> None:
        self._bootstrap, self._records, self._interval_s = bootstrap, records, commit_interval_s
        self._peers = peers
        self._environment = {
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_PREFIX": f"drain.{time.time_ns()}.",
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": str(PARTITIONS),
            "AFL_TOPICS_EVENT_PARTITIONS": str(PARTITIONS),
        }
        self._config = load_config(environ=self._environment)
        topology = Topology(self._config)
        self._events, self._answers = topology.facet(FACET), topology.control()
        self._folder, self._schema = folder, folder / "event.avsc"
        self._schema.write_text(produce(self._config, records))
        self._runs = 0

    def contestants(self) -> Iterator[Contestant]:
        """Yield who takes part, each with a group that has read nothing yet."""
        python = ("-m", "benchmarks.peers.ours", str(self._interval_s))
        group = self._new_group("ours")
        yield Contestant(
            name="agent",
            command=[sys.executable, *python, group],
            environment={**self._environment, "DRAIN_GROUP": group},
        )
        for mode in ("answer", "echo"):
            for name in self._peers:
                words = _PEERS[name]
                yield Contestant(
                    name=f"{name}_{mode}",
                    command=[interpreter_of(name), "-m", *words],
                    environment={
                        "DRAIN_BOOTSTRAP": self._bootstrap,
                        "DRAIN_GROUP": self._new_group(name),
                        "DRAIN_EVENTS": self._events,
                        "DRAIN_ANSWERS": self._answers,
                        "DRAIN_COMMIT_INTERVAL_S": str(self._interval_s),
                        "DRAIN_MODE": mode,
                        "DRAIN_EVENT_SCHEMA": str(self._schema),
                        "DRAIN_ANSWER_SCHEMA": str(ROOT / "schemas" / "step_continue.avsc"),
                    },
                )

    def close(self) -> None:
        """Delete the topics: on a broker that stays, the next run should not share the disk with them."""
        with closing(KafkaTransport(self._config)) as transport:
            admin = transport.admin()
            for topic in [name for name in admin.topics() if name.startswith(self._config.prefix)]:
                admin.delete_topic(topic)

    def _new_group(self, name: str) -> str:
        self._runs += 1
        return f"{self._config.prefix}{name}.{self._runs}"

    def measure(self, contestant: Contestant) -> Figures:
        """Let it drain the topic once. RuntimeError when it ends before, or sends another number of records."""
        with closing(self._consumer(contestant.environment["DRAIN_GROUP"])) as consumer:
            before = self._end_of(consumer, self._answers)
            with _running(contestant, self._folder) as process:
                began = Moment(at_s=time.monotonic(), cpu_s=0.0, answered=0)
                warm = self._wait(process, consumer, before, int(self._records * _WARM))
                if warm.answered == self._records:
                    # So few records were there at the first look: its start counts too.
                    warm = began
                all_answered = self._wait(process, consumer, before, self._records)
                while self._committed(consumer) < self._records:
                    _check(process, contestant)
                    time.sleep(_LOOK_S)
                cpu_s = process_cpu_s(process.pid) - warm.cpu_s
            sent = self._end_of(consumer, self._answers) - before
        if sent != self._records:
            raise RuntimeError(f"{contestant.name} has sent {sent} records for {self._records}")
        measured = self._records - warm.answered
        return Figures(
            records_per_s=measured / (all_answered.at_s - warm.at_s),
            cpu_us=cpu_s / measured * 1e6,
        )

    def _wait(self, process: "subprocess.Popen[bytes]", consumer: Consumer, before: int, count: int) -> "Moment":
        end_s = time.monotonic() + _RUN_S
        while (answered := self._end_of(consumer, self._answers) - before) < count:
            if process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"{process.args!r} has answered {answered}, and ended with {process.returncode}")
            time.sleep(_LOOK_S)
        return Moment(at_s=time.monotonic(), cpu_s=process_cpu_s(process.pid), answered=answered)

    def _consumer(self, group: str) -> Consumer:
        # It asks for offsets, and never joins the group.
        return Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "enable.auto.commit": False})

    @staticmethod
    def _end_of(consumer: Consumer, topic: str) -> int:
        """Return how many records have been on a topic."""
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), _END_S) for number in range(PARTITIONS)]
        return sum(end[1] for end in ends if end is not None)

    def _committed(self, consumer: Consumer) -> int:
        """Return how many records of the events the group has committed."""
        places = consumer.committed([TopicPartition(self._events, number) for number in range(PARTITIONS)], _END_S)
        return sum(max(place.offset, 0) for place in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How far a process was at a time: CPU time used, and records answered."""

    at_s: float
    cpu_s: float
    answered: int


#: The most that a record may cost our agent, as a part of what it costs each contestant that does the same work.
GATE: Final[Mapping[str, float]] = {"quix_answer": 1.5, "faust_answer": 0.15}
#: Peers by the names of their environments, and what is run there.
_PEERS: Final[Mapping[str, Sequence[str]]] = {
    "faust": ("faust", "-A", "benchmarks.peers.faust_echo", "-l", "warn", "worker", "--without-web"),
    "quix": ("benchmarks.peers.quix_echo",),
}


def produce(config: StreamConfig, records: int) -> str:
    """Create the topics, put the events on theirs, and return the text of their schema."""
    topology = Topology(config)
    topic, now_ms = topology.facet(FACET), epoch_ms()
    headers = EventHeaders(FACET, source="urn:benchmark")
    with closing(KafkaTransport(config)) as transport:
        with Client(config, transport) as client:
            client.apply_topics([CompiledProgram(compile_text(SOURCE).program_json)])
        codec = DeploymentCodec(config, transport, topology).codec
        writer = codec.event_writer(FACET, _FIELDS, topic=topic, returns=DeclaredReturns(_NAMES, ()))
        with closing(transport.producer()) as producer:
            for number in range(records):
                workflow_id = f"0190a000-0000-7000-8000-{number:012x}"
                step_id = f"{workflow_id}:{number:024x}"
                event_id = f"{step_id}#1"
                payload = {"count": number, "text": "some text to carry", "share": 0.25}
                event = NewEvent(
                    event_id, workflow_id, f"{workflow_id}/1", step_id, FACET, payload, 1, now_ms, None, None
                )
                key = step_id.encode()
                described = unpacked(headers.of(event_id=event_id, step_id=step_id, attempt=1, created_at_ms=now_ms))
                producer.produce(topic, writer.encode(event), key=key, headers=described)
                if number % _FLUSHED == 0:
                    producer.flush(_END_S)
            if left := producer.flush(_END_S):
                raise RuntimeError(f"{left} events are not on the topic")
    return writer.schema.text


@contextmanager
def _running(contestant: Contestant, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        contestant.command,
        # Faust makes a folder of its own where it is started.
        cwd=folder,
        env={**os.environ, **contestant.environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(_END_S)
    finally:
        process.kill()
        process.wait()


def _check(process: "subprocess.Popen[bytes]", contestant: Contestant) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"{contestant.name} ended with {process.returncode}; its error is above")


def summary(rounds: Sequence[Mapping[str, Figures]]) -> dict[str, Any]:
    """Return the figures of the last line: medians over the rounds, and over their own ratios."""
    names = list(rounds[0])
    others = [name for name in names if name != "agent"]

    def ratio_to(name: str, field: str) -> float:
        return _median(getattr(each["agent"], field) / getattr(each[name], field) for each in rounds)

    ratios = {name: ratio_to(name, "cpu_us") for name in others}
    return {
        "cpu_us": {name: _median(each[name].cpu_us for each in rounds) for name in names},
        "records_per_s": {name: round(_median(each[name].records_per_s for each in rounds)) for name in names},
        "cpu_ratio": ratios,
        "rate_ratio": {name: ratio_to(name, "records_per_s") for name in others},
        "gate": {
            name: {"ratio": ratios[name], "bound": bound, "is_kept": ratios[name] <= bound}
            for name, bound in GATE.items()
            if name in ratios
        },
    }


def _median(values: Iterator[float]) -> float:
    return round(statistics.median(values), 2)


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure all rounds on a broker of this run, and write a line for each drain."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent_drain", description="agents' drain beside others")
    parser.add_argument("--records", type=int, default=50_000, metavar="N", help="events on the topic (default: 50000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="K", help="drains of each (default: 3)")
    parser.add_argument("--commit-interval-s", type=float, default=1.0, metavar="S", help="of all (default: 1)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    parser.add_argument("--peers", nargs="*", choices=list(_PEERS), default=list(_PEERS), help="who takes part as well")
    given = parser.parse_args(arguments)
    rounds: list[dict[str, Figures]] = []
    with broker(given.bootstrap) as bootstrap, tempfile.TemporaryDirectory() as folder:
        drain = Drain(bootstrap, Path(folder), given.records, given.commit_interval_s, given.peers)
        for number in range(given.rounds):
            # The order turns, so that no one is always first on a cold broker.
            order = list(drain.contestants())
            order = order[number % len(order) :] + order[: number % len(order)]
            rounds.append({})
            for contestant in order:
                found = rounds[-1][contestant.name] = drain.measure(contestant)
                out.write(f"{contestant.name:<13} {found.records_per_s:>9,.0f} records/s, CPU {found.cpu_us:6.1f} us\n")
                out.flush()
        drain.close()
    out.write(json.dumps(summary(rounds)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
