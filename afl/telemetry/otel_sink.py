"""Telemetry to OpenTelemetry: a trace for each run, spans for its steps and events, and metrics. Needs extra `otel`.

Ids are derived from the engine's own, so no span must stay open while a run waits, and every evaluator that takes part
in a run, also after a crash, continues one trace: a run's trace id is a digest of its workflow's id, a span's id one of
its step's or event's. A span is made when its step or event has ended, with the times of begin and end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from afl.core.trace_context import context_in, derived_span_id, derived_trace_id
from afl.core.versions import RUNTIME_VERSION
from afl.engine.types import ObjectType
from afl.telemetry.telemetry import TelemetryEvent, TelemetrySink

#: The instrumentation's name in spans and metrics.
SCOPE: Final = "afl.runtime"

#: The time that `close` waits for unsent data. A service that ends has half a minute for everything.
CLOSE_TIMEOUT_MS: Final = 5_000

#: Steps that get a span: calls. Blocks only group them, and a call inside a block belongs to the block's owner.
_SPANNED: Final = frozenset({ObjectType.VARIABLE_ASSIGNMENT, ObjectType.FACET})
_OUTCOMES: Final[Mapping[str, str]] = {"step.complete": "complete", "step.error": "error"}
_ENDS_OF_RUNS: Final = frozenset({"workflow.complete", "workflow.error"})
#: What a deployment's evaluator tells of each commit: figures only.
_COUNTED: Final = frozenset({"external.events", "timers.fired", "schedules.fired"})
_EVENT_TYPES: Final = frozenset(
    {"workflow.start", *_ENDS_OF_RUNS, "iteration.end", *_OUTCOMES, "event.published", *_COUNTED}
)


class OpenTelemetrySink(TelemetrySink):
    """A sink that makes OpenTelemetry spans and metrics.

    Spans: `workflow <name>` for a run, under it `<facet>` for each call that has ended (nested as the program nests
    them), `publish <facet>` for each event, and `start <name>`, linked to the span that started the run.

    Metrics: the counters `afl.workflows`, `afl.steps`, `afl.iterations`, `afl.events`, `afl.errors`,
    `afl.external_events`, `afl.external_events.dropped` and `afl.schedule.firings`, and the histograms
    `afl.workflow.duration`, `afl.step.duration`, `afl.iteration.duration` and `afl.timer.lateness` in seconds.
    """

    @property
    def event_types(self) -> frozenset[str]:
        """The event types behind spans and metrics: none about a single step's states and dependencies."""
        return _EVENT_TYPES

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        timeout_ms: int = CLOSE_TIMEOUT_MS,
    ) -> None:
        """Use these providers, or the process's own, as its setup (or `opentelemetry-instrument`) left them.

        `close` makes them send their data, for at most `timeout_ms`; it does not shut them down.
        """
        providers = (
            tracer_provider or trace.get_tracer_provider(),
            meter_provider or metrics.get_meter_provider(),
        )
        #: The functions to call at the end. Providers of the API alone hold no data.
        self._ends: list[Callable[[], object]] = [
            provider.force_flush for provider in providers if hasattr(provider, "force_flush")
        ]
        self._timeout_ms = timeout_ms
        self._tracer = trace.get_tracer(SCOPE, RUNTIME_VERSION, tracer_provider)
        self._ids = _DerivedIds(getattr(self._tracer, "id_generator", None) or RandomIdGenerator())
        if hasattr(self._tracer, "id_generator"):
            # Only for this tracer: each call of get_tracer makes a new one. A tracer that records nothing lacks it.
            self._tracer.id_generator = self._ids
        meter = metrics.get_meter(SCOPE, RUNTIME_VERSION, meter_provider)
        self._workflows = meter.create_counter("afl.workflows", "{workflow}", "Runs that have ended")
        self._steps = meter.create_counter("afl.steps", "{step}", "Steps that have ended")
        self._iterations = meter.create_counter("afl.iterations", "{iteration}", "Iterations")
        self._events = meter.create_counter("afl.events", "{event}", "Events handed to agents")
        self._errors = meter.create_counter("afl.errors", "{error}", "Steps that failed by themselves")
        self._external = meter.create_counter("afl.external_events", "{event}", "What happened to external events")
        self._dropped = meter.create_counter("afl.external_events.dropped", "{event}", "Those that are not kept")
        self._firings = meter.create_counter("afl.schedule.firings", "{firing}", "Firings of schedules")
        self._run_time = meter.create_histogram("afl.workflow.duration", "s", "From a run's start to its end")
        self._step_time = meter.create_histogram("afl.step.duration", "s", "From a call's creation to its end")
        self._iteration_time = meter.create_histogram(
            "afl.iteration.duration",
            "s",
            "Evaluating an iteration, without its commit",
            explicit_bucket_boundaries_advisory=[1e-5, 1e-4, 1e-3, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
        )
        self._lateness = meter.create_histogram(
            "afl.timer.lateness",
            "s",
            "From when a timer was due to when it fired",
            explicit_bucket_boundaries_advisory=[0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3_600],
        )

    @classmethod
    def exporting(
        cls, service_name: str, endpoint: str | None = None, *, timeout_ms: int = CLOSE_TIMEOUT_MS
    ) -> OpenTelemetrySink:
        """Return a sink that sends to a collector by OTLP over HTTP: the process's own providers if it has set some up.

        `endpoint` is the collector's address, like `http://localhost:4318`; without one the OTEL_ variables decide, as
        they do for everything else that OpenTelemetry's SDK reads from there.
        """
        if isinstance(trace.get_tracer_provider(), TracerProvider):
            return cls(timeout_ms=timeout_ms)
        attributes = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": service_name}
        resource = Resource.create(attributes)
        base = None if endpoint is None else endpoint.rstrip("/")
        spans = OTLPSpanExporter(endpoint=None if base is None else f"{base}/v1/traces")
        figures = OTLPMetricExporter(endpoint=None if base is None else f"{base}/v1/metrics")
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(spans))
        meters = MeterProvider([PeriodicExportingMetricReader(figures)], resource, shutdown_on_exit=False)
        sink = cls(tracers, meters, timeout_ms=timeout_ms)
        sink._ends = [tracers.shutdown, meters.shutdown]
        return sink

    def traceparent(self, workflow_id: str, event_id: str) -> str:
        """Return the W3C trace context for an event's record: its handler continues the run's trace."""
        flags = self._flags(_trace_id(workflow_id))
        return f"00-{_trace_id(workflow_id):032x}-{_span_id(event_id):016x}-{flags:02x}"

    def close(self) -> None:
        """Send unsent data for at most the sink's time-out: an unavailable collector does not delay the end."""
        sending = [threading.Thread(target=end, daemon=True) for end in self._ends]
        until_s = time.monotonic() + self._timeout_ms / 1_000
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join(max(0.0, until_s - time.monotonic()))

    def emit(self, event: TelemetryEvent) -> None:
        """Make the spans and metrics of one event."""
        if event.event_type in _OUTCOMES:
            self._step_ended(event)
        elif event.event_type == "iteration.end":
            self._iterations.add(1)
            took_ms = event.details.get("durationMs")
            if isinstance(took_ms, float):
                self._iteration_time.record(took_ms / 1000)
        elif event.event_type == "event.published":
            self._published(event)
        elif event.event_type in _ENDS_OF_RUNS:
            self._run_ended(event)
        elif event.event_type == "workflow.start":
            self._run_started(event)
        elif event.event_type in _COUNTED:
            self._counted(event.details)

    def _counted(self, details: Mapping[str, object]) -> None:
        for name, counter, attribute in (
            ("happened", self._external, "afl.external.happened"),
            ("dropped", self._dropped, "error.type"),
            ("outcomes", self._firings, "afl.firing.outcome"),
        ):
            for kind, count in _counts(details, name).items():
                counter.add(count, {attribute: kind})
        for kind, late_ms in _counts(details, "lateMs").items():
            for found in late_ms:
                self._lateness.record(found / 1_000, {"afl.timer.kind": kind})

    def _run_started(self, event: TelemetryEvent) -> None:
        if "resumed" in event.details or event.workflow_id is None:
            return
        name = str(event.details["workflowName"])
        starter = _starter(event.details.get("traceparent"))
        self._span(
            f"start {name}",
            event,
            own=f"{event.details['rootId']}/start",
            parent=str(event.details["rootId"]),
            began_ms=event.timestamp,
            kind=SpanKind.CONSUMER,
            attributes={"afl.workflow.id": event.workflow_id, "afl.workflow.name": name},
            links=[Link(starter)] if starter is not None else (),
        )

    def _run_ended(self, event: TelemetryEvent) -> None:
        details = event.details
        if event.workflow_id is None or "rootId" not in details:
            # The call could not continue a run, which has not ended because of that.
            self._errors.add(1, {"error.type": str(details.get("errorType", ""))})
            return
        name, status = str(details["workflowName"]), str(details["status"])
        attributes = {"afl.workflow.name": name, "afl.workflow.status": status}
        began_ms = _moment(details, event)
        self._workflows.add(1, attributes)
        self._run_time.record((event.timestamp - began_ms) / 1000, attributes)
        self._span(
            f"workflow {name}",
            event,
            # The root step's: the owner of the steps directly in the run.
            own=str(details["rootId"]),
            parent=None,
            began_ms=began_ms,
            attributes={
                **attributes,
                "afl.workflow.id": event.workflow_id,
                "afl.workflow.steps": _number(details, "steps"),
                "afl.workflow.iterations": _number(details, "iterations"),
            },
        )

    def _step_ended(self, event: TelemetryEvent) -> None:
        details, outcome = event.details, _OUTCOMES[event.event_type]
        kind, facet = str(details.get("objectType", "")), str(details.get("facetName", ""))
        self._steps.add(1, {"afl.step.kind": kind, "afl.step.outcome": outcome})
        if outcome == "error" and "causedBy" not in details:
            self._errors.add(1, {"error.type": str(details["errorType"]), "afl.facet": facet})
        owner = details.get("containerId")
        if kind not in _SPANNED or owner is None or event.step_id is None:
            return
        began_ms = _moment(details, event)
        self._step_time.record((event.timestamp - began_ms) / 1000, {"afl.facet": facet, "afl.step.outcome": outcome})
        self._span(
            facet,
            event,
            own=event.step_id,
            parent=str(owner),
            began_ms=began_ms,
            attributes={
                "afl.workflow.id": event.workflow_id or "",
                "afl.step.id": event.step_id,
                "afl.step.statement": str(details.get("statementId", "")),
                "afl.facet": facet,
                "afl.attempt": _number(details, "attempt"),
            },
        )

    def _published(self, event: TelemetryEvent) -> None:
        facet, event_id = str(event.details["eventType"]), str(event.details["eventId"])
        self._events.add(1, {"afl.facet": facet})
        if event.workflow_id is None or event.step_id is None:
            return
        self._span(
            f"publish {facet}",
            event,
            own=event_id,
            parent=event.step_id,
            began_ms=event.timestamp,
            kind=SpanKind.PRODUCER,
            attributes={
                "afl.workflow.id": event.workflow_id,
                "afl.step.id": event.step_id,
                "afl.event.id": event_id,
                "afl.facet": facet,
            },
        )

    def _span(
        self,
        name: str,
        event: TelemetryEvent,
        *,
        own: str,
        parent: str | None,
        began_ms: int,
        attributes: Mapping[str, str | int],
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> None:
        """Make a span, from `began_ms` to the event's time, whose id is that of `own` under that of `parent`."""
        assert event.workflow_id is not None
        # The trace of who started the run, where that is known, or else the run's own.
        starter = context_in(event.trace_context)
        if starter is None:
            trace_id = _trace_id(event.workflow_id)
            flags, above_id = self._flags(trace_id), None if parent is None else _span_id(parent)
        else:
            trace_id, flags = int(starter.trace_id, 16), int(starter.flags, 16)
            above_id = int(starter.span_id, 16) if parent is None else _span_id(parent)
        context = Context()
        if above_id is not None:
            above = SpanContext(trace_id, above_id, True, TraceFlags(flags))
            context = trace.set_span_in_context(NonRecordingSpan(above), context)
        with self._ids.next_are(trace_id, _span_id(own)):
            span = self._tracer.start_span(
                name, context, kind, dict(attributes), links, began_ms * 1_000_000, False, False
            )
        if event.event_type in ("workflow.error", "step.error"):
            span.set_attribute("error.type", str(event.details["errorType"]))
            span.set_status(Status(StatusCode.ERROR, str(event.details["error"])))
        span.end(max(event.timestamp, began_ms) * 1_000_000)

    def _flags(self, trace_id: int) -> int:
        """Return whether the run's trace is sampled: every process that asks the same sampler gets the same result."""
        sampler = getattr(self._tracer, "sampler", None)
        if sampler is None:
            return TraceFlags.DEFAULT
        result = sampler.should_sample(Context(), trace_id, "workflow")
        return TraceFlags.SAMPLED if result.decision.is_sampled() else TraceFlags.DEFAULT


class _DerivedIds(IdGenerator):
    """A generator that returns the ids set for this thread's next span, and random ones when none were set."""

    def __init__(self, drawn: IdGenerator) -> None:
        self._drawn = drawn
        self._next = threading.local()

    @contextmanager
    def next_are(self, trace_id: int, span_id: int) -> Iterator[None]:
        self._next.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._next.ids = None

    def generate_trace_id(self) -> int:
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return self._drawn.generate_trace_id() if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return self._drawn.generate_span_id() if ids is None else ids[1]

    def is_trace_id_random(self) -> bool:
        return False


def _trace_id(workflow_id: str) -> int:
    return int(derived_trace_id(workflow_id), 16)


def _span_id(named: str) -> int:
    return int(derived_span_id(named), 16)


def _starter(traceparent: object) -> SpanContext | None:
    """Return the span where a run was started: the one that its command names, or else the one open in this thread."""
    if isinstance(traceparent, str):
        carried = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context())
        found = trace.get_current_span(carried).get_span_context()
    else:
        found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def _moment(details: Mapping[str, object], event: TelemetryEvent) -> int:
    """Return when an ended step was made, in milliseconds; the time of its end, where that is unknown."""
    return _number(details, "createdAt") or event.timestamp


def _counts(details: Mapping[str, object], name: str) -> Mapping[str, Any]:
    found = details.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(details: Mapping[str, object], name: str) -> int:
    found = details.get(name)
    return found if isinstance(found, int) else 0
