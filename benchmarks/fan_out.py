"""Fan-out and fan-in of events in one workflow: `python -m benchmarks.fan_out [--sizes N ...]`.

One workflow goes over N numbers with a foreach; each element is an event step whose answer is yielded, and what was
gathered is read by the steps after it. Evaluator, agent and client are one process, on the embedded transport (in
memory) and SQLite with synchronous FULL. Each size runs in a process of its own, so that its peak of memory is its own.

Meanwhile small workflows of one event step are started, one after the other, and each is timed from its start to its
end in the store. The machine's other work adds to these figures: they are of a wall clock, and of seconds, not ratios.

The last line is one JSON object: of the largest size `seconds`, `peak_mib` and `slowest_beside_s`, the slowest of the
small workflows beside it; `growth`, CPU an event at the largest size over that at the smallest (linear is 1).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.store import ENDED_STATUSES
from afl_stream.agent.agent import Agent
from afl_stream.dev import LocalDeployment
from afl_stream.evaluator.service import tune_collector
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sections import EmbeddedSettings

SOURCE: Final = """
namespace benchmark {
    event facet Work(value: Long) => (value: Long)
    event facet Ask(value: Long) => (value: Long)
    facet Count(values: [Long]) => (first: Long = $.values[0], last: Long = $.values[-1])

    facet Gather(values: [Long]) => (done: [Long] = []) andThen foreach value in $.values {
        work = Work(value = $.value)
        yield Gather(done = [work.value])
    }

    workflow FanOut(values: [Long]) => (first: Long, last: Long) andThen {
        gathered = Gather(values = $.values)
        count = Count(values = gathered.done)
        yield FanOut(first = count.first, last = count.last)
    }

    workflow Beside(value: Long) => (value: Long) andThen {
        answer = Ask(value = $.value)
        yield Beside(value = answer.value)
    }
}
"""
#: Pause between two of the small workflows.
_PAUSE_S: Final = 0.1
_LOOK_S: Final = 0.005
#: The small workflow that is given up.
_GIVEN_UP_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one size took. `cpu_us` is a process's whole, by event: evaluator, agent and client."""

    events: int
    seconds: float
    cpu_us: float
    peak_mib: int
    beside: int
    slowest_beside_s: float


def work(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer an event with one more than it gave."""
    return {"value": payload["value"] + 1}


def set_up(agent: Agent) -> None:
    """Register the handlers of both facets."""
    agent.register("benchmark.Work", work)
    agent.register("benchmark.Ask", work)


class Neighbour(threading.Thread):
    """Starts small workflows one after the other, and times each from its start to its end in the store."""

    def __init__(self, deployment: LocalDeployment) -> None:
        super().__init__(name="neighbour", daemon=True)
        self._deployment = deployment
        self._over = threading.Event()
        self.taken_s: list[float] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Until `stop`. An error is kept, for who joins."""
        try:
            while not self._over.wait(_PAUSE_S):
                self.taken_s.append(self._one())
        except Exception as error:  # noqa: BLE001 - raised again by `stop`
            self.error = error

    def _one(self) -> float:
        number = len(self.taken_s)
        started_s = time.monotonic()
        workflow_id = self._deployment.client.start("benchmark.Beside", {"value": number})
        while True:
            row = self._deployment.store.load_workflow(workflow_id)
            taken_s = time.monotonic() - started_s
            if row is not None and row.status in ENDED_STATUSES:
                if row.outputs != {"value": number + 1}:
                    raise RuntimeError(f"the small workflow {number} ended as {row.status} with {row.outputs}")
                return taken_s
            if taken_s > _GIVEN_UP_S:
                raise RuntimeError(f"the small workflow {number} has not ended after {_GIVEN_UP_S:g} s")
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """End it, and raise what went wrong."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error


def measure(events: int) -> Figures:
    """Run one workflow of so many events in this process. RuntimeError for a wrong result."""
    tune_collector()
    program = CompiledProgram(compile_text(SOURCE).program_json)
    with tempfile.TemporaryDirectory() as folder:
        config = StreamConfig(embedded=EmbeddedSettings(data_dir=folder))
        with LocalDeployment(config, set_up_agent=set_up) as deployment:
            deployment.deploy(program)
            deployment.run()
            cpu_s, started_s = time.process_time(), time.monotonic()
            workflow_id = deployment.client.start("benchmark.FanOut", {"values": list(range(events))})
            neighbour = Neighbour(deployment)
            neighbour.start()
            ending = deployment.wait(workflow_id)
            seconds, cpu_us = time.monotonic() - started_s, (time.process_time() - cpu_s) / events * 1e6
            neighbour.stop()
    outputs = ending.row.outputs if ending is not None and ending.row is not None else None
    if outputs != {"first": 1, "last": events}:
        raise RuntimeError(f"{events} events: the workflow gives {outputs}, the ending is {ending}")
    return Figures(
        events=events,
        seconds=seconds,
        cpu_us=cpu_us,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        beside=len(neighbour.taken_s),
        slowest_beside_s=max(neighbour.taken_s, default=0.0),
    )


def in_a_process(events: int) -> Figures:
    """`measure` in a process of its own. RuntimeError when that fails."""
    command = [sys.executable, "-m", "benchmarks.fan_out", "--one", str(events)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{events} events: the process ended with {done.returncode}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure every size, and write a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fan_out", description="one workflow of many events, and small ones beside it"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], metavar="N")
    parser.add_argument("--one", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(asdict(measure(options.one))), file=out)
        return
    measured = []
    for events in sorted(options.sizes):
        of_one = in_a_process(events)
        measured.append(of_one)
        print(
            f"{events:>8,d} events: {of_one.seconds:7.1f} s, {of_one.cpu_us:6.1f} us CPU an event in all, "
            f"peak {of_one.peak_mib:,d} MiB; {of_one.beside} small workflows beside it, the slowest "
            f"{of_one.slowest_beside_s:.2f} s",
            file=out,
            flush=True,
        )
    print(json.dumps(figures(measured)), file=out)


def figures(measured: Sequence[Figures]) -> dict[str, float]:
    """Return the figures of the last line, of sizes in rising order."""
    last = measured[-1]
    return {
        "events": last.events,
        "seconds": round(last.seconds, 1),
        "peak_mib": last.peak_mib,
        "slowest_beside_s": round(last.slowest_beside_s, 2),
        "growth": round(last.cpu_us / measured[0].cpu_us, 2),
    }


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
