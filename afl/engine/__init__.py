"""The engine: program and steps in, changes out. Time, ids and I/O are handed to it."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "errors",
    "limits",
    "states",
    "types",
    "versions",
    "workflow_cache",
)
