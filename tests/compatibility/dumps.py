"""Rows as text: SQLite files as SQL, documents of MongoDB as lines of extended JSON, and the way back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymongo.database import Database

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
