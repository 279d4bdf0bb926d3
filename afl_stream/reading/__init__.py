"""Reading logs: progress, ranges, and offsets of work that is finished."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "group_reader",
    "lag",
    "log_ranges",
    "lost_offsets",
    "offset_tracker",
    "record_queue",
    "topic_log",
    "watchdog",
)
