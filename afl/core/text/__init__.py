"""Text that people see: what is shown, what is masked, and how it is bounded."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "exception_text",
    "line_ends",
    "log_lines",
    "masking",
    "near_names",
    "patterns",
    "placeholders",
    "printable",
    "warning_limits",
)
