"""The life of a process: signals, waits, standard streams, files and the command line."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "children",
    "click_errors",
    "click_groups",
    "click_options",
    "collector",
    "crashes",
    "database_headers",
    "file_holders",
    "file_rights",
    "long_waits",
    "private_files",
    "signals",
    "standard_streams",
    "stopping",
)
