"""The settings of a deployment."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "answer_tokens",
    "config",
    "dashboard",
    "deadlines",
    "durations",
    "gateway",
    "kafka_passthrough",
    "logs",
    "moments",
    "sections",
    "sensitive",
    "store_files",
    "store_parts",
    "tracing",
    "variables",
)
