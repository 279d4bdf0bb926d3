"""Schedules in the loop: the commands about them, and the sweep that starts their runs."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "book",
    "commands",
    "sweep",
)
