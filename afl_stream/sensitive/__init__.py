"""Sensitive values: which they are, how they are shown, and how they are encrypted in topics and stores."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "deployment", "envelope", "error_texts", "key_files", "keys", "marks", "opening", "redaction",
    "schedule_refusals", "sealing",
)  # fmt: skip
