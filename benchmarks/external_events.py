"""External events: how soon a waiting step continues, and what an event costs when very many have come.

`python -m benchmarks.external_events [--pairs N] [--events E] [--instances I] [--window W]`

1. On Kafka, with an evaluator in a process of its own and a store in a file: an event is raised, the step that waits
   for it continues, and the event of the step behind it is read from its topic. Each of these is followed by one record
   that goes to a process and back over the same broker, with neither codec nor store: the ping-pong. Medians of both,
   and their ratio.
2. On the embedded transport and SQLite, in this process: E events to I instances of an endless workflow, which takes an
   event and continues as new, in turn. The CPU time of the evaluator an event, for the first W events and the last W:
   it must not grow with what has come before. `--events 1000000 --instances 10000` is the full measure.

The last line is one JSON object: `p50_ratio`, `raise_p50_ms`, `ping_pong_p50_ms`, `cpu_growth`, `cpu_first_us` and
`cpu_last_us`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.stores.sqlite.store import SqliteStore
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import EmbeddedSettings, StreamConfig, TopicSettings, load_config
from afl_stream.topics.declared import Topology
from afl_stream.transport import TopicPartition, Transport
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import ExternalEvent
from benchmarks.external_event_processes import READY
from benchmarks.loop import broker
from benchmarks.loop_floor import echo, next_batch, reading

SOURCE: Final = """
namespace benchmark {
    event facet Heard(data: Json) => (ok: Boolean)

    workflow Once() => (ok: Boolean) andThen {
        got = afl.WaitForEvent(name = "tick")
        heard = Heard(data = got.data)
        yield Once(ok = heard.ok)
    }

    workflow Endless(count: Long = 0, last: Json = null) => (count: Long) andThen {
        got = afl.WaitForEvent(name = "tick")
        again = afl.ContinueAsNew(inputs = #{count: $.count + 1, last: got.data})
    }
}
"""
HEARD: Final = "benchmark.Heard"
#: Records at the beginning that the medians leave out.
_UNTYPICAL: Final = 20
#: Events that are raised before the evaluator handles them.
_LOT: Final = 1_000
_END_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds from a raise to what follows the wait, and of the ping-pongs between them."""

    raises_s: Sequence[float]
    pings_s: Sequence[float]

    def figures(self) -> dict[str, float]:
        """Return medians in milliseconds, without the first ones, and their ratio."""
        raised_s, pinged_s = (_median(found) for found in (self.raises_s, self.pings_s))
        return {
            "p50_ratio": round(raised_s / pinged_s, 2),
            "raise_p50_ms": round(raised_s * 1e3, 2),
            "ping_pong_p50_ms": round(pinged_s * 1e3, 2),
        }


def growth(cpu_us: Sequence[float]) -> dict[str, float]:
    """Return what an event costs in the first of the windows and in the last, and the ratio of last to first."""
    return {
        "cpu_growth": round(cpu_us[-1] / cpu_us[0], 2),
        "cpu_first_us": round(cpu_us[0], 1),
        "cpu_last_us": round(cpu_us[-1], 1),
    }


def program() -> CompiledProgram:
    """Return the compiled program of both measures."""
    return CompiledProgram(compile_text(SOURCE).program_json)


# --- 1. How soon a waiting step continues -----------------------------------------------------------------------------


def measure_latencies(bootstrap: str, pairs: int) -> Latencies:
    """Raise so many events, each for a workflow of its own that waits already, a ping-pong after each."""
    compiled = program()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_KAFKA_PRODUCER_LINGER_MS": "0",
            "AFL_PREFIX": f"external.{time.time_ns()}.",
            "AFL_STORE_PATH": str(Path(folder) / "store.sqlite3"),
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": "1",
            "AFL_TOPICS_EVENT_PARTITIONS": "1",
        }
        config = load_config(environ=environment)
        with closing(KafkaTransport(config)) as transport, Client(config, transport) as client:
            client.apply_topics([compiled])
            client.deploy(compiled)
            with (
                _evaluator(environment),
                echo(bootstrap) as ping,
                reading(bootstrap, client.topology.facet(HEARD)) as heard,
            ):
                for number in range(pairs):
                    client.start("benchmark.Once", workflow_id=f"wf-{number}", answer_timeout_s=_END_S)
                found = [(_raise(client, f"wf-{number}", lambda: next_batch(heard)), ping()) for number in range(pairs)]
            admin = transport.admin()
            for topic in [name for name in admin.topics() if name.startswith(config.prefix)]:
                admin.delete_topic(topic)
    return Latencies(raises_s=[raised_s for raised_s, _ in found], pings_s=[ping_s for _, ping_s in found])


def _raise(client: Client, workflow_id: str, read: Callable[[], Sequence[object]]) -> float:
    started_s = time.perf_counter()
    client.raise_event(workflow_id, "tick", "some data to carry")
    while not read():
        continue
    return time.perf_counter() - started_s


