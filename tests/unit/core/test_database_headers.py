"""Reading a database's header takes no lock away from the process, and changes nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import afl
import afl_stream
from afl.core.process.database_headers import (
    APPLICATION_ID_AT,
    HEADER_BYTES,
    SCHEMA_COOKIE_AT,
    SQLITE_MAGIC,
    USER_VERSION_AT,
    read_database_header,
)
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import start

#: Another program opens the database, reads it, and closes it, as its last user if nobody has locks.
_LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute(sys.argv[2]).fetchone()[0])
connection.close()
"""


def seen_elsewhere(path: Path, query: str = "SELECT count(*) FROM sqlite_master") -> str:
    """Return the first value that another process reads."""
    words = [sys.executable, "-c", _LOOK, str(path), query]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA application_id = 1100000000")
    connection.execute("PRAGMA user_version = 7")
    connection.execute("CREATE TABLE kept (n INTEGER)")
    return connection


def test_the_log_of_a_database_stays_when_its_header_was_read_and_another_process_goes(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite3"
    with closing(database(path)) as connection:
        connection.execute("INSERT INTO kept VALUES (16)")
        assert read_database_header(path).startswith(SQLITE_MAGIC)
        seen_elsewhere(path)
        connection.execute("INSERT INTO kept VALUES (17)")

        assert seen_elsewhere(path, "SELECT max(n) FROM kept") == "17"


def test_the_header_has_the_numbers_that_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite3"
    database(path).close()
    stored = path.read_bytes()

    header = read_database_header(path)

    assert len(header) == HEADER_BYTES
    for place in (SCHEMA_COOKIE_AT, USER_VERSION_AT, APPLICATION_ID_AT):
        assert header[place : place + 4] == stored[place : place + 4]
    assert path.read_bytes() == stored
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"short", SQLITE_MAGIC, b"not a database " * 20], ids=len)
def test_what_is_no_database_is_returned_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    assert read_database_header(path) == content[:HEADER_BYTES]
    assert path.read_bytes() == content


def test_no_file_has_no_header_and_a_folder_is_an_error(tmp_path: Path) -> None:
    assert read_database_header(tmp_path / "missing") == b""
    with pytest.raises(IsADirectoryError):
        read_database_header(tmp_path)


def test_a_store_that_is_opened_twice_in_a_process_loses_nothing_to_a_process_that_looks_into_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite3"
    with closing(SqliteStore(path)) as store:
        start(store, "before")
        SqliteStore(path).close()
        seen_elsewhere(path)
        start(store, "after")

        assert seen_elsewhere(path, "SELECT count(*) FROM workflow") == "2"


def test_no_other_module_reads_the_header_of_a_database_itself() -> None:
    sources = [path for package in (afl, afl_stream) for path in Path(package.__path__[0]).rglob("*.py")]

    found = [path.stem for path in sources if "SQLite format 3" in path.read_text(encoding="utf-8")]

    assert found == ["database_headers"]
