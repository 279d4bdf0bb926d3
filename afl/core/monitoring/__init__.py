"""Metrics and health of a process, for any kind of service: what is counted, who serves it, and in which form."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "health",
    "histograms",
    "metrics",
    "otlp",
    "serving",
    "status_server",
)
