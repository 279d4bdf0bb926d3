"""Stores of a request's events: memory, SQLite, MongoDB, and a topic."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "errors",
    "memory",
    "mongo",
    "on_topic",
    "opening",
    "records",
    "sqlite",
    "store",
)
