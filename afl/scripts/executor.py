"""Run one script and wait for it: the sandbox of programs' scripts, for callers that have code and no workflow."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from afl.core.errors import AFLError
from afl.core.values import ValueRefused, plain_values
from afl.scripts.errors import TIMEOUT, ScriptFailed
from afl.scripts.limits import ScriptLimits
from afl.scripts.pool import ScriptPool

#: The only language of scripts.
PYTHON: Final = "python"
#: The default time limit of a script.
DEFAULT_TIMEOUT_S: Final = 30.0


class ScriptError(AFLError):
    """A script that gave no result. `original` is what the sandbox said."""

    def __init__(self, message: str, original: Exception | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.original = original


@dataclass
class ScriptResult:
    """The outcome of a script: its `result`, or the reason why there is none."""

    success: bool
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class ScriptExecutor:
    """Executor of scripts one at a time, in processes isolated like those of programs.

    The first `execute` starts a worker process, which is kept for the next ones until `close`, the end of a `with`, or
    the end of the interpreter.
    """

    def __init__(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Take `timeout`, the time limit of a script in seconds."""
        self._lock = threading.Lock()
        self._pool: ScriptPool | None = None
        self.timeout = timeout
        self._limits = ScriptLimits(wall_s=timeout, cpu_s=max(1, math.ceil(timeout)))

    def execute(self, code: str, params: Mapping[str, object] | None = None, language: str = PYTHON) -> ScriptResult:
        """Run a script: it sees a copy of `params`, and fills `result`.

        A script that fails, or exceeds its time, gives a result without success. Raises ScriptsNotIsolated on a
        platform that cannot isolate scripts.
        """
        try:
            return ScriptResult(True, self._run(code, params or {}, language))
        except ScriptError as error:
            return ScriptResult(False, error=error.message)

    def close(self) -> None:
        """End the worker process; the next `execute` starts another."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __enter__(self) -> ScriptExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _run(self, code: str, params: Mapping[str, object], language: str) -> dict[str, Any]:
        if language != PYTHON:
            raise ScriptError(f"Unsupported script language: {language!r}; there is {PYTHON!r}")
        with self._lock:
            if self._pool is None:
                self._pool = ScriptPool(self._limits)
            pool = self._pool
        try:
            given = plain_values(params, "params")
        except ValueRefused as refused:
            raise ScriptError(f"Script params are not serializable: {refused}") from refused
        try:
            return dict(pool.run(code, given).result)
        except ScriptFailed as failed:
            raise ScriptError(self._text(failed), failed) from failed

    def _text(self, failed: ScriptFailed) -> str:
        message = failed.message
        if failed.error_type == "SyntaxError":
            return message.replace("SyntaxError:", "Syntax error in script:", 1)
        if failed.error_type == TIMEOUT:
            return f"Script timed out after {self.timeout:g} s ({message})"
        # An exception of the script has a line; a result that cannot be sent has the line after its last one.
        if failed.line is None and failed.error_type == ValueRefused.__name__:
            return f"Script result is not serializable: {message}"
        return f"Script error: {message}"


def execute_script(code: str, params: Mapping[str, object] | None = None, language: str = PYTHON) -> dict[str, Any]:
    """Run one script, and return its result. Raises ScriptError."""
    with ScriptExecutor() as executor:
        return executor._run(code, params or {}, language)
