"""The page about telemetry: its own sink counts, and its tables name every event and figure."""

import re
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import EVENT_TYPES, Telemetry
from tests.unit.engine.running import compiled

_PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
_EXAMPLES = re.findall(r"^```python\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)

PROGRAM = compiled("facet V(v: Double) facet F(n: Long) workflow W() andThen { f = F(n = 1) v = V(v = 1 / 0) }")


def _first_cells(heading: str) -> list[str]:
    table = _PAGE.partition(heading)[2]
    rows = re.findall(r"^\| (`.*?) \|", table.partition("\n\n")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_an_own_sink_counts_what_it_says() -> None:
    names: dict[str, object] = {"__name__": "example"}
    exec(_EXAMPLES[-1], names)
    telemetry = names["telemetry"]
    assert isinstance(telemetry, Telemetry)

    Evaluator(MemoryStore(), telemetry).execute("n.W", program_ast=PROGRAM)

    assert getattr(telemetry.sink, "counts", None) == {"n.V": 1, None: 1, "n.W": 1}


def test_the_table_of_events_is_complete() -> None:
    assert _first_cells("| type | when | details |") == list(EVENT_TYPES)


def test_the_table_of_figures_is_complete() -> None:
    reader = InMemoryMetricReader()
    sink = OpenTelemetrySink(TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False))
    program = compiled("event facet E() workflow W() andThen { e = E() }")
    telemetry = Telemetry(sink=sink)
    telemetry.log_external_events({"dropped": 1}, {"EventExpired": 1})
    telemetry.log_timers_fired({"sleep": [3]})
    telemetry.log_schedules_fired({"started": 1})
    evaluator = Evaluator(MemoryStore(), telemetry)
    evaluator.execute("n.W", program_ast=PROGRAM)
    evaluator.execute("n.W", program_ast=program)

    found = reader.get_metrics_data()
    assert found is not None
    names = {
        metric.name for of_resource in found.resource_metrics for s in of_resource.scope_metrics for metric in s.metrics
    }
    assert set(_first_cells("| metric | unit | attributes |")) == names
