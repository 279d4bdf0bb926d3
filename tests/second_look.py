"""Run pytest, and then once more, alone, the few tests that failed: `python -m tests.second_look ARGUMENTS`.

Thousands of tests with real brokers share a machine for an hour. That may stand still for half a minute, which is no
fault of the change; a race shows in the same way. So a test that fails beside others and passes alone ends no run, and
is named at the end, with what it said. What fails twice, more than a few failures, and a run that was not a whole one
are failures as ever.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

#: More tests than these fail for a reason.
MOST_FAILED: Final = 4
_LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: Sequence[str]) -> int:
    """Run pytest in the current folder with these arguments; return the exit code of the first run, or 0."""
    code = _pytest("--cache-clear", *arguments)
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    failed = sorted(json.loads(_LAST_FAILED.read_text()))
    # A module that cannot be imported failed as a whole.
    if not 0 < len(failed) <= MOST_FAILED or not all("::" in name for name in failed):
        return code
    _tell(f"{len(failed)} failed beside others; each once more, alone:", failed)
    # In a worker: one that dies is told of, too.
    if _pytest("-q", "-n", "1", *failed) != pytest.ExitCode.OK:
        return code
    _tell("passed alone, and failed beside others: a race, or a machine that stood still. See above why:", failed)
    return pytest.ExitCode.OK


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _tell(what: str, tests: Sequence[str]) -> None:
    sys.stdout.write("\n  ".join([f"\n== {what}", *tests]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
