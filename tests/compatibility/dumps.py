"""Rows as text: SQLite files as SQL, documents of MongoDB as lines of extended JSON, and the way back."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from afl.stores.documents import (
    decode_step,
    decode_workflow,
    encode_long_step,
    encode_value,
    encode_workflow,
    with_counters,
)
from afl.stores.sqlite.rows import SELECT_WORKFLOW
from afl.stores.stored_headers import decode_headers

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

#: The beginning and the text of bytes in extended JSON.
_BASE64: Final = re.compile(r"(\"base64\": \")([^\"]+)")

_BESIDE_WORKFLOW: Final = (
    "workflow_id", "revision", "name", "status", "runnable", "created_at_ms", "content", "inputs",
)  # fmt: skip

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


def in_format_5(store: sqlite3.Connection) -> None:
    """Rewrite a SQLite store of format 6 as format 5 has it: whole documents, and headers as JSON."""
    for step_id, revision, state, document, change in store.execute("SELECT * FROM step").fetchall():
        whole = encode_long_step(decode_step(step_id, revision, state, document, change))
        store.execute("UPDATE step SET document = ? WHERE id = ?", (whole, step_id))
    for row in store.execute(f"{SELECT_WORKFLOW} WHERE w.steps IS NOT NULL"):
        fields = dict(zip(_BESIDE_WORKFLOW, row[:8], strict=True))
        moved = with_counters(decode_workflow(**fields), row[8:])
        store.execute("UPDATE workflow SET document = ? WHERE id = ?", (encode_workflow(moved), row[0]))
    for table in ("outbox", "parked"):
        for sequence, headers in store.execute(f"SELECT sequence, headers FROM {table} WHERE headers IS NOT NULL"):
            listed = [[name, None if v is None else v.decode("latin-1")] for name, v in decode_headers(headers)]
            store.execute(f"UPDATE {table} SET headers = ? WHERE sequence = ?", (encode_value(listed), sequence))
    for index in ("workflow_status", "workflow_name"):
        store.execute(f"DROP INDEX {index}")
    for column in ("steps", "iterations", "updated_at_ms"):
        store.execute(f"ALTER TABLE workflow DROP COLUMN {column}")
    store.execute("ALTER TABLE step DROP COLUMN change")
    store.execute("PRAGMA user_version = 5")


def _text_in_format_5(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite3"
        restore_sql(text, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as store:
            in_format_5(store)
        return sql_of(path)


def in_format_4(text: str) -> str:
    """Return a store's SQL without what later formats have besides: format 5 tables that are empty where no run waits
    or continues, the positions on the topic of external events, where none was raised, and the time in ids of parked
    rows.

    Other rows, if there were any, are left in.
    """
    if "PRAGMA user_version = 6;" in text:
        text = _text_in_format_5(text)
    # A registration without a retry policy says so.
    text = _TIME_OF_PARKED.sub(r"\1", text).replace(',"retry":""', "")
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
    """Return a store's documents as format 1 has them: format 2 has collections besides, which are empty here, and
    format 3 changes beside documents, and short headers.

    Positions on the topic of external events, where none was raised, and the time in ids of parked rows are left out.
    """
    lines = (
        _TIME_OF_PARKED.sub(r"\1", text)
        .replace('"format": {"$numberInt": "3"}', '"format": {"$numberInt": "1"}')
        .splitlines()
    )
    whole = (_BASE64.sub(_without_retry, _whole_document(line)) for line in lines if not _is_start_of_external(line))
    return "\n".join(sorted(whole)) + "\n"


def _without_retry(found: re.Match[str]) -> str:
    """Leave out of a registration's bytes that it has no retry policy."""
    content = base64.b64decode(found[2])
    return found[1] + base64.b64encode(content.replace(b',"retry":""', b"")).decode()


def _whole_document(line: str) -> str:
    from bson import json_util

    read = json.loads(line)
    kind, options = read["collection"], json_util.CANONICAL_JSON_OPTIONS
    document = json_util.loads(json.dumps(read["document"]), json_options=options)
    change, moved = document.pop("change", None), document.pop("moved", None)
    at_ms = document.pop("updated_at_ms", None)
    if kind == "steps":
        step = decode_step(document["_id"], document["revision"], document["state"], document["document"], change)
        document["document"] = encode_long_step(step)
    elif kind == "workflows" and moved is not None:
        fields = {name: document[name] for name in ("revision", "name", "status", "runnable", "created_at_ms")}
        content, inputs = document["document"], document["inputs"]
        row = decode_workflow(workflow_id=document["_id"], content=content, inputs=inputs, **fields)
        document["document"] = encode_workflow(with_counters(row, (*moved, at_ms)))
    elif kind in ("outbox", "parked") and not isinstance(document["headers"], list):
        document["headers"] = [[name, value] for name, value in decode_headers(document["headers"])]
    as_json = json.loads(json_util.dumps(document, json_options=options))
    return json.dumps({"collection": kind, "document": as_json}, ensure_ascii=False)


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
