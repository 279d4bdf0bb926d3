"""Spans of workflows, nodes and commands, by the conventions of OpenInference.

The names of this package load when they are first used.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.pubsub.tracing.otel import OpenTelemetryRecorder as OpenTelemetryRecorder
    from afl_stream.pubsub.tracing.recorder import RecordedSpan as RecordedSpan
    from afl_stream.pubsub.tracing.recorder import SpanRecorder as SpanRecorder
    from afl_stream.pubsub.tracing.tracing import Tracing as Tracing

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ()

_HOMES = {
    "afl_stream.pubsub.tracing.otel": "OpenTelemetryRecorder",
    "afl_stream.pubsub.tracing.recorder": "RecordedSpan SpanRecorder",
    "afl_stream.pubsub.tracing.tracing": "Tracing",
}

__all__ = ["OpenTelemetryRecorder", "RecordedSpan", "SpanRecorder", "Tracing"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
