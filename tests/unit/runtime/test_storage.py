"""Storage back ends: local files by path and URL, and others that are registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.runtime.storage import LocalStorage, UnknownStorage, get_storage_backend, local_path, register_storage


@pytest.mark.parametrize("prefix", ["", "file://", "file://localhost"])
def test_local_files_are_written_read_listed_and_removed(tmp_path: Path, prefix: str) -> None:
    folder = f"{prefix}{tmp_path}/new folder/deep"
    storage = get_storage_backend(folder)
    with storage.open(f"{folder}/a.txt", "w") as file:
        file.write("日本")
    storage.makedirs(f"{folder}/b")

    with storage.open(f"{folder}/a.txt", "rb") as file:
        assert file.read().decode() == "日本"
    assert storage.listdir(folder) == ["a.txt", "b"]
    assert storage.size(f"{folder}/a.txt") == 6
    storage.remove(f"{folder}/a.txt")
    storage.remove(f"{folder}/a.txt")
    assert not storage.exists(f"{folder}/a.txt")
    storage.remove(folder)
    assert not (tmp_path / "new folder" / "deep").exists()


def test_a_url_may_have_its_characters_escaped() -> None:
    assert local_path("file:///tmp/a%20b") == Path("/tmp/a b")


def test_a_file_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="a file of far, not of this machine"):
        local_path("file://far/tmp/x")


def test_other_schemes_are_registered_or_said_to_be_unknown() -> None:
    with pytest.raises(UnknownStorage, match=r"no storage for tape1://x/y: there is file.*register_storage\('tape1'"):
        get_storage_backend("tape1://x/y")
    register_storage("tape2", LocalStorage)

    assert isinstance(get_storage_backend("tape2://x/y"), LocalStorage)
