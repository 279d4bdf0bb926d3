"""The users' face that all stores share: steps, events, tasks and locks as public objects."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "dao",
    "history",
    "leases",
    "persistence",
    "run_views",
    "step",
    "store",
    "store_checks",
    "tasks",
    "upkeep",
    "views",
)
