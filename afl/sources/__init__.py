"""Origins of AFL sources, and the joining of several into one."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "joining",
    "mongo",
    "needed_names",
)
