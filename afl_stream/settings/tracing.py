"""Where the spans of clients, evaluators and agents go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl_stream.errors import ConfigError
from afl_stream.settings.sections import address, choice, text

TRACING_EXPORTERS: Final = ("off", "otlp", "opentelemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """Spans of what clients, evaluators and agents do with records."""

    exporter: str = choice(
        "off",
        TRACING_EXPORTERS,
        "`off`; `otlp`: spans to a collector, over HTTP; or `opentelemetry`: to the process's own tracer provider, "
        "with the extra `otel`",
    )
    endpoint: str | None = address(
        None, "with `otlp`, the collector: `http://localhost:4318`; by default as OpenTelemetry's variables say"
    )
    ratio: str = text("1", "share of new traces that is recorded, from 0 to 1; a trace from elsewhere is as it says")

    @property
    def parsed_ratio(self) -> float:
        """The share as a number; -1 for a text that is none."""
        try:
            return float(self.ratio)
        except ValueError:
            return -1.0


def check_tracing(tracing: TracingSettings, source: str) -> None:
    """Refuse a share that is none."""
    if not 0 <= tracing.parsed_ratio <= 1:
        raise ConfigError(source, "tracing.ratio", tracing.ratio, "a number from 0 to 1, such as 0.1")
