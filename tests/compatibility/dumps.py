"""Rows as text: SQLite files as SQL, documents of MongoDB as lines of extended JSON, and the way back."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pymongo.database import Database

#: Statements that make the tables and indexes of format 5, and positions at the start of the topic of external events.
_OF_FORMAT_5: Final = re.compile(
    r"CREATE TABLE (timer|history|schedule)\(|CREATE (UNIQUE )?INDEX \w+ ON (timer|history|schedule)\("
    r"|INSERT INTO \"position\" VALUES\('[^']*', 'afl\.external', \d+, '[^']*', 0\)"
)
#: The time in the id of a parked record, which tells records in one place of recreated topics apart: new since then.
_TIME_OF_PARKED: Final = re.compile(
    r"(INSERT INTO \"parked\" VALUES\(\d+, '[^'@]+|\"_id\": \"[^\"@]+/\d+/\d+)@\d+(?=['\"])"
)

# --- SQLite ----------------------------------------------------------------------------------------------------------


def sql_of(path: Path) -> str:
    """Return a file as SQL: the same rows give the same text, whatever version of Python or SQLite writes it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        return "\n".join(_statements(file)) + "\n"


def _statements(file: sqlite3.Connection) -> Iterator[str]:
    for pragma in ("application_id", "user_version"):
        (value,) = file.execute(f"PRAGMA {pragma}").fetchone()
        yield f"PRAGMA {pragma} = {value};"
    yield "BEGIN TRANSACTION;"
    made = file.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    tables = [(name, sql) for kind, name, sql in made if kind == "table"]
    yield from (f"{sql};" for name, sql in tables if not name.startswith("sqlite_"))
    # The numbers that were given stand there; inserting rows made it.
    for name, _ in sorted(tables, key=lambda table: table[0] == "sqlite_sequence"):
        if name == "sqlite_sequence":
            yield f"DELETE FROM {name};"
        rows = (", ".join(map(_literal, row)) for row in file.execute(f'SELECT * FROM "{name}"'))
        yield from sorted(f'INSERT INTO "{name}" VALUES({row});' for row in rows)
    yield from (f"{sql};" for kind, _, sql in made if kind == "index" and sql is not None)
    yield "COMMIT;"


def in_format_4(text: str) -> str:
    """Return a store's SQL without what format 5 has besides: tables that are empty where no run waits or continues,
    the positions on the topic of external events, where none was raised, and the time in ids of parked rows.

    Other rows, if there were any, are left in.
    """
    text = _TIME_OF_PARKED.sub(r"\1", text)
    statements = text.replace("PRAGMA user_version = 5;", "PRAGMA user_version = 4;").split(";\n")
    return ";\n".join(statement for statement in statements if not _OF_FORMAT_5.match(statement))


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        # Documents are JSON: as text a person can read what has changed.
        return (
            f"CAST({_quoted(text)} AS BLOB)" if text.isprintable() and text.encode() == value else f"X'{value.hex()}'"
        )
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def restore_sql(text: str, path: Path) -> None:
    """Make the file that `sql_of` gave this text of."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript(text)
    path.chmod(0o600)


# --- MongoDB ---------------------------------------------------------------------------------------------------------


def lines_of(database: Database[dict[str, Any]]) -> str:
    """Return the documents of a database, a line each: its collection, and itself as canonical extended JSON.

    `arrival` is a time in nanoseconds; here it is the place in the order of arrival.
    """
    from bson import json_util

    lines: list[str] = []
    for collection in sorted(database.list_collection_names()):
        found = list(database[collection].find())
        order = {at: number for number, at in enumerate(sorted(d["arrival"] for d in found if "arrival" in d), 1)}
        for document in found:
            if "arrival" in document:
                document["arrival"] = order[document["arrival"]]
            as_json = json.loads(json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS))
            lines.append(json.dumps({"collection": collection, "document": as_json}, ensure_ascii=False))
    return "\n".join(sorted(lines)) + "\n"


def in_format_1(text: str) -> str:
    """Return a store's documents as format 1 has them: format 2 has collections besides, which are empty here.

    Positions on the topic of external events, where none was raised, and the time in ids of parked rows are left out.
    """
    lines = (
        _TIME_OF_PARKED.sub(r"\1", text)
        .replace('"format": {"$numberInt": "2"}', '"format": {"$numberInt": "1"}')
        .splitlines()
    )
    return "\n".join(line for line in lines if not _is_start_of_external(line)) + "\n"


def _is_start_of_external(line: str) -> bool:
    read = json.loads(line)
    document = read["document"]
    return bool(
        read["collection"] == "positions"
        and document["_id"]["topic"] == "afl.external"
        and int(document["next_offset"].get("$numberInt", document["next_offset"].get("$numberLong", 1))) == 0
    )


def restore_lines(text: str, database: Database[dict[str, Any]]) -> None:
    """Insert the documents that `lines_of` gave this text of."""
    from bson import json_util

    by_collection: dict[str, list[Mapping[str, Any]]] = {}
    for line in text.splitlines():
        read = json.loads(line)
        # Of the document alone: what stands around it is not extended JSON.
        document = json_util.loads(json.dumps(read["document"]), json_options=json_util.CANONICAL_JSON_OPTIONS)
        by_collection.setdefault(read["collection"], []).append(document)
    for collection, documents in by_collection.items():
        database[collection].insert_many([dict(document) for document in documents])


# --- records ---------------------------------------------------------------------------------------------------------


def header_line(headers: Iterable[tuple[str, bytes | None]]) -> list[list[str | None]]:
    """Headers as JSON has them; ours are text."""
    return [[name, None if value is None else value.decode()] for name, value in headers]


def headers_of_line(headers: Iterable[list[str | None]]) -> tuple[tuple[str, bytes | None], ...]:
    """Return the reverse of `header_line`."""
    return tuple((name or "", None if value is None else value.encode()) for name, value in headers)
