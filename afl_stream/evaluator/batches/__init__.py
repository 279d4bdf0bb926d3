"""A batch from its records to its commit: read, attempted, split where it fails, and committed beside the next one."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "batch_attempts",
    "batch_commits",
    "batch_size",
    "earlier_commit",
    "record_reading",
)
