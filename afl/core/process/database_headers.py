"""The header of a SQLite file, read without opening the file beside SQLite."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Final

#: The first bytes of every database, and the length of the header that they begin.
SQLITE_MAGIC: Final = b"SQLite format 3\0"
HEADER_BYTES: Final = 100
#: Where its big-endian numbers of 4 bytes stand (https://www.sqlite.org/fileformat2.html#the_database_header).
SCHEMA_COOKIE_AT: Final = 40
USER_VERSION_AT: Final = 60
APPLICATION_ID_AT: Final = 68

_NUMBERS: Final = (
    ("schema_version", SCHEMA_COOKIE_AT),
    ("user_version", USER_VERSION_AT),
    ("application_id", APPLICATION_ID_AT),
)


def read_database_header(path: Path) -> bytes:
    """Return the header of a database: its magic bytes and the three numbers above, in their places, all else zero.

    Of a file that is no database its first bytes are returned as they are; of an empty one, or of none, nothing.

    A process that closes any descriptor of a file loses all of its POSIX locks on it, and SQLite's are such locks:
    another process then takes itself for the last user of the database and deletes the write-ahead log under the open
    connections, whose later commits are lost (https://www.sqlite.org/howtocorrupt.html, section 2.2). So a database is
    read through SQLite, which closes no descriptor while a connection of the process has locks; nothing is written,
    locked or recovered. Only what SQLite takes for no database is opened here.

    Raises OSError.
    """
    try:
        if path.stat().st_size >= HEADER_BYTES:
            return _through_sqlite(path)
    except FileNotFoundError:
        return b""
    except sqlite3.Error:
        pass
    try:
        with path.open("rb") as file:
            return file.read(HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _through_sqlite(path: Path) -> bytes:
    header = bytearray(HEADER_BYTES)
    header[: len(SQLITE_MAGIC)] = SQLITE_MAGIC
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for name, place in _NUMBERS:
            (number,) = connection.execute(f"PRAGMA {name}").fetchone()
            struct.pack_into(">I", header, place, number & 0xFFFFFFFF)
    return bytes(header)
