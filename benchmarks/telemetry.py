"""The cost of telemetry: `python -m benchmarks.telemetry [--steps N] [--pairs K]`.

A chain of N steps runs on the memory store by an evaluator that was given a telemetry, and by one that was given none,
alternately in one process, in CPU time: with one that is off, with JSON lines to a file that keeps nothing, with only
what has failed in them, with OpenTelemetry to an exporter that keeps nothing, and with all events kept in memory.

An evaluator of a deployment is measured, too: its loop alone (`benchmarks/offline_loop.py`), with lines of JSON to a
file as the settings write them, about steps and about states, against the same without telemetry.

The last line is one JSON object: `evaluator_logging` is to be 1.5 at most, `off` is the ratio that has to be 1, the
others are what one pays for looking.
"""

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import fmean
from typing import Final, TextIO

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from afl.compiled.program import CompiledProgram
from afl.engine.limits import MAX_ITERATIONS
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.logging_sink import LoggingSink
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import Telemetry
from afl_stream.evaluator.service import tune_collector
from benchmarks.evaluator import program
from benchmarks.measure import PairedSeconds, cpu_seconds, paired
from benchmarks.offline_loop import answers_cost

#: Runs are repeated until they made this many steps, so that the clock's grain does not show.
_LEAST_STEPS: Final = 10_000
_WORKFLOW: Final = "benchmark.Run"
#: Steps of the chains that an evaluator of a deployment runs.
_CHAIN: Final = 10


class _KeepsNothing(SpanExporter):
    """Takes spans as an exporter does, and sends them nowhere."""

    def export(self, _spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@contextmanager
def _logging(level: int) -> Iterator[Telemetry]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        logger = logging.Logger("benchmark", level)
        logger.addHandler(logging.StreamHandler(nowhere))
        yield Telemetry(sink=LoggingSink(logger))


@contextmanager
def _opentelemetry() -> Iterator[Telemetry]:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(_KeepsNothing()))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    yield Telemetry(sink=OpenTelemetrySink(tracers, meters))
    tracers.shutdown()
    meters.shutdown()


def compare(n: int, watching: Telemetry, pairs: int, least_steps: int = _LEAST_STEPS) -> PairedSeconds:
    """Measure a run with telemetry and one without."""
    compiled, repeats = CompiledProgram(program(n, "chain")), max(1, least_steps // n)

    def planned(telemetry: Telemetry | None) -> Evaluator:
        evaluator = Evaluator(MemoryStore(), telemetry, max_iterations=0)
        evaluator.execute(_WORKFLOW, program_ast=compiled)
        evaluator.max_iterations = MAX_ITERATIONS
        return evaluator

    def run(evaluator: Evaluator) -> None:
        result = evaluator.execute(_WORKFLOW, program_ast=compiled)
        if not result.success:
            raise RuntimeError(f"the run failed: {result.error}")
        watching.clear()

    def measured(telemetry: Telemetry | None) -> Callable[[], float]:
        return lambda: fmean(cpu_seconds(lambda: planned(telemetry), run) for _ in range(repeats))

    return paired(measured(watching), measured(None), pairs)


def compare_evaluator(detail: str, pairs: int, workflows: int, steps: int) -> PairedSeconds:
    """Measure an evaluator of a deployment with lines of JSON to a file, and one without telemetry."""

    def logged_s() -> float:
        with tempfile.TemporaryDirectory() as folder:
            settings = {
                "AFL_TELEMETRY_SINK": "logging",
                "AFL_TELEMETRY_DETAIL": detail,
                "AFL_TELEMETRY_FILE": f"{folder}/telemetry.jsonl",
            }
            return answers_cost(workflows, steps, settings).us_per_answer / 1e6

    return paired(logged_s, lambda: answers_cost(workflows, steps, {}).us_per_answer / 1e6, pairs)


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure each kind of telemetry, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description="what telemetry costs a run")
    parser.add_argument("--steps", type=int, default=1_000, metavar="N", help="steps of a run (default: 1000)")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs for each figure (default: 9)")
    parser.add_argument(
        "--least-steps", type=int, default=_LEAST_STEPS, metavar="N", help=f"of all runs of a figure ({_LEAST_STEPS})"
    )
    parser.add_argument(
        "--workflows", type=int, default=100, metavar="W", help="chains of the evaluator (default: 100)"
    )
    options = parser.parse_args(arguments)
    tune_collector()
    ratios: dict[str, float] = {}
    for detail, name in (("steps", "evaluator_logging"), ("states", "evaluator_logging_states")):
        found = compare_evaluator(detail, max(1, options.pairs // 3), options.workflows, _CHAIN)
        ratios[name] = found.ratio
        cost_us = (found.subject_s - found.floor_s) * 1e6
        out.write(f"{name:24s} ratio {found.ratio:6.2f}, {cost_us:7.2f} us more an answer\n")
        out.flush()
    with ExitStack() as stack:
        ways = {
            "off": Telemetry(enabled=False),
            "logging, errors only": stack.enter_context(_logging(logging.WARNING)),
            "logging": stack.enter_context(_logging(logging.INFO)),
            "opentelemetry": stack.enter_context(_opentelemetry()),
            "in memory": Telemetry(),
        }
        for name, watching in ways.items():
            pair = compare(options.steps, watching, options.pairs, options.least_steps)
            ratios[name] = pair.ratio
            cost_us = (pair.subject_s - pair.floor_s) / options.steps * 1e6
            out.write(f"{name:22s} ratio {pair.ratio:6.2f}, {cost_us:7.2f} us more a step\n")
            out.flush()
    out.write(json.dumps({name.replace(", ", "_").replace(" ", "_"): round(r, 3) for name, r in ratios.items()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
