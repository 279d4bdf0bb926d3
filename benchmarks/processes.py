"""One, two and four evaluators of one command: `python -m benchmarks.processes [--rounds K] [--workflows W] ...`.

Starts a broker of its own. W workflows, chains of S event steps, are started, and all their answers are written to the
control topic while the evaluators stand still (SIGSTOP): ids are derived, so the answers are known beforehand, and no
agent takes CPU meanwhile. Then they go on, and are measured until the last answer is in the store. The same with one
evaluator, with `--processes 2` and with `--processes 4`, on four partitions each time, one after the other, K rounds.

The last line is one JSON object, medians over the rounds: `cpu_ratio_2` and `cpu_ratio_4`, CPU of all evaluators a
round trip over that of one; `speedup_2` and `speedup_4`, round trips a second over those of one, which a machine
with no processor left for the second cannot show.
"""

import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl_stream.client.client import Client
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.partitioner import partition_for
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig, load_config
from afl_stream.settings.store_parts import part_path, parts_of
from afl_stream.topics.declared import Topology
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import StepContinue
from benchmarks.loop import broker
from benchmarks.loop_program import source
from benchmarks.measure import process_cpu_s

_WORKFLOW: Final = "benchmark.Chain"
_INPUTS: Final[Mapping[str, Any]] = {"count": 0, "text": "some text to carry", "share": 0.25}
_PARTITIONS: Final = 4
_COUNTS: Final = (1, 2, 4)
#: How long a run may take: many times what it needs.
_RUN_S: Final = 600
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the evaluators did with the answers: CPU of all of them a round trip, and round trips a second."""

    cpu_us: float
    round_trips_per_s: float


def workflow_ids(count: int) -> list[str]:
    """Return ids of which each partition has as many."""
    wanted: list[list[str]] = [[] for _ in range(_PARTITIONS)]
    number = 0
    while any(len(ids) < -(-count // _PARTITIONS) for ids in wanted):
        one = f"run-{number}"
        wanted[partition_for(one.encode(), _PARTITIONS)].append(one)
        number += 1
    share = -(-count // _PARTITIONS)
    return [ids[at] for at in range(share) for ids in wanted][:count]


def answers(program: Mapping[str, Any], workflow_id: str) -> Iterator[StepContinue]:
    """Yield the answers to a workflow's events in their order, with the ids that every evaluator derives."""
    evaluator = Evaluator(MemoryStore())
    result = evaluator.execute(_WORKFLOW, dict(_INPUTS), program_ast=dict(program), workflow_id=workflow_id)
    while result.pending_events:
        (event,) = result.pending_events
        count = event.payload["count"]
        assert isinstance(count, int)
        answer = {**event.payload, "count": count + 1}
        yield StepContinue(step_id=event.step_id, result=answer, workflow_id=workflow_id)
        evaluator.continue_step(event.step_id, answer)
        result = evaluator.resume(workflow_id)


def measure(bootstrap: str, count: int, workflows: int, steps: int) -> Figures:
    """Measure so many evaluators once, on topics and stores of their own."""
    compiled = compile_text(source(steps)).program_json
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_PREFIX": f"processes.{time.time_ns()}.",
            "AFL_EMBEDDED_DATA_DIR": folder,
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": str(_PARTITIONS),
            "AFL_TOPICS_EVENT_PARTITIONS": str(_PARTITIONS),
            # One that stands still while the answers are written stays a member.
            "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "60000",
        }
        config = load_config(environ=environment)
        with closing(KafkaTransport(config)) as transport, Client(config, transport) as client:
            program = CompiledProgram(compiled)
            client.apply_topics([program])
            client.deploy(program)
            ids = workflow_ids(workflows)
            given = [list(answers(compiled, workflow_id)) for workflow_id in ids]
            with evaluators(count, environment) as parent:
                for workflow_id in ids:
                    client.start(_WORKFLOW, _INPUTS, workflow_id=workflow_id, program=program.fingerprint)
                _wait_for(lambda: _read(config, "commands") == workflows)
                processes = children_of(parent) if count > 1 else [parent]
                for process in processes:
                    os.kill(process, signal.SIGSTOP)
                before_s = sum(map(process_cpu_s, processes))
                _write(config, transport, given)
                started_s = time.perf_counter()
                for process in processes:
                    os.kill(process, signal.SIGCONT)
                _wait_for(lambda: _read(config, "control") == workflows * steps)
                took_s, used_s = time.perf_counter() - started_s, sum(map(process_cpu_s, processes)) - before_s
    return Figures(cpu_us=used_s / (workflows * steps) * 1e6, round_trips_per_s=workflows * steps / took_s)


