"""Sensitive values in the evaluator's store: encrypted for the evaluator, redacted for people."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("outgoing", "program_marks", "purged_inputs", "redacted_store", "sealed_store")
