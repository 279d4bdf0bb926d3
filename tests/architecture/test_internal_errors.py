"""Errors in hooks of pytest: one kind is avoided, and the last lines of the run say what the first one was."""

import subprocess
from pathlib import Path

from tests.architecture.inner_runs import inner_run

CONFTEST = """
from tests.internal_errors import InternalErrors

def pytest_configure(config):
    config.pluginmanager.register(InternalErrors())

def pytest_runtest_logreport(report):
    if report.when == "call" and "third" in report.nodeid:
        raise LookupError("what the hook did not find")
"""

# Such a traceback is what pytest cannot show.
WITHOUT_LINES = """
def lineless():
    raise ValueError("what the test says")

lineless.__code__ = lineless.__code__.replace(co_linetable=b"")

def test_lineless():
    lineless()

def test_other(): ...
"""


def run_of(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    return inner_run(folder, conftest=CONFTEST, test_some=tests)


def test_a_failure_that_pytest_cannot_show_is_a_failure_and_ends_no_run(tmp_path: Path) -> None:
    ended = run_of(tmp_path, WITHOUT_LINES)

    assert "1 failed, 1 passed" in ended.stdout
    assert "ValueError: what the test says" in ended.stdout


def test_an_internal_error_of_a_worker_is_said_at_the_very_end(tmp_path: Path) -> None:
    ended = run_of(tmp_path, "def test_first(): ...\ndef test_second(): ...\ndef test_third(): ...\n")

    assert ended.returncode == 3
    said = ended.stderr.partition("the first internal error of pytest ended with:")[2]
    assert "LookupError: what the hook did not find" in said
    assert len(said.splitlines()) < 30
