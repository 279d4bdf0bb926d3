"""Every test is in one tier, and none reaches for a server that its tier lacks."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.tiers import SERVERS

_ROOT = Path(__file__).parents[2]
_PROBE = """\
import subprocess, sys
import pytest

@pytest.fixture
def mongodb_url():
    return "mongodb://nowhere"

@pytest.fixture(params=["here", pytest.param("server", marks=pytest.mark.mongo)])
def marked(request):
    return request.param == "server" and request.getfixturevalue("mongodb_url")

def test_asks_for_a_fixture(mongodb_url): ...
def test_asks_by_a_marked_parameter(marked): ...
def test_asks_by_name_only(request):
    request.getfixturevalue("mongodb_url")
def test_starts_one():
    subprocess.run([sys.executable, "-m", "tools.kafka", "status", "--dir", "nowhere"])
@pytest.mark.kafka
def test_starts_one_and_says_so():
    subprocess.run([sys.executable, "-c", "", "tools.kafka"], check=True)
"""
_FAILING = """\
import os
def test_passes(): ...
def test_fails():
    assert "FIXED" in os.environ
"""


def _pytest(folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Run pytest with this project's settings on a folder of tests; return its exit code and its last lines."""
    (folder / "pyproject.toml").write_text((_ROOT / "pyproject.toml").read_text())
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", folder, *words, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT), **variables},
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout + run.stderr


def test_every_test_is_in_one_tier_whatever_it_needs() -> None:
    recipes = re.findall(r"^(test[a-z-]*): .*\n\t@\$\(PYTEST\)(?: -m (?:\"(.+?)\"|(\w+)))? ", _makefile(), re.MULTILINE)
    tiers = {target: quoted or word for target, quoted, word in recipes if quoted or word}
    assert set(tiers) == {"test", "test-kafka", "test-mongo", "test-long"}

    for has in itertools.product((False, True), repeat=len(SERVERS) + 1):
        markers = dict(zip((*SERVERS, "long"), has, strict=True))
        # What pytest takes for an expression of markers is one of Python, too.
        taken = [tier for tier, chosen in tiers.items() if eval(chosen, {}, markers)]
        assert len(taken) == 1, (markers, taken)
        assert taken != ["test"] or not any(has)


def test_a_test_has_the_marker_of_what_it_asks_for_and_fails_where_it_forgot(tmp_path: Path) -> None:
    (tmp_path / "test_probe.py").write_text(_PROBE)

    code, without = _pytest(tmp_path, "-m", "not kafka and not mongo", "-rA")

    assert code == 1
    assert re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\S+)", without, re.MULTILINE) == [
        ("PASSED", "test_asks_by_a_marked_parameter[here]"),
        ("FAILED", "test_asks_by_name_only"),
        ("FAILED", "test_starts_one"),
    ]
    assert "asks for mongodb_url: mark it with @pytest.mark.mongo" in without
    assert "starts tools.kafka: mark it with @pytest.mark.kafka" in without

    code, with_servers = _pytest(tmp_path, "-m", "kafka or mongo", "-rA")

    assert code == 0, with_servers
    assert len(re.findall("^PASSED", with_servers, re.MULTILINE)) == 3


def test_what_failed_is_run_again_alone_and_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "test_probe.py").write_text(_FAILING)

    assert "1 failed, 1 passed" in _pytest(tmp_path)[1]
    assert _pytest(tmp_path, "--lf", "-n", "2")[1].splitlines()[-1].startswith("1 failed in")
    assert _pytest(tmp_path, "--lf", FIXED="1")[1].splitlines()[-1].startswith("1 passed in")
    assert "2 passed" in _pytest(tmp_path, "--lf", FIXED="1")[1]

    (tmp_path / "file").write_text("where no folder can be made")
    code, reported = _pytest(tmp_path, "-o", f"cache_dir={tmp_path}/file/cache", FIXED="1")
    assert code == 0, reported


def _makefile() -> str:
    return (_ROOT / "Makefile").read_text()


def test_only_one_fixture_is_called_world_since_tests_that_ask_for_it_run_in_all_of_them() -> None:
    found = [
        path.relative_to(_ROOT).as_posix()
        for path in (_ROOT / "tests").rglob("*.py")
        if re.search(r"^ *def world\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]

    assert found == ["tests/worlds/servers.py"]
