"""Claude as an agent."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "client",
    "conversation",
    "errors",
    "llm_handler",
    "runner",
    "tool_definitions",
)
