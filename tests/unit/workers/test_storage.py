"""Storage back ends: local files by path and URL, and others that are registered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from afl.workers.storage import (
    LocalStorage,
    StorageRefused,
    UnknownStorage,
    get_storage_backend,
    local_path,
    register_storage,
)

Use = Callable[[LocalStorage], object]
UseAt = Callable[[LocalStorage, str], object]


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
    storage.remove(folder, recursive=True)
    assert not (tmp_path / "new folder" / "deep").exists()


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a file and a folder in it, below a home directory."""
    place = tmp_path / "home" / "work"
    (place / "folder").mkdir(parents=True)
    (place / "file").write_text("kept")
    (place / "folder" / "inner").write_text("kept")
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return place


def everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


@pytest.mark.parametrize(
    "location",
    [
        "",
        " ",
        "file:",
        "file://",
        ".",
        "./",
        "./.",
        "..",
        "../",
        "../..",
        "/",
        "//",
        "folder/..",
        "file:///",
        "/proc/../",
    ],
)
@pytest.mark.parametrize("recursive", [False, True])
def test_what_was_hardly_meant_is_not_removed(workplace: Path, location: str, recursive: bool) -> None:
    before = everything(workplace.parent)

    with pytest.raises(StorageRefused):
        LocalStorage().remove(location, recursive=recursive)
    assert everything(workplace.parent) == before


def test_the_working_directory_by_its_full_path_or_a_link_to_it_is_not_removed(workplace: Path) -> None:
    (workplace / "here").symlink_to(workplace)
    for location in (str(workplace), workplace.as_uri(), str(workplace.parent), "here/folder/.."):
        with pytest.raises(StorageRefused, match="not removed"):
            LocalStorage().remove(location, recursive=True)

    assert (workplace / "folder" / "inner").read_text() == "kept"


def test_a_folder_is_removed_only_when_that_was_asked(workplace: Path) -> None:
    with pytest.raises(StorageRefused, match=r"'folder': it is a folder; .* recursive=True"):
        LocalStorage().remove("folder")
    assert (workplace / "folder" / "inner").exists()

    LocalStorage().remove("folder", recursive=True)
    assert everything(workplace) == ["file"]


def test_of_a_link_only_the_link_is_removed(workplace: Path) -> None:
    (workplace / "link").symlink_to(workplace / "folder")
    LocalStorage().remove("link", recursive=True)

    assert everything(workplace) == ["file", "folder", "folder/inner"]


@pytest.mark.parametrize("use", [lambda s: s.open("", "w"), lambda s: s.makedirs(""), lambda s: s.listdir("")])
def test_a_location_that_names_nothing_is_refused_everywhere(workplace: Path, use: Use) -> None:
    with pytest.raises(StorageRefused, match="it is empty"):
        use(LocalStorage())


def test_a_folder_is_not_opened_for_writing(workplace: Path) -> None:
    for location in ("folder", ".", "/"):
        with pytest.raises(StorageRefused, match="it is a folder"):
            LocalStorage().open(location, "w")


@pytest.mark.parametrize(
    "location",
    ["../file", "/etc/passwd", "folder/../../file", "file:///etc/passwd", "out/inner", "out", "..", "deep/../.."],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda s, at: s.open(at, "w"),
        lambda s, at: s.open(at),
        lambda s, at: s.makedirs(at),
        lambda s, at: s.remove(at, recursive=True),
        lambda s, at: s.listdir(at),
        lambda s, at: s.size(at),
        lambda s, at: s.exists(at),
    ],
    ids=["write", "read", "makedirs", "remove", "listdir", "size", "exists"],
)
def test_a_location_outside_the_root_is_refused(workplace: Path, location: str, use: UseAt) -> None:
    root = workplace / "folder"
    (root / "out").symlink_to(workplace)
    before = everything(workplace)

    with pytest.raises(StorageRefused, match="leads out of"):
        use(LocalStorage(root), location)
    assert everything(workplace) == before


def test_with_a_root_paths_start_there_and_the_root_stays(workplace: Path) -> None:
    storage = LocalStorage("folder")
    with storage.open("deep/a", "w") as file:
        file.write("x")

    assert (workplace / "folder" / "deep" / "a").read_text() == "x"
    assert storage.listdir(".") == ["deep", "inner"]
    assert storage.exists(str(workplace / "folder" / "inner"))
    for location in (".", "deep/..", str(workplace / "folder")):
        with pytest.raises(StorageRefused, match="not removed"):
            storage.remove(location, recursive=True)
    storage.remove("deep", recursive=True)
    assert storage.listdir(".") == ["inner"]


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
