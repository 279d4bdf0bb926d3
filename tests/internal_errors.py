"""Internal errors of pytest: one kind is avoided, and the end of the first one is said behind everything else.

An error in a hook of one worker ends the whole run, and pytest reports it where it happens: screens of what the parties
of other tests wrote may follow. Who has only the last lines of a run learns from them what happened.

The kind is a failure that pytest cannot show, such as one with an instruction without a line in its traceback: where a
time-out meets a coroutine, there may be one.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from copy import copy
from typing import Any

import pytest

from afl.core.text.exception_text import exception_traceback

_SHOWN_LINES = 25


class InternalErrors:
    """Keeps the first one; the process that reports the run prints it when the run has ended."""

    def __init__(self) -> None:
        self._first: str | None = None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report what failed in a simpler way, where pytest cannot show it."""
        try:
            return (yield)
        except Exception:
            if call.excinfo is None:
                raise
            simpler: Any = copy(call)
            simpler.excinfo = exception_traceback(call.excinfo.value)
            return pytest.TestReport.from_item_and_call(item, simpler)

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excrepr: object) -> None:
        if self._first is None:
            self._first = str(excrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        # A worker hands its error to the process that reports.
        if self._first is not None and not hasattr(config, "workerinput"):
            end = self._first.splitlines()[-_SHOWN_LINES:]
            sys.stderr.write("\n  ".join(["the first internal error of pytest ended with:", *end, ""]))
