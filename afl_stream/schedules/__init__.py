"""Schedules: what one says, when it fires, and what is done about each firing. No I/O: time and state are handed in."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "cron",
    "documents",
    "firings",
    "spec",
)
