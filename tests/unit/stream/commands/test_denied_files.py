"""What commands say of files that they may not use: which one, whose it is, and what would help."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from afl_stream.audit.group import group_of
from afl_stream.commands.failures import message_of
from afl_stream.settings.config import StreamConfig


def test_a_denied_file_is_told_with_its_owner(tmp_path: Path) -> None:
    told = message_of(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "a.json")))

    assert told.startswith(f"{tmp_path / 'a.json'}: Permission denied: folder {tmp_path} belongs to ")
    assert "and this process runs as " in told
    assert "--data-dir" not in told


def test_the_folder_of_log_and_store_may_be_another_one(tmp_path: Path) -> None:
    told = message_of(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".afl")))

    assert told.endswith("; --data-dir names another folder for log and store")


def test_what_is_no_matter_of_rights_names_no_owner(tmp_path: Path) -> None:
    told = message_of(OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "a")))

    assert told == f"{tmp_path / 'a'}: No space left on device"


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.db"])
def test_an_audit_in_a_folder_that_takes_no_file_names_the_file_and_the_reason(tmp_path: Path, name: str) -> None:
    (no_folder := tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError) as refused:
        group_of(StreamConfig(), no_folder / name, "shared")

    assert refused.value.filename == str(no_folder / f"{name}.group")
