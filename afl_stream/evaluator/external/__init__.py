"""External events in the evaluator: raised, taken, kept for later, carried into the next execution, and dropped."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "continuing",
    "early_room",
    "early_sweep",
    "event_counts",
    "executions",
    "external_events",
)
