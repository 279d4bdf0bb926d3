"""The messages of `make` where it can't make its environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tools.constraints import APART, GROUPS, IMAGE, Group, closure, pins, project, requirements

_ROOT = Path(__file__).parents[2]


def test_without_a_suitable_python_one_line_says_what_to_install(tmp_path: Path) -> None:
    run = subprocess.run(
        [_ROOT / "tools" / "make-venv", tmp_path / "venv", tmp_path / "stamp"],
        cwd=_ROOT,
        env={**os.environ, "PYTHON": "false"},
        capture_output=True,
        text=True,
    )

    assert run.returncode != 0
    assert run.stderr.count("\n") == 1
    assert "Python 3.11 or newer is needed" in run.stderr
    assert "install it" in run.stderr
    assert not (tmp_path / "stamp").exists()


def test_every_extra_is_of_a_group() -> None:
    optional = project()["optional-dependencies"]

    assert isinstance(optional, dict)
    assert sorted(extra for group in (*GROUPS, *APART, IMAGE) for extra in group.extras) == sorted(optional)


def test_a_version_is_pinned_once() -> None:
    names = [name for group in GROUPS for name in pins(group.path)]

    assert sorted(names) == sorted(set(names))
    assert len(names) > 50


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_group_pins_what_its_extras_need_and_nothing_else(group: Group) -> None:
    below = {name for other in GROUPS[: GROUPS.index(group)] for name in pins(other.path)}
    needed, missing = closure(requirements(group.extras))
    pinned = pins(group.path)

    assert needed - below - set(pinned) == set()
    stray = set(pinned) - needed
    # The requirements of packages that are not installed here (`make` installs no benchmarks) are unknown.
    if missing:
        assert all(not _is_installed(name) for name in stray)
    else:
        assert stray == set()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_the_ranges_of_a_group_admit_its_pins(group: Group) -> None:
    assert _refused(group, {name: version for other in GROUPS for name, version in pins(other.path).items()}) == []


@pytest.mark.parametrize("group", APART, ids=lambda group: group.name)
def test_an_environment_that_stands_apart_has_pins_of_its_own_for_all_that_it_needs(group: Group) -> None:
    pinned = pins(group.path)

    assert {canonicalize_name(needed.name) for needed in requirements(group.extras)} <= set(pinned)
    assert _refused(group, pinned) == []


@pytest.mark.parametrize("group", APART, ids=lambda group: group.name)
def test_an_environment_that_stands_apart_cannot_be_one_with_ours(group: Group) -> None:
    ours = {name: version for other in GROUPS for name, version in pins(other.path).items()}

    assert any(ours.get(name, version) != version for name, version in pins(group.path).items())


def test_an_environment_that_cannot_be_made_says_why_and_is_not_taken_for_complete(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tools.environments", "faust"],
        cwd=_ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
    )

    assert run.returncode == 1
    assert "the environment for faust could not be made; is a package index within reach?" in run.stderr
    assert "No matching distribution found" in run.stderr
    assert list(tmp_path.rglob("complete")) == []


def test_each_file_of_pins_brings_the_one_below() -> None:
    for below, group in zip((None, *GROUPS), GROUPS, strict=False):
        named = [line[3:] for line in group.path.read_text().splitlines() if line.startswith("-c ")]

        assert named == ([below.path.name] if below else [])


def test_what_installs_takes_the_pins_of_its_group() -> None:
    assert "-c constraints/dev.txt -e '.[dev,mongodb-server]'" in (_ROOT / "tools" / "make-venv").read_text()
    makefile = (_ROOT / "Makefile").read_text()
    assert "$(STAMP): pyproject.toml constraints/run.txt constraints/dev.txt tools/make-venv" in makefile


def _refused(group: Group, pinned: Mapping[str, str]) -> list[str]:
    """Return the requirements of a group that do not admit the version that is pinned."""
    return [
        f"{requirement} and {pinned[canonicalize_name(requirement.name)]}"
        for requirement in requirements(group.extras)
        if not requirement.specifier.contains(pinned[canonicalize_name(requirement.name)], prereleases=True)
    ]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
