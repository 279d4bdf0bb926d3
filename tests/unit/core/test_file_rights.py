"""Whose a file is, for a process that may not use it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from afl.core.process.file_rights import denied_text


@pytest.fixture
def user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def test_a_file_is_told_with_its_owner_and_its_mode(tmp_path: Path, user: str) -> None:
    (path := tmp_path / "runs.sqlite3").touch(0o640)
    path.chmod(0o640)

    assert denied_text(path) == (
        f"file {path} belongs to {user} (mode 0640), and this process runs as {user}: its mode, or its file system, "
        "denies it"
    )


def test_a_file_of_another_user_may_be_used_by_its_owner_or_with_a_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)

    told = denied_text(tmp_path)

    assert f"this process runs as user 4000000: run it as {user}, or have {user} give user 4000000 the right" in told


def test_what_is_missing_is_judged_by_the_nearest_folder_above_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    assert denied_text(tmp_path / "a" / "b").startswith(f"folder {tmp_path} belongs to ")


def test_a_relative_path_is_in_the_folder_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert f"folder {tmp_path} belongs to " in denied_text(Path(".afl"))
