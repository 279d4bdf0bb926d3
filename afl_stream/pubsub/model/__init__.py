"""Event-driven workflows as they are declared: events, topics, subscription expressions, nodes, and their checks."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "commands",
    "context",
    "definition",
    "events",
    "expressions",
    "function_calling",
    "function_command",
    "names",
    "nodes",
    "span_kinds",
    "spans",
    "subscription_builder",
    "subscription_text",
    "thread_calls",
    "topics",
    "workflow_builder",
)
