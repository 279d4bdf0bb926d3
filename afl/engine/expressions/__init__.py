"""Expressions, compiled once into closures."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "exact_doubles",
    "expression",
    "nodes",
)
