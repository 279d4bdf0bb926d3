"""The subcommands of `afl`, one module each. Heavy imports happen when a subcommand runs: `afl check` must start
quickly.
"""
