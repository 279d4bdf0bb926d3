"""Reading logs: progress, ranges, and offsets of work that is finished."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "log_ranges",
    "offset_tracker",
    "topic_log",
    "watchdog",
)
