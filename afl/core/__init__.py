"""Facts that the language, the engine and agents share. Imports no other package of ours, and nothing heavy."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "backoff",
    "clock",
    "declared_returns",
    "errors",
    "exit_codes",
    "ids",
    "json_objects",
    "lazy_names",
    "limits",
    "probes",
    "release",
    "row_maker",
    "strictness",
    "types",
    "values",
    "versions",
)
