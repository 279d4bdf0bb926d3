"""Completion in shells: the command `completion`, and what arguments are completed with."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("values",)
