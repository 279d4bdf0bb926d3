"""Compiled programs into plans: names resolved, expressions compiled, defaults worked out."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "binding",
    "branch_planner",
    "event_facets",
    "planner",
    "programs",
    "value_checks",
)
