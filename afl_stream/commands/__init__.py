"""The code of the `afl-stream` commands; each module is loaded when its command is called."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "answers",
    "arguments",
    "asking",
    "failures",
    "idleness",
    "invocation",
    "programs",
    "refusals",
    "running_again",
    "start",
    "stored_handlers",
)
