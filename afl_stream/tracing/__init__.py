"""Spans of what clients, evaluators and agents do with records, in one W3C trace for each run."""

from typing import TYPE_CHECKING, Final

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.tracing.current import TraceIds, current_context
    from afl_stream.tracing.opening import open_tracer
    from afl_stream.tracing.tracer import SpanExporter, SpansNotSent, Tracer

__all__ = ["SpanExporter", "SpansNotSent", "TraceIds", "Tracer", "current_context", "open_tracer"]

PUBLIC_MODULES = ("agents", "clients", "evaluators", "opening", "tracer")

_HOMES: Final = {
    "afl_stream.tracing.current": "TraceIds current_context",
    "afl_stream.tracing.opening": "open_tracer",
    "afl_stream.tracing.tracer": "SpanExporter SpansNotSent Tracer",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
