"""The spans of a deployment in memory, as OpenTelemetry's SDK keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from afl_stream.tracing.otel import ProviderSpans
from afl_stream.tracing.tracer import Tracer


class RunTraces:
    """What a tracer of a test has exported."""

    def __init__(self, *, ratio: float = 1.0) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        # No thread exports between two looks: the interval is longer than any test.
        self.tracer = Tracer(ProviderSpans(self.provider), ratio=ratio, interval_s=3_600)

    def spans(self) -> list[ReadableSpan]:
        """Return what was recorded so far."""
        self.tracer.flush()
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (found,) = self.named(name)
        return found

    def of_trace(self, trace_id: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if trace_of(span) == trace_id]

    def tree(self, trace_id: str) -> Counter[str]:
        """Return how many spans a trace has, by their paths: `run a.W > send afl.events.a.B > ...`."""
        spans = {span.context.span_id: span for span in self.of_trace(trace_id)}

        def path(span: ReadableSpan) -> str:
            above = spans.get(span.parent.span_id) if span.parent else None
            return span.name if above is None else f"{path(above)} > {span.name}"

        return Counter(path(span) for span in spans.values())


def trace_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})
