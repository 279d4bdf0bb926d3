"""The model of the engine: plans, records, rows, batches, and the port of the store."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "effects",
    "entities",
    "history",
    "parked",
    "pauses",
    "plan",
    "records",
    "schedules",
    "step_rows",
    "step_values",
    "store",
    "store_identity",
    "timers",
    "tombstones",
    "upkeep",
    "visibility",
    "waiting",
    "workflow_rows",
)
