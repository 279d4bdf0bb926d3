"""The run of all tiers: a test that fails beside others gets a second look, and nothing else does."""

import subprocess
from pathlib import Path

import pytest

from tests.architecture.inner_runs import inner_run
from tests.second_look import MOST_FAILED

pytestmark = pytest.mark.long

# Fails when it runs for the first time.
ONCE = """
from pathlib import Path

def test_once():
    flag = Path("has_run")
    has_run = flag.exists()
    flag.touch()
    assert has_run
"""
# A worker dies of it, once.
DIES_ONCE = """
import os
from pathlib import Path

def test_dies_once():
    flag = Path("has_died")
    has_died = flag.exists()
    flag.touch()
    if not has_died:
        os.abort()
"""


def run_of(folder: Path, **tests: str) -> subprocess.CompletedProcess[str]:
    files = {f"test_{name}": source for name, source in tests.items()}
    return inner_run(folder, "-q", module="tests.second_look", cache=True, **files)


@pytest.mark.parametrize(("source", "name"), [(ONCE, "once"), (DIES_ONCE, "dies_once")])
def test_what_fails_beside_others_and_passes_alone_ends_no_run_and_is_named(
    source: str, name: str, tmp_path: Path
) -> None:
    ended = run_of(tmp_path, **{name: source}, other="def test_other(): ...\n")

    assert ended.returncode == 0, ended.stdout
    assert "1 failed, 1 passed" in ended.stdout
    assert ended.stdout.rstrip().endswith(f"See above why:\n  test_{name}.py::test_{name}")


def test_what_fails_twice_is_a_failure(tmp_path: Path) -> None:
    ended = run_of(tmp_path, once=ONCE, always="def test_always(): assert False\n")

    assert ended.returncode == 1
    assert "passed alone" not in ended.stdout


def test_many_failures_get_no_second_look(tmp_path: Path) -> None:
    many = f"import pytest\n@pytest.mark.parametrize('n', range({MOST_FAILED + 1}))\ndef test_n(n): assert False\n"
    ended = run_of(tmp_path, many=many)

    assert ended.returncode == 1
    assert "once more" not in ended.stdout


def test_a_module_that_cannot_be_imported_gets_no_second_look(tmp_path: Path) -> None:
    ended = run_of(tmp_path, once=ONCE, broken="import no_such_module\n")

    assert ended.returncode != 0
    assert "once more" not in ended.stdout


def test_failures_of_an_earlier_run_are_not_those_of_this_one(tmp_path: Path) -> None:
    assert run_of(tmp_path, always="def test_always(): assert False\n").returncode == 1
    (tmp_path / "test_always.py").write_text("def test_always(): ...\n")

    ended = run_of(tmp_path, once=ONCE)

    assert ended.returncode == 0, ended.stdout
    assert "test_always" not in ended.stdout
