"""Checking a store against its invariants, and purging finished workflows."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "check",
    "purge",
)
