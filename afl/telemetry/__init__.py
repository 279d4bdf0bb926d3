"""Telemetry: what runs do, as structured events, and the sinks that take them."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "logging_sink",
    "otel_sink",
    "telemetry",
    "tracing",
)
