"""Operations on runs: cancel, retry, run again and reset."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "cancel_only",
    "operation_errors",
    "operations",
    "unanswered",
)
