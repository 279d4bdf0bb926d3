"""Modules that a registry may have loaded: what its operator named, whatever stands in the registry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.handlers.allowed_modules import AllowedHandlers, HandlerNotAllowed
from afl.core.handlers.modules import ModuleLoader


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a working directory with modules of its own, and an environment with installed packages in it."""
    place = tmp_path / "work"
    for name in ("ours_a8.py", "handlers/deep_a8.py", "pack_a8/__init__.py", "pack_a8/inner.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("def handle(payload): return {}\n")
    installed = place / ".venv" / "lib" / "python3" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "bought_a8.py").write_text("def handle(payload): return {}\n")
    (tmp_path / "elsewhere.py").write_text("def handle(payload): return {}\n")
    (place / "link.py").symlink_to(tmp_path / "elsewhere.py")
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [str(place), str(installed), *sys.path])
    yield place
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_a8")]:
        del sys.modules[name]


def is_allowed(module_uri: str, *entries: str) -> bool:
    try:
        AllowedHandlers(entries or (".",)).check(module_uri)
    except HandlerNotAllowed:
        return False
    return True


def test_what_stands_below_the_working_directory_is_allowed_by_default(here: Path) -> None:
    for uri in ("ours_a8", "pack_a8", "pack_a8.inner", "ours_a8.py", "./handlers/deep_a8.py"):
        assert is_allowed(uri), uri
    assert is_allowed((here / "ours_a8.py").as_uri())
    assert is_allowed(str(here / "handlers" / "deep_a8.py"))


_OTHERS = (
    "os subprocess shutil os.path builtins sys importlib pytest bought_a8 __main__ ../elsewhere.py /tmp/x.py link.py "
    "file:///etc/passwd.py handlers/../../elsewhere.py .venv/lib/python3/site-packages/bought_a8.py"
)


@pytest.mark.parametrize("module_uri", _OTHERS.split())
def test_pythons_own_modules_installed_ones_and_other_folders_are_not(here: Path, module_uri: str) -> None:
    assert not is_allowed(module_uri)


def test_looking_at_a_module_runs_nothing_of_it(here: Path) -> None:
    (here / "loud_a8").mkdir()
    (here / "loud_a8" / "__init__.py").write_text("raise SystemExit('ran')")

    assert is_allowed("loud_a8.inner")
    assert not is_allowed("loud_a8.inner", "quiet")


def test_modules_are_allowed_by_name_and_pattern(here: Path) -> None:
    assert is_allowed("bought_a8", "bought_a8")
    assert is_allowed("bought_a8.inner", "bought_a8")
    assert is_allowed("bought_a8", "bought_*")
    assert not is_allowed("bought_a8", "bought")
    assert not is_allowed("ours_a8", "bought_a8")


def test_folders_are_allowed_by_path(here: Path) -> None:
    assert is_allowed("handlers/deep_a8.py", "./handlers")
    assert is_allowed("handlers/deep_a8.py", f"{here}/handlers/")
    assert not is_allowed("ours_a8.py", "./handlers")
    assert not is_allowed("ours_a8", "./handlers")
    assert is_allowed("bought_a8", "./.venv/lib/python3/site-packages")
    assert is_allowed("../elsewhere.py", "/")
    assert not is_allowed("os", "/")


def test_a_process_started_in_the_root_folder_allows_nothing_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert not is_allowed("/tmp/x.py")


def test_nothing_is_allowed_where_nothing_is_named() -> None:
    with pytest.raises(
        HandlerNotAllowed, match=r"os: it is registered and not allowed here \(agent.allowed_handlers is empty\)"
    ):
        AllowedHandlers([""]).check("os")


def test_what_the_process_was_told_of_is_allowed() -> None:
    allowed = AllowedHandlers([])
    allowed.vouch("file:///srv/ours.py")
    allowed.check("file:///srv/ours.py")

    with pytest.raises(HandlerNotAllowed):
        allowed.check("file:///srv/other.py")


IMPORTING = """
import functools, subprocess
from os import system
from json import loads as read
from subprocess import Popen
from pack_a8 import handle as shared
def own(payload): return {}
bound = functools.partial(own)
class Desk:
    def __call__(self, payload): return {}
desk = Desk()
"""


@pytest.mark.parametrize(
    ("function", "allowed"),
    [("own", True), ("bound", True), ("Desk", True), ("desk", True), ("shared", True),
     ("system", False), ("read", False), ("Popen", False)],
)  # fmt: skip
def test_a_function_that_an_allowed_module_only_imports_is_not_called(here: Path, function: str, allowed: bool) -> None:
    (here / "importing_a8.py").write_text(IMPORTING)
    for uri in ("importing_a8", "importing_a8.py"):
        module = ModuleLoader().load(uri)
        list_of_here = AllowedHandlers()
        list_of_here.check(uri)
        if allowed:
            list_of_here.check_function(uri, module, getattr(module, function))
        else:
            with pytest.raises(HandlerNotAllowed, match="is imported from"):
                list_of_here.check_function(uri, module, getattr(module, function))
