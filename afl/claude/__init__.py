"""Claude as an agent."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "client",
    "client_errors",
    "errors",
    "llm_handler",
    "replies",
    "request_failures",
    "runner",
    "tool_definitions",
    "turns",
)
