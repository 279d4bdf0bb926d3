"""The code of the `afl-stream` commands; each module is loaded when its command is called."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "answers",
    "arguments",
    "deployment",
    "dev",
    "handlers_group",
    "invocation",
    "operator_commands",
    "servers",
    "services",
    "start",
    "status",
    "store_group",
)