@contextmanager
def _evaluator(environment: Mapping[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.external_event_processes"]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                raise RuntimeError("the evaluator did not start; its error is above")
            yield
        finally:
            process.terminate()
            process.communicate(timeout=_END_S)


# --- 2. What an event costs -------------------------------------------------------------------------------------------


def measure_costs(events: int, instances: int, window: int, report: Callable[[int, float], None]) -> list[float]:
    """Return the evaluator's CPU time of an event in microseconds, for each window of so many events.

    Each is told to `report` with the number of events until then. Raises RuntimeError when events are lost.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = StreamConfig(
            embedded=EmbeddedSettings(data_dir=folder),
            topics=TopicSettings(control_partitions=1, event_partitions=1, replication=1),
        )
        log, store = EmbeddedBroker(config.log_path), SqliteStore(config.store_path, prefix=config.prefix)
        transport = EmbeddedTransport(log)
        try:
            with Client(config, transport) as client:
                compiled = program()
                client.apply_topics([compiled])
                client.deploy(compiled)
                names = [f"wf-{number:07d}" for number in range(instances)]
                for name in names:
                    client.start("benchmark.Endless", workflow_id=name)
                service = EvaluatorService(config, transport, store)
                _handle(service)
                sender = _Sender(config, transport, client.topology)

                def ended(number: int, cpu_us: float) -> None:
                    _drop_records(log, client.topology)
                    report(number, cpu_us)

                costs = _costs(sender, service, names, events, window, ended)
                rows = [store.load_workflow(name) for name in names]
                service.close()
        finally:
            store.close()
            transport.close()
            log.close()
    counts = {None if row is None else row.inputs["count"] for row in rows}
    if counts != {events // instances}:
        raise RuntimeError(f"{events // instances} events were raised for each instance, and they took {counts}")
    return costs


def _drop_records(log: EmbeddedBroker, topology: Topology) -> None:
    """Drop the records that were handled, as a topic's retention does: the log of a broker is not in this process."""
    for topic in (topology.external(), topology.lifecycle()):
        partition = TopicPartition(topic, 0)
        log.truncate(partition, log.log(partition).high)


class _Sender:
    """Raises many events at once: a client waits for the acknowledgement of each."""

    def __init__(self, config: StreamConfig, transport: Transport, topology: Topology) -> None:
        self._codec, self._topic = DeploymentCodec(config, transport, topology).codec, topology.external()
        self._producer = transport.producer()

    def send(self, workflow_id: str, number: int) -> None:
        event = ExternalEvent(workflow_id=workflow_id, name="tick", value=number, id=f"e-{number}")
        value = self._codec.encode(event, self._topic)
        headers = headers_for(event, source="/benchmarks")
        self._producer.produce(self._topic, value, key=workflow_id.encode(), headers=headers)

    def flush(self) -> None:
        if self._producer.flush(_END_S):
            raise RuntimeError("the embedded log takes no more")


def _costs(
    sender: _Sender,
    service: EvaluatorService,
    names: Sequence[str],
    events: int,
    window: int,
    report: Callable[[int, float], None],
) -> list[float]:
    costs: list[float] = []
    spent_s = 0.0
    for first in range(0, events, _LOT):
        for number in range(first, first + _LOT):
            sender.send(names[number % len(names)], number)
        sender.flush()
        spent_s += _handle(service)
        if (first + _LOT) % window == 0:
            costs.append(spent_s / window * 1e6)
            report(first + _LOT, costs[-1])
            spent_s = 0.0
    return costs


def _handle(service: EvaluatorService) -> float:
    """Handle what there is; return the CPU seconds that this took."""
    started_s = time.process_time()
    while service.loop.run_once(0.0) or not service.loop.is_idle():
        continue
    return time.process_time() - started_s


def _median(found: Sequence[float]) -> float:
    return statistics.median(found[_UNTYPICAL:] or found)


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.external_events", description="external events: latency and cost"
    )
    parser.add_argument("--pairs", type=int, default=300, metavar="N", help="raises, and ping-pongs (default: 300)")
    parser.add_argument("--events", type=int, default=50_000, metavar="E", help="events in all (default: 50000)")
    parser.add_argument("--instances", type=int, default=1_000, metavar="I", help="workflows (default: 1000)")
    parser.add_argument("--window", type=int, default=10_000, metavar="W", help="events of a window (default: 10000)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    given = parser.parse_args(arguments)
    if given.window % _LOT or given.events % given.window or given.events % given.instances:
        parser.error(f"--events is a multiple of --window and of --instances, and --window one of {_LOT}")
    tune_collector()
    figures: dict[str, float] = {}
    if given.pairs:
        with broker(given.bootstrap) as bootstrap:
            figures |= measure_latencies(bootstrap, given.pairs).figures()
        out.write(f"raise {figures['raise_p50_ms']} ms, ping-pong {figures['ping_pong_p50_ms']} ms\n")

    def report(events: int, cpu_us: float) -> None:
        out.write(f"{events:>9,} events, {cpu_us:.1f} us of CPU each\n")
        out.flush()

    if given.events:
        figures |= growth(measure_costs(given.events, given.instances, given.window, report))
    out.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
