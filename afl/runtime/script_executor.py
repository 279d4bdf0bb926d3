"""Runs one script and waits for it: the sandbox of programs' scripts, for callers that have code but no workflow."""

from afl.scripts.executor import (
    DEFAULT_TIMEOUT_S,
    PYTHON,
    ScriptError,
    ScriptExecutor,
    ScriptResult,
    execute_script,
)

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "PYTHON",
    "ScriptError",
    "ScriptExecutor",
    "ScriptResult",
    "execute_script",
]
