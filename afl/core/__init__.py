"""Facts that the language, the engine and agents share. Imports no other package of ours, and nothing heavy."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "backoff",
    "build",
    "clock",
    "declared_returns",
    "errors",
    "exit_codes",
    "frozen",
    "ids",
    "json_encoder",
    "json_objects",
    "lazy_names",
    "limits",
    "mongo_settings",
    "probes",
    "release",
    "row_maker",
    "sensitive",
    "strictness",
    "trace_context",
    "types",
    "values",
    "versions",
)
