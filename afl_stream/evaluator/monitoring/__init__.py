"""The metrics and the health of an evaluator."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "health",
    "metrics",
    "observer",
    "store_watch",
)
