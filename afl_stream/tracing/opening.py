"""The tracer of a process, as the settings say: none, spans to a collector, or to OpenTelemetry's own provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl_stream.errors import ConfigError
from afl_stream.settings.tracing import TracingSettings

if TYPE_CHECKING:
    from afl_stream.tracing.agents import AgentTracing
    from afl_stream.tracing.tracer import SpanExporter, Tracer


def open_tracer(settings: TracingSettings, service: str) -> Tracer | None:
    """Return the tracer of a process, which its owner closes; None if tracing is off: then nothing of it is called.

    `service` is what the process is called in traces unless OTEL_SERVICE_NAME says otherwise. Raises ConfigError for
    `opentelemetry` where the extra `otel` is not installed, and for a ratio that is none.
    """
    if settings.exporter == "off":
        return None
    from afl_stream.tracing.tracer import Tracer

    ratio = settings.parsed_ratio
    exporter: SpanExporter
    if settings.exporter == "otlp":
        from afl_stream.tracing.otlp_sender import OtlpSender

        exporter = OtlpSender(service, settings.endpoint)
    else:
        try:
            from afl_stream.tracing.otel import ProviderSpans
        except ModuleNotFoundError as error:
            expected = "an installed extra: pip install afl-stream[otel]"
            raise ConfigError("tracing", "exporter", f"opentelemetry without {error.name}", expected) from error
        exporter = ProviderSpans()
    return Tracer(exporter, ratio=ratio)


def agent_tracing(tracer: Tracer | None, control_topic: str) -> AgentTracing | None:
    """Return what makes an agent's spans; None without a tracer."""
    if tracer is None:
        return None
    from afl_stream.tracing.agents import AgentTracing

    return AgentTracing(tracer, control_topic)
