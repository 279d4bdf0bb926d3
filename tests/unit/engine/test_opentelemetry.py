"""OpenTelemetry shows a run as one trace, whichever process continues it, and counts steps and events."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from afl.core.clock import ManualClock
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import Telemetry
from tests.unit.engine.running import Engine

PROGRAM = """
    event facet Pay(x: Long) => (r: Long)
    facet Order(n: Long) => (r: Long) andThen {
        pay = Pay(x = $.n)
        yield Order(r = pay.r)
    }
    workflow W(n: Long) => (r: Long) andThen {
        order = Order(n = $.n)
        yield W(r = order.r)
    }
"""


class Collected:
    """Where spans and figures of a test go."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracers = tracers
        self.sink = OpenTelemetrySink(tracers, MeterProvider([self._reader], shutdown_on_exit=False))

    def telemetry(self) -> Telemetry:
        return Telemetry(clock=ManualClock(5_000), sink=self.sink)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}

    def figures(self) -> dict[str, float]:
        """Return the sum of each counter, and how many times each histogram was recorded."""
        found = self._reader.get_metrics_data()
        assert found is not None
        return {
            metric.name: sum(
                point.value if isinstance(point, NumberDataPoint) else getattr(point, "count", 0)
                for point in metric.data.data_points
            )
            for of_resource in found.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
        }


