"""Compiled programs on the definitions topic, and which one a name means now."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("definitions", "versions")