@contextmanager
def evaluators(count: int, environment: Mapping[str, str]) -> Iterator[int]:
    """Run the command, and yield the id of its process."""
    words = ["evaluator", *(["--processes", str(count)] if count > 1 else [])]
    started = subprocess.Popen(
        [sys.executable, "-m", "afl_stream", *words], env={**os.environ, **environment}, stderr=subprocess.DEVNULL
    )
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(_RUN_S)


def children_of(process_id: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def ratios(rounds: Sequence[Mapping[int, Figures]]) -> dict[str, float]:
    """Medians of the rounds' own ratios, which a busy neighbour moves least."""
    found: dict[str, float] = {}
    for count in _COUNTS[1:]:
        found[f"cpu_ratio_{count}"] = _median([one[count].cpu_us / one[1].cpu_us for one in rounds])
    for count in _COUNTS[1:]:
        speeds = [one[count].round_trips_per_s / one[1].round_trips_per_s for one in rounds]
        found[f"speedup_{count}"] = _median(speeds)
    return found


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure all rounds on a broker of this run, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description="evaluators of one command")
    parser.add_argument("--rounds", type=int, default=5, metavar="K", help="rounds (default: 5)")
    parser.add_argument("--workflows", type=int, default=1_000, metavar="W", help="at once (default: 1000)")
    parser.add_argument("--steps", type=int, default=30, metavar="S", help="events a workflow (default: 30)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    given = parser.parse_args(arguments)
    rounds: list[Mapping[int, Figures]] = []
    with broker(given.bootstrap) as bootstrap:
        for _ in range(given.rounds):
            found = {count: measure(bootstrap, count, given.workflows, given.steps) for count in _COUNTS}
            rounds.append(found)
            texts = [f"{n}: {f.cpu_us:.0f} us, {f.round_trips_per_s:,.0f} round trips/s" for n, f in found.items()]
            out.write(f"{'; '.join(texts)}\n")
            out.flush()
    out.write(json.dumps(ratios(rounds)) + "\n")


def _write(config: StreamConfig, transport: KafkaTransport, given: Sequence[Sequence[StepContinue]]) -> None:
    """Write all answers to the control topic: the first of each workflow, then the second of each, and so on."""
    topology = Topology(config)
    codec, topic = DeploymentCodec(config, transport, topology).codec, topology.control()
    producer = transport.producer()
    for together in zip(*given, strict=True):
        for answer in together:
            value, headers = codec.encode(answer, topic), headers_for(answer, source="/benchmarks/processes")
            producer.produce(topic, value, key=(answer.workflow_id or "").encode(), headers=headers)
        producer.poll(0)
    if producer.flush(_RUN_S):
        raise RuntimeError("the answers were not acknowledged")
    producer.close()


def _read(config: StreamConfig, kind: str) -> int:
    """Return how many records of a topic are behind the stored positions, in all files."""
    base = config.store_path
    parts = parts_of(base)
    files = [base] if parts is None else [part_path(base, part) for part in parts.all()]
    topic, count = f"{config.prefix}{kind}", 0
    for file in files:
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
                rows = connection.execute("SELECT next_offset FROM position WHERE topic = ?", (topic,)).fetchall()
        except sqlite3.OperationalError:
            return 0  # It is not made yet.
        count += sum(offset for (offset,) in rows)
    return count


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _RUN_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise RuntimeError("the evaluators have not come to an end")
        time.sleep(_LOOK_S)


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
