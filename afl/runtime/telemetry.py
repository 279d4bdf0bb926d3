"""Telemetry of runs as structured events: handed to a sink, or kept in memory to be inspected."""

from afl.telemetry.telemetry import (
    EVENT_TYPES,
    Telemetry,
    TelemetryEvent,
    TelemetrySink,
)

__all__ = [
    "EVENT_TYPES",
    "Telemetry",
    "TelemetryEvent",
    "TelemetrySink",
]
