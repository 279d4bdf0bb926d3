"""A workflow in memory: its steps, what runs next, and what a commit writes of it."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "answer_acceptance",
    "captures",
    "commit_rows",
    "continuing",
    "events",
    "execution",
    "external_events",
    "generations",
    "inbox",
    "iteration",
    "large_runs",
    "machine",
    "making",
    "ports",
    "restore",
    "results",
    "run_bounds",
    "scripts",
    "step_log",
    "step_paths",
    "stored_steps",
    "task_dispatch",
    "timers",
)
