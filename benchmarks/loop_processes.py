"""The evaluator and the agent of the measured loop, each in a process of its own that says what it cost.

`python -m benchmarks.loop_processes evaluator|agent ...`, with the settings in the environment, as for `afl-stream`.
"""

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any, Final, TextIO

from afl.core.process.signals import draining
from afl.stores.sqlite.store import SqliteStore
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.observer import AgentObserver
from afl_stream.commands.monitoring.agents import monitored_agent
from afl_stream.commands.monitoring.evaluators import monitored_evaluator, observer_of
from afl_stream.evaluator.control_loop import ControlStats
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config
from benchmarks.loop_program import FACET

#: Written when the first workflow is complete, so that both groups have their partitions and every cache is filled.
WARM: Final = "warm"
#: Batches at the beginning that the median of single round trips leaves out.
_UNTYPICAL: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFigures:
    """What the evaluator's process did between its first event and its last workflow's end. CPU is all threads'."""

    round_trips: int
    round_trips_per_s: float
    cpu_us: float
    p50_ms: float
    batches: int


class Stopwatch:
    """Looks at the evaluator after each batch: waits when it is warm, begins at the first event, ends it at the end."""

    def __init__(self, workflows: int, steps: int, stop: threading.Event, out: TextIO, go: TextIO) -> None:
        self._round_trips = workflows * steps
        #: Records applied: a start for each workflow, an answer for each step.
        self._when_warm = 1 + steps
        self._when_done = (1 + workflows) * (1 + steps)
        self._stop = stop
        self._out = out
        self._go = go
        self._is_warm = False
        self._cpu_s = 0.0
        self._turns_s: list[float] = []

    def on_batch(self, stats: ControlStats) -> None:
        applied = stats.outcomes.get(Outcome.APPLIED, 0)
        if not self._is_warm:
            if applied >= self._when_warm and not stats.runnable:
                self._is_warm = True
                self._out.write(f"{WARM}\n")
                self._out.flush()
                self._go.readline()
            return
        if not self._turns_s:
            self._cpu_s = time.process_time()
        self._turns_s.append(time.perf_counter())
        # A workflow that has used its budget of a batch up (a slow machine is enough) ends in a later one.
        if applied >= self._when_done and not stats.runnable:
            self._cpu_s = time.process_time() - self._cpu_s
            self._stop.set()

    def figures(self) -> EvaluatorFigures:
        turns_s = self._turns_s
        gaps_s = [after - before for before, after in itertools.pairwise(turns_s)]
        return EvaluatorFigures(
            round_trips=self._round_trips,
            round_trips_per_s=self._round_trips / (turns_s[-1] - turns_s[0]),
            cpu_us=self._cpu_s / self._round_trips * 1e6,
            p50_ms=statistics.median(gaps_s[_UNTYPICAL:] or gaps_s) * 1e3,
            batches=len(gaps_s),
        )


def evaluate(workflows: int, steps: int, out: TextIO, go: TextIO) -> None:
    """Run an evaluator until one workflow, and then so many more, are complete. Raises RuntimeError when they are not.

    After the first one it says that it is warm, and goes on when a line comes from `go`.
    """
    config = load_config()
    stop = threading.Event()
    with (
        closing(KafkaTransport(config)) as transport,
        closing(SqliteStore(config.store_path, prefix=config.prefix)) as store,
        draining(stop.set),
    ):
        tune_collector()
        observer = observer_of(config)
        service = EvaluatorService(config, transport, store, observer=observer)
        stopwatch = Stopwatch(workflows, steps, stop, out, go)
        with monitored_evaluator(_unsaid, config, service, store, observer):
            service.run(stop, stopwatch.on_batch)
        complete = len(store.list_workflows(status="COMPLETED", limit=workflows + 2))
        if complete != workflows + 1:
            raise RuntimeError(f"{complete} of {workflows + 1} workflows are complete")
    out.write(json.dumps(asdict(stopwatch.figures())) + "\n")


def serve(out: TextIO) -> None:
    """Run an agent until SIGTERM; then say what CPU an event took."""
    config = load_config()
    started_s: float | None = None

    def handle(payload: dict[str, Any]) -> dict[str, Any]:
        nonlocal started_s
        if started_s is None:
            started_s = time.process_time()
        return {"count": payload["count"] + 1, "text": payload["text"], "share": payload["share"]}

    with closing(KafkaTransport(config)) as transport:
        tune_collector()
        observer = AgentObserver() if config.metrics.are_on else None
        agent = Agent(AgentConfig(stream=config, observer=observer), transport)
        agent.register(FACET, handle)
        with ExitStack() as opened:
            opened.enter_context(monitored_agent(_unsaid, agent))
            opened.enter_context(draining(agent.stop))
            agent.run()
    cpu_s = 0.0 if started_s is None else time.process_time() - started_s
    out.write(json.dumps({"cpu_us": cpu_s / max(agent.counts.answered, 1) * 1e6}) + "\n")


def _unsaid(_remark: str) -> None:
    """Print nothing: standard output is the other process's."""


def main(arguments: Sequence[str], out: TextIO, go: TextIO) -> None:
    """Be one of the two processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop_processes", description="a process of the loop")
    parser.add_argument("role", choices=["evaluator", "agent"])
    parser.add_argument("--workflows", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.role == "agent":
        serve(out)
    else:
        evaluate(given.workflows, given.steps, out, go)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout, sys.stdin)
