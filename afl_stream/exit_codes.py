"""The exit codes of `afl-stream`: those of `afl.core.exit_codes`, which both commands use."""

from afl.core.exit_codes import MEANINGS, ExitCode, table

__all__ = ["MEANINGS", "ExitCode", "table"]
