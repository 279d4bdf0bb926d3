"""The command `agent probe`: an agent in any language, asked and judged."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("command",)
