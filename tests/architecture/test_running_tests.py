"""A run of pytest that takes its time: it tells what runs now, and ends a test that nothing else ends."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.inner_runs import inner_run

CONFTEST = """
from tests.running import RunningTests

def pytest_configure(config):
    config.pluginmanager.register(RunningTests(report_every_s=0.3, grace_s=0.5, stuck_s=5))
"""
# What pytest-timeout raises is swallowed, as callbacks of C do it.
HANGS = """
import time
import pytest

@pytest.mark.timeout(1)
def test_hangs():
    while True:
        try:
            time.sleep(100)
        except BaseException:
            pass

def test_other():
    pass
"""


# As long as a worker stands still, nobody gets the tests that wait for it.
STANDS_STILL = """
import ctypes, os, signal, pytest

def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)

def keeping_the_lock():
    # A signal that is handled ends the sleep.
    while True:
        ctypes.PyDLL(None).sleep(1000)

@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(20))
def test_each(number):
    if number == 1:
        {act}()
"""


def run_of(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    return inner_run(folder, conftest=CONFTEST, test_some=tests)


def test_a_test_that_swallows_its_time_out_is_told_of_and_ended_and_the_run_goes_on(tmp_path: Path) -> None:
    ended = run_of(tmp_path, HANGS)

    assert "s  test_some.py::test_hangs" in ended.stderr
    assert "tests ended, 0 failed, load" in ended.stderr
    assert ended.returncode == 1
    assert "1 failed, 1 passed" in ended.stdout
    assert "crashed while running 'test_some.py::test_hangs'" in ended.stdout
    # Where each thread stood.
    assert "Timeout (0:00:01.500000)!" in ended.stderr
    assert 'test_some.py", line 9 in test_hangs' in ended.stderr


# As an assertion of a library in C ends a process.
DIES = """
import faulthandler, os, signal, time

def dying():
    os.{act}

def test_dies():
    dying()

def test_other():
    time.sleep(1)
"""


@pytest.mark.parametrize(
    ("act", "told"),
    [
        ("abort()", "Fatal Python error: Aborted"),
        ("kill(os.getpid(), signal.SIGKILL)", "It was killed, and could not say where its threads stood."),
    ],
)
def test_the_failure_of_a_test_whose_process_died_says_where_that_stood(act: str, told: str, tmp_path: Path) -> None:
    ended = run_of(tmp_path, DIES.format(act=act))

    assert "1 failed, 1 passed" in ended.stdout
    said = ended.stdout.partition("crashed while running 'test_some.py::test_dies'")[2]
    assert told in said
    assert ('test_some.py", line 5 in dying' in said) == (act == "abort()")
    # It runs no more.
    assert "s  test_some.py::test_dies" not in ended.stderr.partition(told)[2]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found by way of /proc")
@pytest.mark.parametrize(("act", "ends_in_error"), [("stopped", 0), ("keeping_the_lock", 1)])
def test_a_worker_that_stands_still_goes_on_or_is_replaced_and_no_test_is_left_out(
    act: str, ends_in_error: int, tmp_path: Path
) -> None:
    ended = run_of(tmp_path, STANDS_STILL.format(act=act))

    assert "no test has ended for" in ended.stderr
    assert f"in {act}" in ended.stderr
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (failed|passed)", ended.stdout.splitlines()[-1])}
    assert sum(counts.values()) == 20
    assert ("test_each[1]" in ended.stdout) == bool(ends_in_error)
    # On a busy machine a worker that has just been started may stand still for as long, too.
    assert ends_in_error <= counts.get("failed", 0) <= ends_in_error + 2


def test_a_test_within_its_time_is_left_alone(tmp_path: Path) -> None:
    ended = run_of(tmp_path, "def test_first(): ...\ndef test_second(): ...\n")

    assert ended.returncode == 0
    assert "Timeout" not in ended.stderr
