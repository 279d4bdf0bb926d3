"""Workflows on a cluster: workers that share out the requests, and clients that start them."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "client",
    "config",
    "counters",
    "failures",
    "records",
    "topics",
    "worker",
)
