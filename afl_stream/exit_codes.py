"""The exit codes of `afl-stream`: those of `afl.core.exit_codes`, which both commands have."""

from afl.core.exit_codes import MEANINGS, ExitCode, table

__all__ = ["MEANINGS", "ExitCode", "table"]
