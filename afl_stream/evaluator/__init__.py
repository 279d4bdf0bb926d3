"""The evaluator as a service: the control loop and all that it writes."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "control_stats",
    "deployment_store",
    "facet_schemas",
    "offsets",
    "outbox",
    "outcomes",
    "runs",
    "service",
    "stores",
)
