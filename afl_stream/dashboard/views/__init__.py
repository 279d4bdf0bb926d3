"""What pages and API show: each module reads one part of a deployment, and changes nothing."""

#: The modules that other packages import.
PUBLIC_MODULES = (
    "choices",
    "graphs",
    "letters",
    "messages",
    "registered",
    "parameters",
    "run_lists",
    "run_views",
    "schedules",
    "servers",
    "settings",
    "spans",
    "state_words",
    "topics",
    "tree_lines",
    "workflows",
)
