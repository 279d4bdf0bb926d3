"""Output about a program besides its compiled form."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "documentation",
    "sarif",
    "source_places",
    "tree_json",
)
