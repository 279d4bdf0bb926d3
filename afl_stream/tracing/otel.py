"""OpenTelemetry's own objects: its current span, and its tracer providers as a destination. Needs extra `otel`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, TraceState

from afl.core.clock import epoch_ns
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback
from afl.core.trace_context import TraceContext
from afl.core.versions import RUNTIME_VERSION
from afl_stream.tracing.spans import SCOPE, Span, SpanEvent, SpanKind, SpanNotes

_KINDS: Final = {kind: trace.SpanKind[kind.name] for kind in SpanKind}


def current_parent() -> TraceContext | None:
    """Return the context of OpenTelemetry's current span; None where there is none."""
    found = trace.get_current_span().get_span_context()
    return _our_context(found) if found.is_valid else None


def _our_context(found: SpanContext) -> TraceContext:
    state = found.trace_state.to_header() if found.trace_state else ""
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{found.trace_flags & 3:02x}", state)


def _their_context(context: TraceContext, *, is_remote: bool) -> SpanContext:
    state = TraceState.from_header([context.state]) if context.state else None
    flags = TraceFlags(int(context.flags, 16))
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote, flags, state)


class HandlerSpan(trace.Span):
    """The span of a handler that runs, as OpenTelemetry's API shows it: `trace.get_current_span()` in the handler.

    Its end is the handler's: `end` does nothing.
    """

    __slots__ = ("_attributes", "_context", "_events", "_links", "_name", "_theirs")

    def __init__(self, context: TraceContext) -> None:
        self._context = context
        self._theirs: SpanContext | None = None
        self._attributes: dict[str, Any] = {}
        self._events: list[SpanEvent] = []
        self._links: list[tuple[str, str]] = []
        self._name: str | None = None

    def activate(self) -> Callable[[], None]:
        """Make this the current span, and return the function that ends that."""
        token = otel_context.attach(trace.set_span_in_context(self))
        return lambda: otel_context.detach(token)

    def notes(self) -> SpanNotes | None:
        """Return what the handler has added; None: nothing."""
        if self._attributes or self._events or self._links or self._name is not None:
            return SpanNotes(self._attributes, self._events, self._links, self._name)
        return None

    def get_span_context(self) -> SpanContext:
        """Return the ids of the span."""
        if self._theirs is None:
            self._theirs = _their_context(self._context, is_remote=False)
        return self._theirs

    def is_recording(self) -> bool:
        """Return whether what is added is exported."""
        return self._context.is_sampled

    def set_attribute(self, key: str, value: Any) -> None:
        """Add an attribute."""
        self._attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self._attributes.update(attributes)

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        """Add an event; `timestamp` in nanoseconds since the epoch."""
        self._events.append(SpanEvent(name, timestamp or epoch_ns(), dict(attributes or {})))

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        """Add a link."""
        if context.is_valid:
            self._links.append((f"{context.trace_id:032x}", f"{context.span_id:016x}"))

    def update_name(self, name: str) -> None:
        """Rename the span."""
        self._name = name

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: ARG002 - OpenTelemetry's signature
    ) -> None:
        """Add an exception, as an event."""
        found = {
            "exception.type": exception_class(exception),
            "exception.message": exception_text(exception),
            "exception.stacktrace": exception_traceback(exception),
        }
        self.add_event("exception", {**found, **(attributes or {})}, timestamp)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Do nothing: the status is that of the handler's outcome."""

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: the handler's end is the span's."""


class ProviderSpans:
    """Hands spans to a tracer provider: a given one, or that of the process, as its setup has left it.

    The provider samples again, by the parent or the trace's id. Spans keep their ids where its tracers have an id
    generator to replace, as those of OpenTelemetry's SDK have.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._provider = provider or trace.get_tracer_provider()
        self._tracer = trace.get_tracer(SCOPE, RUNTIME_VERSION, self._provider)
        self._ids = _GivenIds(getattr(self._tracer, "id_generator", None) or RandomIdGenerator())
        if hasattr(self._tracer, "id_generator"):
            # Only for this tracer: each call of get_tracer makes a new one. A tracer that records nothing lacks it.
            self._tracer.id_generator = self._ids

    def export(self, spans: Sequence[Span]) -> None:
        """Take spans."""
        for span in spans:
            self._export(span)

    def _export(self, span: Span) -> None:
        template, notes = span.template, span.notes
        context = Context()
        if span.parent_id:
            above = TraceContext(span.trace_id, span.parent_id)
            context = trace.set_span_in_context(NonRecordingSpan(_their_context(above, is_remote=True)), context)
        attributes: dict[str, Any] = dict(template.attributes)
        attributes.update({k: v for k, v in zip(template.keys, span.values, strict=True) if v is not None})
        linked = (*span.links, *(notes.links if notes is not None else ()))
        links = [Link(_their_context(TraceContext(*link), is_remote=True)) for link in linked]
        name = template.name
        if notes is not None:
            attributes.update(notes.attributes)
            name = notes.name or name
        if span.error is not None:
            attributes["error.type"] = span.error[0]
        self._ids.ids = int(span.trace_id, 16), int(span.span_id, 16)
        try:
            made = self._tracer.start_span(
                name, context, _KINDS[template.kind], attributes, links, span.start_ns, False, False
            )
        finally:
            self._ids.ids = None
        for event in notes.events if notes is not None else ():
            made.add_event(event.name, event.attributes, event.at_ns)
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error[1]))
        made.end(span.end_ns)

    def close(self) -> None:
        """Have the provider export what it holds; its owner shuts it down."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            flush()


class _GivenIds(IdGenerator):
    """A generator that returns the ids that the exporting thread has set, and random ones to everyone else."""

    def __init__(self, drawn: IdGenerator) -> None:
        self._drawn = drawn
        self._next = threading.local()

    @property
    def ids(self) -> tuple[int, int] | None:
        return getattr(self._next, "ids", None)

    @ids.setter
    def ids(self, ids: tuple[int, int] | None) -> None:
        self._next.ids = ids

    def generate_trace_id(self) -> int:
        ids = self.ids
        return self._drawn.generate_trace_id() if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids = self.ids
        return self._drawn.generate_span_id() if ids is None else ids[1]

    def is_trace_id_random(self) -> bool:
        return False
