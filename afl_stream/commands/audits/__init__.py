"""The command `audit`, and `audit verify`."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("moments",)
