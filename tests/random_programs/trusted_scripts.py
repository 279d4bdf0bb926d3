"""Runs the scripts of generated programs, which this package wrote itself, right here."""

import copy
import textwrap
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from afl.scripts.errors import ScriptFailed
from afl.scripts.pool import ScriptResult
from tests.random_programs.expressions import UNKNOWN, Undecided, Value, failure


def run_script(code: str, params: Mapping[str, Value]) -> dict[str, Value]:
    """Return what a script puts into `result`. Raises `Failure` with the name of what it raised."""
    if UNKNOWN in params.values():
        raise Undecided
    try:
        return _run(code, params)
    except Exception as error:
        raise failure(type(error).__name__, str(error)) from error


class TrustingRunner:
    """A script runner for an engine under test: it starts no process, and has no limits."""

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> "Future[ScriptResult]":
        future: Future[ScriptResult] = Future()
        try:
            future.set_result(ScriptResult(result=_run(code, params), printed="", duration_s=0.0))
        except Exception as error:  # noqa: BLE001  # whatever a script raises is its end
            future.set_exception(ScriptFailed(type(error).__name__, str(error)))
        return future


def _run(code: str, params: Mapping[str, Any]) -> dict[str, Any]:
    names: dict[str, Any] = {"params": copy.deepcopy(dict(params)), "result": {}}
    exec(textwrap.dedent(code), names)
    return dict(names["result"])
