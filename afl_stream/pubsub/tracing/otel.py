"""Spans to OpenTelemetry. Needs extra `otel`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from afl.core.versions import RUNTIME_VERSION
from afl_stream.pubsub.model.spans import SpanAttributes
from afl_stream.pubsub.tracing.recorder import RecordedSpan

#: The instrumentation's name in spans.
SCOPE: Final = "afl_stream.pubsub"
_W3C: Final = TraceContextTextMapPropagator()


class OpenTelemetryRecorder:
    """Records spans with a tracer provider: the given one, or that of the process, as its setup has left it."""

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(SCOPE, RUNTIME_VERSION, tracer_provider)

    def current_traceparent(self) -> str:
        """Return the current span as a W3C `traceparent`; empty where there is none."""
        return _traceparent(trace.get_current_span())

    def start(
        self, name: str, attributes: SpanAttributes, *, parent: RecordedSpan | None = None, traceparent: str = ""
    ) -> RecordedSpan:
        """Start a span below `parent`, else below the remote span of `traceparent`, else below the current one."""
        context: Context | None = None
        if isinstance(parent, _OpenTelemetrySpan):
            context = trace.set_span_in_context(parent.span)
        elif traceparent:
            # One that is not valid leaves the context as it is.
            context = _W3C.extract({"traceparent": traceparent})
        return _OpenTelemetrySpan(
            self._tracer.start_span(
                name, context, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
            )
        )


class _OpenTelemetrySpan:
    """A span of OpenTelemetry."""

    def __init__(self, span: trace.Span) -> None:
        self.span = span

    @property
    def is_recording(self) -> bool:
        return self.span.is_recording()

    @property
    def traceparent(self) -> str:
        return _traceparent(self.span)

    def set(self, attributes: SpanAttributes) -> None:
        self.span.set_attributes(dict(attributes))

    def fail(self, error_type: str, text: str) -> None:
        self.span.set_attribute("error.type", error_type)
        self.span.set_status(Status(StatusCode.ERROR, text))

    def end(self) -> None:
        self.span.end()

    def current(self) -> AbstractContextManager[object]:
        return trace.use_span(self.span, record_exception=False, set_status_on_exception=False)


def _traceparent(span: trace.Span) -> str:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span))
    return carrier.get("traceparent", "")
