"""Starts of a file: the part of the command `start` for many of them."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("many",)
