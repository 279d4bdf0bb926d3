"""Where AFL sources come from, and how several become one."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "joining",
    "mongo",
    "needed_names",
)
