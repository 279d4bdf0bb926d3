"""An error in a hook of one worker of pytest, and what the last lines of the run say of it."""

import subprocess
import sys
from pathlib import Path

from tests.worlds.processes import ROOT

CONFTEST = """
from tests.internal_errors import InternalErrors

def pytest_configure(config):
    config.pluginmanager.register(InternalErrors())

def pytest_runtest_logreport(report):
    if report.when == "call" and "third" in report.nodeid:
        raise LookupError("what the hook did not find")
"""


def test_an_internal_error_of_a_worker_is_said_at_the_very_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text("def test_first(): ...\ndef test_second(): ...\ndef test_third(): ...\n")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 3
    said = ended.stderr.partition("the first internal error of pytest ended with:")[2]
    assert "LookupError: what the hook did not find" in said
    assert len(said.splitlines()) < 30
