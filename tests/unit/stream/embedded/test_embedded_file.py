"""Who may open the embedded broker's file, and what is no such file."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from afl_stream.embedded.file import pack_headers, unpack_headers
from afl_stream.embedded.transport import EmbeddedBroker, FileInUse, FileUnusable
from afl_stream.transport import TransportError

REPOSITORY = Path(__file__).parents[4]
#: Opens the file, says so, and holds it until its input ends.
HOLDER = """
import sys
from pathlib import Path
from afl_stream.embedded.transport import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1]))
sys.stdout.write("open\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def hold(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_file_that_another_process_has_open_is_refused_until_that_process_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with hold(path) as process:
        try:
            with pytest.raises(FileInUse) as caught:
                EmbeddedBroker(path)
        finally:
            process.kill()
    assert (caught.value.path, caught.value.pid) == (path, process.pid)
    assert str(path) in str(caught.value)
    assert str(process.pid) in str(caught.value)

    EmbeddedBroker(path).close()


def test_a_file_is_opened_once_in_a_process(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    broker = EmbeddedBroker(path)
    (tmp_path / "link").symlink_to(tmp_path)

    for name in (path, tmp_path / "link" / "log.sqlite"):
        with pytest.raises(FileInUse) as caught:
            EmbeddedBroker(name)
        assert caught.value.pid == os.getpid()

    broker.close()
    EmbeddedBroker(path).close()


def test_a_refused_open_does_not_free_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    broker = EmbeddedBroker(path)
    with pytest.raises(FileInUse):
        EmbeddedBroker(path)

    found = subprocess.run(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )

    assert "FileInUse" in found.stderr
    broker.close()


def foreign_text(path: Path) -> None:
    path.write_bytes(b"topic,partition,offset\n" * 100)


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE steps (id TEXT)")


def newer_format(path: Path) -> None:
    EmbeddedBroker(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version=2")


def damaged_pages(path: Path) -> None:
    EmbeddedBroker(path).close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (size - 100))


def cut_short(path: Path) -> None:
    broker = EmbeddedBroker(path)
    for number in range(50):
        broker.create_topic(f"t{number}", 4, 1, {})
    broker.close()
    os.truncate(path, path.stat().st_size // 3)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("spoil", [foreign_text, foreign_database, newer_format, damaged_pages, cut_short, folder])
def test_a_file_that_is_no_log_is_refused_by_name_and_left_free(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "log.sqlite"
    assert callable(spoil)
    spoil(path)

    for _ in range(2):
        with pytest.raises(FileUnusable) as caught:
            EmbeddedBroker(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, TransportError)


def test_a_foreign_database_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    foreign_database(path)
    before = path.read_bytes()

    with pytest.raises(FileUnusable, match="another program"):
        EmbeddedBroker(path)

    assert path.read_bytes() == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match=r"missing/log\.sqlite"):
        EmbeddedBroker(tmp_path / "missing" / "log.sqlite")


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.touch()
    broker = EmbeddedBroker(path)
    cluster_id = broker.cluster_id
    broker.close()

    again = EmbeddedBroker(path)

    assert again.cluster_id == cluster_id
    again.close()


@pytest.mark.parametrize("headers", [(), (("a", b""),), (("", b"\x00"), ("", b"\x01")), (("ключ", b"v" * 70_000),)])
def test_headers_are_unpacked_as_they_were_packed(headers: tuple[tuple[str, bytes], ...]) -> None:
    assert unpack_headers(pack_headers(headers)) == headers
