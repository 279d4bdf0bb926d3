"""What pages and API show: each module reads one part of a deployment, and changes nothing."""

#: The modules that other packages import.
PUBLIC_MODULES = (
    "choices",
    "external",
    "graphs",
    "letters",
    "messages",
    "parameters",
    "registered",
    "run_lists",
    "run_views",
    "schedules",
    "servers",
    "spans",
    "state_words",
    "topics",
    "tree_lines",
)
