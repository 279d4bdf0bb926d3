"""What runs do, as structured events: handed to a sink, or kept in memory for people who look into it."""

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
