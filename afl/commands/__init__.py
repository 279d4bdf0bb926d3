"""The subcommands of `afl`, one module each. Heavy imports wait until one runs: `afl check` must start quickly."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("terminal",)
