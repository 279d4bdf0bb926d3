"""Avro's binary encoding, for schemas of ours and of others."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "afl_types",
    "afl_values",
    "binary",
    "compatibility",
    "primitives",
    "record_code",
    "schema",
)
