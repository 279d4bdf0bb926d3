"""Requests as they run: the topics of one request, its nodes, what is restored of it, and its end."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "errors",
    "inputs",
    "output_queue",
    "run",
    "tracker",
    "workflow",
)
