"""The library of namespace `afl`: declarations that every program knows, and that the runtime answers itself."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "declarations",
    "used",
)
