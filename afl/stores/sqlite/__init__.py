"""The store in a SQLite file."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("dividing", "store")
