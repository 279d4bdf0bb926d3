"""The syntax of AFL texts: comments, the tree builder, and help with mistakes."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "comments",
    "operator_chains",
    "parser",
    "tree_builder",
)