def ids_of(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def span_id(span: ReadableSpan) -> int:
    return ids_of(span).span_id


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def test_a_run_is_one_trace_of_nested_calls() -> None:
    collected = Collected()
    engine = Engine(PROGRAM, telemetry=collected.telemetry())
    engine.start({"n": 1})
    engine.answer("order.pay", {"r": 7})

    spans = collected.spans()
    assert set(spans) == {"start n.W", "workflow n.W", "n.Order", "n.Pay", "publish n.Pay"}
    assert len({ids_of(span).trace_id for span in spans.values()}) == 1
    run, order, pay = spans["workflow n.W"], spans["n.Order"], spans["n.Pay"]
    assert parent_id(run) is None
    assert parent_id(spans["start n.W"]) == parent_id(order) == span_id(run)
    assert parent_id(pay) == span_id(order)
    assert parent_id(spans["publish n.Pay"]) == span_id(pay)
    assert spans["publish n.Pay"].kind == SpanKind.PRODUCER
    assert run.attributes is not None
    assert (run.attributes["afl.workflow.id"], run.attributes["afl.workflow.status"]) == ("run", "COMPLETED")


def test_spans_have_the_times_of_the_engines_clock() -> None:
    collected = Collected()
    engine = Engine(PROGRAM, telemetry=collected.telemetry())
    engine.start({"n": 1})
    engine.answer("order.pay", {"r": 7})

    # The engine's clock of these tests stands at 1 s, the telemetry's at 5 s.
    for name in ("workflow n.W", "n.Order", "n.Pay"):
        span = collected.spans()[name]
        assert (span.start_time, span.end_time) == (1_000_000_000, 5_000_000_000)


def test_another_process_continues_with_the_trace_of_the_first() -> None:
    first, second = Collected(), Collected()
    engine = Engine(PROGRAM, telemetry=first.telemetry())
    engine.start({"n": 1})
    other = Engine(PROGRAM, store=engine.store, telemetry=second.telemetry())
    other.answer("order.pay", {"r": 7})

    before, after = first.spans(), second.spans()
    assert (set(before), set(after)) == ({"start n.W", "publish n.Pay"}, {"workflow n.W", "n.Order", "n.Pay"})
    assert parent_id(before["publish n.Pay"]) == span_id(after["n.Pay"])
    assert ids_of(before["publish n.Pay"]).trace_id == ids_of(after["n.Pay"]).trace_id


def test_runs_have_traces_of_their_own() -> None:
    collected = Collected()
    for workflow_id in ("one", "two"):
        Engine(PROGRAM, telemetry=collected.telemetry(), workflow_id=workflow_id).start({"n": 1})

    exported = collected._exporter.get_finished_spans()
    assert len({ids_of(span).trace_id for span in exported}) == 2


def test_a_failed_step_and_its_run_have_the_status_of_an_error() -> None:
    collected = Collected()
    engine = Engine(PROGRAM, telemetry=collected.telemetry())
    engine.start({"n": 1})
    engine.fail("order.pay", "no funds", "NoFunds")

    for name in ("workflow n.W", "n.Order", "n.Pay"):
        span = collected.spans()[name]
        assert span.attributes is not None
        assert span.status.status_code == StatusCode.ERROR
        assert "no funds" in str(span.status.description)
        assert span.attributes["error.type"] == "NoFunds"


def test_figures_count_runs_steps_iterations_events_and_first_causes() -> None:
    collected = Collected()
    engine = Engine(PROGRAM, telemetry=collected.telemetry())
    engine.start({"n": 1})
    engine.fail("order.pay", "no funds", "NoFunds")

    figures = collected.figures()
    assert (figures["afl.workflows"], figures["afl.events"], figures["afl.errors"]) == (1, 1, 1)
    assert figures["afl.iterations"] == figures["afl.iteration.duration"] == engine.row().iterations
    assert figures["afl.steps"] == len(engine.steps())
    assert (figures["afl.workflow.duration"], figures["afl.step.duration"]) == (1, 2)


def test_the_trace_context_of_an_event_names_its_publication() -> None:
    collected = Collected()
    engine = Engine(PROGRAM, telemetry=collected.telemetry())
    engine.start({"n": 1})

    published = ids_of(collected.spans()["publish n.Pay"])
    assert collected.sink.traceparent("run", f"{engine.step('order.pay').id}#1") == (
        f"00-{published.trace_id:032x}-{published.span_id:016x}-01"
    )


def test_a_run_is_linked_to_the_span_that_started_it() -> None:
    collected = Collected()
    with collected.tracers.get_tracer("test").start_as_current_span("order received") as open_span:
        Engine(PROGRAM, telemetry=collected.telemetry()).start({"n": 1})

    started = collected.spans()["start n.W"]
    assert [link.context.span_id for link in started.links] == [open_span.get_span_context().span_id]
    assert ids_of(started).trace_id != open_span.get_span_context().trace_id


def test_a_trace_that_is_not_sampled_is_not_sampled_anywhere() -> None:
    collected = Collected(ParentBased(ALWAYS_OFF))
    Engine(PROGRAM, telemetry=collected.telemetry()).start({"n": 1})

    assert collected.spans() == {}
    assert collected.sink.traceparent("run", "e#1").endswith("-00")


def test_a_ratio_takes_or_leaves_whole_runs() -> None:
    collected = Collected(ParentBased(TraceIdRatioBased(0.5)))
    for number in range(40):
        engine = Engine(PROGRAM, telemetry=collected.telemetry(), workflow_id=f"run-{number}")
        engine.start({"n": 1})
        engine.answer("order.pay", {"r": 7})

    spans = collected._exporter.get_finished_spans()
    runs = {ids_of(span).trace_id for span in spans}
    assert 5 < len(runs) < 35
    assert len(spans) == 5 * len(runs)


def test_without_an_sdk_nothing_is_recorded_and_nothing_breaks() -> None:
    telemetry = Telemetry(sink=OpenTelemetrySink(trace.NoOpTracerProvider()))
    engine = Engine(PROGRAM, telemetry=telemetry)
    engine.start({"n": 1})

    assert engine.answer("order.pay", {"r": 7}).outputs == {"r": 7}
    assert telemetry.lost == 0


class Collector(BaseHTTPRequestHandler):
    """The end of the wire: takes what is sent by OTLP over HTTP."""

    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    received: list[tuple[str, bytes]] = []
    handler = type("OneCollector", (Collector,), {"received": received})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collector_gets_spans_and_figures_over_the_wire(collector: tuple[str, list[tuple[str, bytes]]]) -> None:
    endpoint, received = collector
    telemetry = Telemetry(sink=OpenTelemetrySink.exporting("shop", endpoint))
    engine = Engine(PROGRAM, telemetry=telemetry)
    engine.start({"n": 1})
    engine.answer("order.pay", {"r": 7})
    telemetry.close()

    bodies = dict(received)
    spans = ExportTraceServiceRequest.FromString(bodies["/v1/traces"])
    figures = ExportMetricsServiceRequest.FromString(bodies["/v1/metrics"])
    (of_resource,) = spans.resource_spans
    assert ("service.name", "shop") in [(pair.key, pair.value.string_value) for pair in of_resource.resource.attributes]
    assert {span.name for span in of_resource.scope_spans[0].spans} >= {"workflow n.W", "publish n.Pay"}
    names = {metric.name for metric in figures.resource_metrics[0].scope_metrics[0].metrics}
    assert {"afl.workflows", "afl.iteration.duration"} <= names
