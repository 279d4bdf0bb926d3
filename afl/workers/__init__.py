"""Workers on a store's tasks: pollers, the registry runner and the runner service."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "call_threads",
    "heartbeat",
    "poller",
    "registry_runner",
    "server_record",
    "storage",
    "task_context",
    "tool_registry",
)
