"""Cost of the loop on Kafka, against its floor: `python -m benchmarks.loop [--pairs K] [--workflows W] [--steps S]`.

Starts a broker of its own. One evaluator on SQLite with synchronous FULL and one agent with a trivial handler, each in
a process of its own, take W workflows at once, compiled from AFL, through S event steps each; benchmarks.loop_floor
does the same work with as little as it takes. The two run alternately. Topics have one partition each on both sides,
as there is one reader each; everything else of ours is as it is shipped.

Measured is what happens between the first event and the last workflow's end. Left out are: starting the processes,
joining the groups, a first workflow that fills every cache, and the commands that start the workflows, which lie ready
on their topic (applying them is part of the measured time, but for the first batch).

The last line is one JSON object, medians over the pairs: `round_trips_ratio`, event round trips a second, ours over the
floor's; `cpu_ratio`, CPU of the evaluator's process a round trip, ours over the floor's; `p50_ratio`, the median time
of a round trip when there is one at a time and nothing lingers, ours over that of a bare client's echo; and `calls`,
how many Python functions the evaluator calls a round trip, which no neighbour disturbs (benchmarks.loop_offline).
"""

import argparse
import json
import os
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

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl_stream.client.client import Client
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config
from benchmarks.loop_offline import count_calls
from benchmarks.loop_processes import WARM
from benchmarks.loop_program import INPUTS, WORKFLOW, source
from tools.kafka import Broker

#: How long a run may take, and a process to end once it was asked to. Many times what either needs.
_RUN_S: Final = 600
_END_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFigures:
    """What one run of the loop cost, CPU a round trip and process."""

    round_trips_per_s: float
    evaluator_cpu_us: float
    agent_cpu_us: float
    p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Our loop and the floor, one after the other; and single round trips of ours and of a bare client."""

    ours: LoopFigures
    floor: LoopFigures
    single_p50_ms: float
    echo_p50_ms: float


def run_ours(
    bootstrap: str,
    workflows: int,
    steps: int,
    settings: Mapping[str, str],
    agent_settings: Mapping[str, str] | None = None,
) -> LoopFigures:
    """Measure our loop once, on topics and a store of its own; `agent_settings` are the agent's besides."""
    program = CompiledProgram(compile_text(source(steps)).program_json)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_PREFIX": f"loop.{time.time_ns()}.",
            "AFL_STORE_PATH": str(Path(folder) / "store.sqlite3"),
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": "1",
            "AFL_TOPICS_EVENT_PARTITIONS": "1",
            **settings,
        }
        config = load_config(environ=environment)
        with closing(KafkaTransport(config)) as transport, Client(config, transport) as client:
            client.apply_topics([program])
            client.deploy(program)
            size = ["--workflows", str(workflows), "--steps", str(steps)]
            for_agent = {**environment, **(agent_settings or {})}
            with _process("evaluator", environment, *size) as evaluator, _process("agent", for_agent) as agent:
                client.start(WORKFLOW, INPUTS)
                _expect(evaluator, WARM)
                for _ in range(workflows):
                    client.start(WORKFLOW, INPUTS)
                cost = json.loads(_reported(evaluator, "go\n"))
                agent.terminate()
                agent_cost = json.loads(_reported(agent))
            admin = transport.admin()
            for topic in [name for name in admin.topics() if name.startswith(config.prefix)]:
                # The next run should not share the disk with what is left of this one.
                admin.delete_topic(topic)
    return LoopFigures(
        round_trips_per_s=cost["round_trips_per_s"],
        evaluator_cpu_us=cost["cpu_us"],
        agent_cpu_us=agent_cost["cpu_us"],
        p50_ms=cost["p50_ms"],
    )


def run_floor(part: str, bootstrap: str, *size: str) -> LoopFigures:
    """Measure a part of the floor once: `evaluator` or `echo`."""
    command = [sys.executable, "-m", "benchmarks.loop_floor", part, bootstrap, *size]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    cost = json.loads(ended.stdout)
    return LoopFigures(
        round_trips_per_s=cost["round_trips_per_s"],
        evaluator_cpu_us=cost["evaluator_cpu_us"],
        agent_cpu_us=cost["agent_cpu_us"],
        p50_ms=cost["p50_ms"],
    )


def measure(bootstrap: str, workflows: int, steps: int, single_steps: int) -> Pair:
    """Measure one pair."""
    size = ("--workflows", str(workflows), "--steps", str(steps))
    return Pair(
        ours=run_ours(bootstrap, workflows, steps, {}),
        floor=run_floor("evaluator", bootstrap, *size),
        single_p50_ms=run_ours(bootstrap, 1, single_steps, {"AFL_KAFKA_PRODUCER_LINGER_MS": "0"}).p50_ms,
        echo_p50_ms=run_floor("echo", bootstrap, "--round-trips", str(single_steps)).p50_ms,
    )


def ratios(pairs: Sequence[Pair]) -> dict[str, float]:
    """Medians of the pairs' own ratios, which a busy neighbour moves least."""
    return {
        "round_trips_ratio": _median([p.ours.round_trips_per_s / p.floor.round_trips_per_s for p in pairs]),
        "cpu_ratio": _median([p.ours.evaluator_cpu_us / p.floor.evaluator_cpu_us for p in pairs]),
        "p50_ratio": _median([p.single_p50_ms / p.echo_p50_ms for p in pairs]),
    }


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure all pairs on a broker of this run, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description="the loop against its floor")
    parser.add_argument("--pairs", type=int, default=5, metavar="K", help="pairs of runs (default: 5)")
    parser.add_argument("--workflows", type=int, default=1_024, metavar="W", help="at once (default: 1024)")
    parser.add_argument("--steps", type=int, default=30, metavar="S", help="events a workflow (default: 30)")
    parser.add_argument("--single-steps", type=int, default=300, metavar="N", help="one at a time (default: 300)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    given = parser.parse_args(arguments)
    pairs: list[Pair] = []
    with broker(given.bootstrap) as bootstrap:
        for _ in range(given.pairs):
            pair = measure(bootstrap, given.workflows, given.steps, given.single_steps)
            pairs.append(pair)
            ours, floor = pair.ours, pair.floor
            out.write(
                f"{ours.round_trips_per_s:>7,.0f} round trips/s, CPU {ours.evaluator_cpu_us:.0f} us evaluator, "
                f"{ours.agent_cpu_us:.0f} us agent; floor {floor.round_trips_per_s:,.0f}, "
                f"{floor.evaluator_cpu_us:.0f}, {floor.agent_cpu_us:.0f}; "
                f"one at a time {pair.single_p50_ms:.2f} ms, echo {pair.echo_p50_ms:.2f} ms\n"
            )
            out.flush()
    out.write(json.dumps({**ratios(pairs), "calls": round(count_calls(), 1)}) + "\n")


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 2)


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """Yield the address of the named broker, or of one that is started for this run."""
    if bootstrap is not None:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory() as folder, Broker.start(Path(folder) / "broker") as started:
        yield started.bootstrap


@contextmanager
def _process(role: str, environment: Mapping[str, str], *options: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loop_processes", role, *options],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    found = process.stdout.readline().strip()
    if found != word:
        raise RuntimeError(f"a process of the loop said {found!r} where {word!r} was expected; its error is above")


def _reported(process: "subprocess.Popen[str]", word: str | None = None) -> Any:
    """Return what the process writes before it ends. Raises RuntimeError when it ends badly."""
    reported, _ = process.communicate(word, timeout=_RUN_S if word else _END_S)
    if process.returncode:
        raise RuntimeError(f"a process of the loop ended with {process.returncode}; its error is above")
    return reported


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
