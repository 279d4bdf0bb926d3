"""Timers of an evaluator: `python -m benchmarks.timers [--sleepers N] [--due N] [--idle-s S]`.

Two measurements, on the embedded transport (in memory) and SQLite with synchronous FULL, in this process:

  * what an idle evaluator costs while N workflows sleep, against one without any, in CPU time, alternately;
  * how long it takes to fire timers that are due within one second, from the first one's time to the commit of the
    last, while the others sleep on. The evaluator is a new one, which has none of the workflows in memory.

The last line is one JSON object: `idle_ratio`, CPU of the idle evaluator with sleepers over that without;
`idle_cpu_ms`, what it costs in a second; `due_s`, seconds until all due timers were fired, and `due_cpu_s` in CPU time;
`in_order`, whether that was in order of time and step id.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import epoch_ms
from afl.engine.model.store import Batch
from afl.stores.sqlite.store import SqliteStore
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sections import EmbeddedSettings, EvaluatorSettings
from benchmarks.measure import PairedSeconds, paired

SOURCE: Final = """
namespace benchmark {
    workflow Sleeper(at_ms: Long) => (woke_at: Long) andThen {
        nap = afl.WaitUntil(at_ms = $.at_ms)
        yield Sleeper(woke_at = nap.woke_at)
    }
}
"""
#: How long the sleepers sleep that are not to wake.
_LONG_MS: Final = 10 * 24 * 3_600_000
#: Within this time the due timers are due.
_SPREAD_MS: Final = 1_000
#: What an idle evaluator waits for at a time, as the service does.
_POLL_S: Final = 0.2
_PAIRS: Final = 3
#: Batches while workflows are started: large ones, because nobody waits.
_STARTING_BATCH_MS: Final = 2_000
#: A step of the measurement is given up then.
_GIVEN_UP_S: Final = 900.0


class Witness(SqliteStore):
    """A store that notes the workflows of each commit, in its order, while it is told to: each workflow once."""

    # One that has used up its time of a batch goes on in the next, and has two commits.
    noted: dict[str, None] | None = None

    def commit_batch(self, batch: Batch) -> int:
        """Commit; see `Store`."""
        first = super().commit_batch(batch)
        if self.noted is not None:
            self.noted.update(dict.fromkeys(change.workflow_id for change in batch.changes))
        return first


class Deployment:
    """A broker in memory and a store in a file, for one evaluator after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(folder)))
        self._transport = EmbeddedTransport(EmbeddedBroker(None))
        self.store = Witness(self._config.store_path, prefix=self._config.prefix)
        self._client = Client(self._config, self._transport)
        program = CompiledProgram(compile_text(SOURCE).program_json)
        self._client.apply_topics([program])
        self._client.deploy(program)

    @contextmanager
    def evaluator(self, batch_ms: int = 50) -> Iterator[EvaluatorService]:
        """Give a new evaluator, which has its partitions."""
        config = replace(self._config, evaluator=EvaluatorSettings(batch_ms=batch_ms))
        service = EvaluatorService(config, self._transport, self.store)
        try:
            until(service, lambda: bool(service.loop.stats().owned) and service.loop.is_idle())
            yield service
        finally:
            service.close()

    def start(self, service: EvaluatorService, count: int, stem: str, at_ms: Callable[[int], int]) -> None:
        """Start workflows that sleep until a time each, and have them all asleep."""
        before = sum(service.loop.stats().outcomes.values())
        for number in range(count):
            inputs: dict[str, Any] = {"at_ms": at_ms(number)}
            self._client.start("benchmark.Sleeper", inputs, workflow_id=f"{stem}-{number}")
            if not number % 500:
                service.loop.run_once(0.0)
        until(
            service,
            lambda: sum(service.loop.stats().outcomes.values()) >= before + count and service.loop.is_idle(),
        )

    def close(self) -> None:
        """Close client and store."""
        self._client.close()
        self.store.close()


def until(service: EvaluatorService, is_done: Callable[[], bool]) -> None:
    """Run an evaluator until something is so. RuntimeError when that takes very long."""
    deadline_s = time.monotonic() + _GIVEN_UP_S
    while not is_done():
        service.loop.run_once(0.005)
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"not done after {_GIVEN_UP_S:g} s: {service.loop.stats()}")


