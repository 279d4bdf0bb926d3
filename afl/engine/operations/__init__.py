"""Operations on runs: cancel, retry, run again, reset, and move to another version of the program."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "cancel_only",
    "migration",
    "misfits",
    "operation_errors",
    "operations",
    "unanswered",
)
