"""Spans in memory, and the tracing of workflows that makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from afl_stream.pubsub.tracing import OpenTelemetryRecorder, Tracing


class Traces:
    """Spans that have ended."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, **settings: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(OpenTelemetryRecorder(self.provider), **settings)

    @property
    def ended(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (found,) = [span for span in self.ended if span.name == name]
        return found

    def attributes(self, name: str) -> list[dict[str, Any]]:
        """Return the attributes of each span of a name."""
        return [dict(span.attributes or {}) for span in self.ended if span.name == name]

    def tree(self) -> Counter[str]:
        """Return how many spans there are by their paths: `request/node/...`."""
        spans = {span.context.span_id: span for span in self.ended}

        def path(span: ReadableSpan) -> str:
            above = spans.get(span.parent.span_id) if span.parent else None
            return span.name if above is None else f"{path(above)}/{span.name}"

        return Counter(path(span) for span in self.ended)