def idle_cpu_s(service: EvaluatorService, idle_s: float) -> float:
    """Return the CPU seconds that an evaluator takes in this time, while nothing is due."""
    start_s, deadline_s = time.process_time(), time.monotonic() + idle_s
    while time.monotonic() < deadline_s:
        service.loop.run_once(_POLL_S)
    return time.process_time() - start_s


def measure_idle(sleeping: Deployment, folder: Path, idle_s: float) -> PairedSeconds:
    """Compare an idle evaluator with one of a deployment without sleepers."""
    empty = Deployment(folder)
    with sleeping.evaluator() as with_sleepers, empty.evaluator() as without:
        seconds = paired(lambda: idle_cpu_s(with_sleepers, idle_s), lambda: idle_cpu_s(without, idle_s), _PAIRS)
    empty.close()
    return seconds


class DueFigures(NamedTuple):
    """What firing the due timers took, on the clock and in CPU time, and whether that was in order."""

    seconds: float
    cpu_s: float
    in_order: bool


def measure_due(deployment: Deployment, count: int, per_second: float) -> DueFigures:
    """Fire timers that are due within a second, and return what that took.

    `per_second`: how many workflows are started in a second, at least.
    """
    # After all of them are asleep, and the evaluator was replaced.
    first_ms = epoch_ms() + int(count / per_second * 2_000) + 3_000
    with deployment.evaluator(_STARTING_BATCH_MS) as service:
        deployment.start(service, count, "due", lambda number: first_ms + number * 7919 % _SPREAD_MS)
    store = deployment.store
    timers = store.timers_due(first_ms + _SPREAD_MS, limit=2 * count)
    if len(timers) != count or epoch_ms() >= first_ms:
        raise RuntimeError(
            f"{len(timers)} of {count} workflows are asleep, {first_ms - epoch_ms()} ms before the first"
        )
    noted: dict[str, None] = {}
    store.noted = noted
    with deployment.evaluator() as service:
        cpu_s = time.process_time()
        until(service, lambda: len(noted) >= count)
        cpu_s, taken_s = time.process_time() - cpu_s, (epoch_ms() - first_ms) / 1_000
    store.noted = None
    return DueFigures(taken_s, cpu_s, list(noted) == [timer.workflow_id for timer in timers])


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure both, and write a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.timers",
        description="idle evaluators with sleeping workflows, and timers due at once",
    )
    parser.add_argument("--sleepers", type=int, default=100_000, metavar="N", help="workflows that sleep")
    parser.add_argument("--due", type=int, default=10_000, metavar="N", help="timers that are due within a second")
    parser.add_argument("--idle-s", type=float, default=10.0, metavar="S", help="how long each idle measurement takes")
    options = parser.parse_args(arguments)
    tune_collector()
    with tempfile.TemporaryDirectory() as folder:
        deployment = Deployment(Path(folder, "sleeping"))
        until_ms, began_s = epoch_ms() + _LONG_MS, time.monotonic()
        with deployment.evaluator(_STARTING_BATCH_MS) as service:
            deployment.start(service, options.sleepers, "sleeper", lambda number: until_ms + number)
        per_second = options.sleepers / (time.monotonic() - began_s)
        print(
            f"{options.sleepers:,d} workflows sleep; {per_second:,.0f} were started in a second", file=out, flush=True
        )
        idle = measure_idle(deployment, Path(folder, "empty"), options.idle_s)
        print(
            f"idle: {idle.subject_s / options.idle_s * 1e3:.2f} ms CPU a second with them, "
            f"{idle.floor_s / options.idle_s * 1e3:.2f} ms without any",
            file=out,
            flush=True,
        )
        due = measure_due(deployment, options.due, per_second)
        order = "in order" if due.in_order else "NOT in order"
        print(
            f"{options.due:,d} timers due within a second: fired {order} after {due.seconds:.2f} s, "
            f"{due.cpu_s / options.due * 1e6:.0f} us CPU each",
            file=out,
        )
        deployment.close()
    print(json.dumps(figures(idle, options.idle_s, due)), file=out)


def figures(idle: PairedSeconds, idle_s: float, due: DueFigures) -> dict[str, float | bool]:
    """Return the figures of the last line."""
    return {
        "idle_ratio": round(idle.ratio, 2),
        "idle_cpu_ms": round(idle.subject_s / idle_s * 1e3, 2),
        "due_s": round(due.seconds, 2),
        "due_cpu_s": round(due.cpu_s, 2),
        "in_order": due.in_order,
    }


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
