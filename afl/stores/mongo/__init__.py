"""The store in a MongoDB database."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("store",)
