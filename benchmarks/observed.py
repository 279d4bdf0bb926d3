"""What it costs to see the loop: the CPU of evaluator and agent with each way of looking on, against all off.

`python -m benchmarks.observed [VARIANT...]`. Each pair is a run with everything off and one with the variant on, one
after the other, on a broker and topics of their own (benchmarks.loop). With `--at-once` both run at the same time, so
that a neighbour of this machine slows both alike; then they are neighbours of each other. The last line is one JSON
object: for each variant the medians of the pairs' own ratios, which a busy neighbour moves least, and the ratio that
is allowed. `steps` has none: nobody needs to switch it on. It has what a milestone takes in place of that.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Final, TextIO
from urllib.request import urlopen

from benchmarks.loop import LoopFigures, broker, run_ours

#: Between two scrapes of a page: far more often than a server of metrics does it.
_SCRAPE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one run, as environment variables, and what happens beside it."""

    both: Mapping[str, str] = field(default_factory=dict)
    agent: Mapping[str, str] = field(default_factory=dict)
    #: Words of an `afl-stream` command that runs on the same topics meanwhile.
    command: tuple[str, ...] = ()
    beside: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way of looking: its settings, and how much of the CPU it may take, if that is bounded."""

    settings: Callable[[], Settings]
    allowed: float | None = None
    #: Records that the evaluator writes for it, for each round trip.
    records: int = 0


def _metrics() -> Settings:
    evaluator, agent = _free_port(), _free_port()
    return Settings(
        both={"AFL_METRICS_PORT": str(evaluator)},
        agent={"AFL_METRICS_PORT": str(agent)},
        beside=lambda: _scraping((evaluator, agent)),
    )


def _audit() -> Settings:
    return Settings(both={"AFL_PREFIX": f"observed.{time.time_ns()}."}, command=("audit", "--from", "beginning"))


def _lifecycle() -> Settings:
    # The milestones of runs are always written: here somebody reads them.
    return Settings(both={"AFL_PREFIX": f"observed.{time.time_ns()}."}, command=("watch", "--json"))


def _steps() -> Settings:
    return Settings(both={"AFL_LIFECYCLE_STEPS": "on"})


def _tracing() -> Settings:
    port = _free_port()
    settings = {"AFL_TRACING_EXPORTER": "otlp", "AFL_TRACING_ENDPOINT": f"http://127.0.0.1:{port}"}
    return Settings(both=settings, beside=lambda: _collecting(port))


#: A new way of looking is a new row.
VARIANTS: Final[Mapping[str, Variant]] = {
    "audit": Variant(settings=_audit, allowed=1.05),
    "lifecycle": Variant(settings=_lifecycle, allowed=1.05),
    "metrics": Variant(settings=_metrics, allowed=1.05),
    # A step has started, and has completed.
    "steps": Variant(settings=_steps, records=2),
    # Every trace is sampled.
    "tracing": Variant(settings=_tracing, allowed=1.15),
}


class _Collector(BaseHTTPRequestHandler):
    """Takes spans, and keeps none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def _collecting(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), _Collector) as server:
        thread = threading.Thread(target=server.serve_forever, name="collector")
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def measure(bootstrap: str, settings: Settings, workflows: int, steps: int) -> LoopFigures:
    """Measure the loop once under these settings."""
    environment = {**os.environ, **settings.both, "AFL_KAFKA_BOOTSTRAP": bootstrap}
    with settings.beside(), _running(settings.command, environment):
        return run_ours(bootstrap, workflows, steps, settings.both, settings.agent)


@contextmanager
def _running(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Run a command of `afl-stream`, again and again until its topics are there, up to the end."""
    if not words:
        yield
        return
    stop, processes = threading.Event(), list[subprocess.Popen[bytes]]()

    def keep() -> None:
        while not stop.is_set():
            command = [sys.executable, "-m", "afl_stream", *words]
            nothing = subprocess.DEVNULL
            processes.append(subprocess.Popen(command, env=dict(environment), stdout=nothing, stderr=nothing))
            while not stop.wait(0.1) and processes[-1].poll() is None:
                pass
        processes[-1].terminate()
        processes[-1].wait()

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def ratios(pairs: Sequence[tuple[LoopFigures, LoopFigures]], variant: Variant) -> dict[str, float]:
    """Return the medians of the pairs' ratios, on over off."""
    found = {
        "evaluator_cpu": round(statistics.median(on.evaluator_cpu_us / off.evaluator_cpu_us for off, on in pairs), 3),
        "agent_cpu": round(statistics.median(on.agent_cpu_us / off.agent_cpu_us for off, on in pairs), 3),
        "both_cpu": round(statistics.median(_cpu_us(on) / _cpu_us(off) for off, on in pairs), 3),
    }
    if variant.allowed is not None:
        found["allowed"] = variant.allowed
    if variant.records:
        more_us = statistics.median(on.evaluator_cpu_us - off.evaluator_cpu_us for off, on in pairs)
        found["record_us"] = round(more_us / variant.records, 1)
    return found


def measure_pair(
    bootstrap: str, variant: Variant, size: tuple[int, int], *, on_first: bool, at_once: bool
) -> tuple[LoopFigures, LoopFigures]:
    """Measure the loop without and with a way of looking, and return both."""
    order = [Settings(), variant.settings()]
    if on_first:
        order.reverse()
    if at_once:
        with ThreadPoolExecutor(len(order)) as threads:
            found = list(threads.map(lambda settings: measure(bootstrap, settings, *size), order))
    else:
        found = [measure(bootstrap, settings, *size) for settings in order]
    if on_first:
        found.reverse()
    off, on = found
    return off, on


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure the pairs of each variant, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observed", description="what seeing the loop costs")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of {', '.join(VARIANTS)} (default: all)")
    parser.add_argument("--pairs", type=int, default=5, metavar="K", help="pairs of runs (default: 5)")
    parser.add_argument("--workflows", type=int, default=1_024, metavar="W", help="at once (default: 1024)")
    parser.add_argument("--steps", type=int, default=30, metavar="S", help="events a workflow (default: 30)")
    parser.add_argument("--at-once", action="store_true", help="run both of a pair at the same time")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    given = parser.parse_args(arguments)
    for name in given.variants:
        if name not in VARIANTS:
            parser.error(f"no variant {name}; one of {', '.join(VARIANTS)}")
    found: dict[str, dict[str, float]] = {}
    with broker(given.bootstrap) as bootstrap:
        for name in given.variants or VARIANTS:
            variant, pairs = VARIANTS[name], list[tuple[LoopFigures, LoopFigures]]()
            for number in range(given.pairs):
                size = (given.workflows, given.steps)
                # In turns, so that neither always has the colder disk.
                off, on = measure_pair(bootstrap, variant, size, on_first=bool(number % 2), at_once=given.at_once)
                pairs.append((off, on))
                out.write(
                    f"{name}: CPU us a round trip {on.evaluator_cpu_us:.1f} evaluator, {on.agent_cpu_us:.1f} agent; "
                    f"off {off.evaluator_cpu_us:.1f}, {off.agent_cpu_us:.1f}\n"
                )
                out.flush()
            found[name] = ratios(pairs, variant)
    out.write(json.dumps(found) + "\n")


def _cpu_us(figures: LoopFigures) -> float:
    return figures.evaluator_cpu_us + figures.agent_cpu_us


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _scraping(ports: Sequence[int]) -> Iterator[None]:
    """Read the metrics' pages again and again while this lasts, as a server of metrics would."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(_SCRAPE_S):
            for port in ports:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                        page.read()
                except (OSError, HTTPException):
                    # It has not started yet, or has ended.
                    continue

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
