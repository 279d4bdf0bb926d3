"""AFL values at run time: operators, sizes, limits and text."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "bounds",
    "declared",
    "operators",
    "rendering",
    "sizes",
)
