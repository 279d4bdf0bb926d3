"""The benchmark of telemetry compares runs that are watched with runs that are not, of the same program."""

import io
import json

from afl.telemetry.telemetry import Telemetry, TelemetryEvent, TelemetrySink
from benchmarks.telemetry import compare, main


class Counts(TelemetrySink):
    """Counts the runs that it sees."""

    runs = 0

    def emit(self, event: TelemetryEvent) -> None:
        self.runs += event.event_type == "workflow.complete"


def test_the_watched_run_is_watched_and_the_other_is_not() -> None:
    sink = Counts()

    pair = compare(20, Telemetry(sink=sink), pairs=2, least_steps=1)

    # One round that does not count, and two that do.
    assert sink.runs == 3
    assert len(pair.subject) == len(pair.floor) == 2


def test_the_last_line_is_an_object_of_the_ratios() -> None:
    out = io.StringIO()

    main(["--steps", "5", "--pairs", "1", "--least-steps", "5", "--workflows", "2"], out)

    assert set(json.loads(out.getvalue().splitlines()[-1])) == {
        "evaluator_logging",
        "evaluator_logging_states",
        "off",
        "logging_errors_only",
        "logging",
        "opentelemetry",
        "in_memory",
    }
