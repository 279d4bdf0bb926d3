"""The metrics and the health of an evaluator."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "dead_letter_reasons",
    "health",
    "metrics",
    "observer",
    "store_watch",
)
