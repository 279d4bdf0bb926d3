"""Files under the data folder belong to one user: those that are made, and those that older releases made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.process.private_files import make_private_folder, tighten_file, warn_of_readers
from afl.stores.sqlite.store import SqliteStore
from afl_stream.audit.file_sink import AuditFile
from tests.scenarios.command_lines import CommandLine


@pytest.fixture(autouse=True)
def _a_generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the modes of a folder and of all that is in it."""
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in found}


def loose(folder: Path) -> dict[str, str]:
    """Return what others than the owner may read or write."""
    return {name: mode for name, mode in modes(folder).items() if mode[-2:] != "00"}


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


def test_a_deployment_in_one_process_leaves_nothing_for_others_to_read(command_line: CommandLine) -> None:
    ran = command_line("dev", command_line.program, "--handlers", command_line.handlers,
                       "--input", 'hosts=["a"]', data_dir=False)  # fmt: skip

    assert ran.code == 0, ran.err
    folder = command_line.folder / ".afl"
    assert {"log.sqlite3", "log.sqlite3.lock", "store.sqlite3", "audit.jsonl"} <= modes(folder).keys()
    assert loose(folder) == {}


def test_each_command_of_a_deployment_leaves_nothing_for_others_to_read(command_line: CommandLine) -> None:
    command_line.deployed()
    command_line("start", "Watch", "--input", 'hosts=["a"]')
    command_line("evaluator", "--until-idle")
    command_line("agent", "--handlers", command_line.handlers, "--until-idle")
    command_line("audit", "--file", str(command_line.data_dir / "lines.jsonl"), "--until-idle")

    assert "lines.jsonl" in modes(command_line.data_dir)
    assert loose(command_line.data_dir) == {}


def test_files_of_an_older_release_are_tightened_when_they_are_opened(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["a"]',
                 data_dir=False)  # fmt: skip
    folder = command_line.folder / ".afl"
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name in ("store.sqlite3-wal", "store.sqlite3-shm", "log.sqlite3-wal"):
        (folder / name).touch(0o644)

    again = command_line("dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["b"]',
                         data_dir=False)  # fmt: skip

    assert again.code == 0, again.err
    assert loose(folder) == {}


def test_a_command_that_only_reads_tightens_what_it_opens(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["a"]',
                 "--id", "w1", data_dir=False)  # fmt: skip
    folder = command_line.folder / ".afl"
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)

    assert command_line("status", "w1", data_dir=False).code == 0
    assert {name: mode for name, mode in modes(folder).items() if name in (".", "store.sqlite3")} == {
        ".": "0o700",
        "store.sqlite3": "0o600",
    }


def test_what_sqlite_keeps_beside_an_open_store_is_private_too(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "shop.db")
    store.acquire_lock("k", 1_000)
    try:
        assert {"shop.db", "shop.db-wal", "shop.db-shm"} <= modes(tmp_path).keys()
        assert {name for name in loose(tmp_path) if name != "."} == set()
    finally:
        store.close()


def test_a_file_elsewhere_is_left_to_its_owner_and_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.db"
    SqliteStore(path).close()
    path.chmod(0o664)
    SqliteStore(path).close()

    assert modes(tmp_path)["shop.db"] == "0o664"
    assert f"{path} is open to every user of this machine (mode 0664)" in caplog.text
    assert f"chmod 600 {path}" in caplog.text
    caplog.clear()
    # A group may share a store.
    path.chmod(0o660)
    SqliteStore(path).close()
    assert caplog.text == ""


def test_a_store_in_a_folder_of_the_runtimes_own_is_tightened_without_settings(tmp_path: Path) -> None:
    make_private_folder(tmp_path / ".afl")
    path = tmp_path / ".afl" / "store.sqlite3"
    SqliteStore(path).close()
    path.chmod(0o644)
    SqliteStore(path).close()

    assert loose(tmp_path / ".afl") == {}


def test_audit_lines_hold_payloads_and_are_made_private(tmp_path: Path) -> None:
    AuditFile(tmp_path / "lines.jsonl").close()

    assert modes(tmp_path)["lines.jsonl"] == "0o600"


def test_a_folder_that_was_there_is_not_taken_from_others(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(0o775)
    make_private_folder(shared)
    make_private_folder(tmp_path / "a" / "b")

    assert modes(tmp_path)["shared"] == "0o775"
    assert modes(tmp_path)["a/b"] == "0o700"


def test_the_mode_of_a_file_that_is_not_there_is_nobodys_business(tmp_path: Path) -> None:
    tighten_file(tmp_path / "nothing")
    warn_of_readers(tmp_path / "nothing")

    assert list(modes(tmp_path)) == ["."]
