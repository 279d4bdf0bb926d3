"""The subcommands of `afl`, a module each. What they need is imported when they run: `afl check` must start quickly."""
