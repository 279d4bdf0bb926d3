"""Errors of scripts, and of the processes that run them."""

from __future__ import annotations

from collections.abc import Collection

from afl.errors import AFLError

#: The `error_type` of a script that the sandbox refused or ended, when no Python exception is more specific.
SCRIPT_ERROR = "ScriptError"
#: The `error_type` of a script that ran longer than its wall clock or processor time allows.
TIMEOUT = "Timeout"
#: The `error_type` of a script that wanted more memory than it may have.
MEMORY_ERROR = "MemoryError"


class ScriptFailed(AFLError):
    """A script that gave no result.

    `error_type` is the name of the exception that ended it, or `ScriptError`, `Timeout`, `MemoryError`; `message` is
    `<error_type>: <text>`; `line` is the script's line, 1-based, where known; `printed` is its printed text.
    """

    def __init__(self, error_type: str, text: str, *, line: int | None = None, printed: str = "") -> None:
        message = f"{error_type}: {text}" if text else error_type
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.line = line
        self.printed = printed


class ScriptsNotIsolated(AFLError):
    """A platform that cannot isolate scripts: no script is run unless the operator accepts the risk."""

    def __init__(self, missing: Collection[str], detail: str = "") -> None:
        names = ", ".join(sorted(missing))
        super().__init__(
            f"scripts are refused: this platform does not isolate them from {names}"
            + (f" ({detail})" if detail else "")
            + "; run on Linux with seccomp, or accept it by name: scripts.accept_missing (AFL_SCRIPTS_ACCEPT_MISSING)"
        )
        self.missing = frozenset(missing)


class ScriptWorkerUnavailable(AFLError):
    """A worker process for scripts that could not be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no worker process for scripts: {reason}")
        self.reason = reason


class ScriptPoolClosed(AFLError):
    """A pool that has been closed was given a script."""

    def __init__(self) -> None:
        super().__init__("the pool of script workers is closed")
