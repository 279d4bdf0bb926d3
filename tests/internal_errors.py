"""The end of pytest's first internal error, said once more behind everything else.

An error in a hook of one worker ends the whole run, and pytest reports it where it happens: screens of what the parties
of other tests wrote may follow. Who has only the last lines of a run learns from them what happened.
"""

from __future__ import annotations

import sys

import pytest

_SHOWN_LINES = 25


class InternalErrors:
    """Keeps the first one; the process that reports the run prints it when the run has ended."""

    def __init__(self) -> None:
        self._first: str | None = None

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
