"""The subcommands of `afl`, one module each. Heavy imports wait until one runs: `afl check` must start quickly."""
