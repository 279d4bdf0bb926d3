"""Writes a generation of fixtures: `python -m tests.compatibility.write tests/fixtures/generation_2`.

The folder has the programs already, as AFL texts in `programs/`. See tests/fixtures/README.md.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from afl.compiler import compile_text
from afl.emitter import to_text
from afl.runtime import MongoStore
from afl.stores.sqlite.store import SqliteStore
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.headers import HeaderForm
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.compatibility.dumps import lines_of, sql_of
from tests.compatibility.messages import lines_of_messages
from tests.compatibility.story import answers_to_come, tell
from tests.compatibility.world import (
    MARK,
    STORE_ID,
    StoreOpener,
    World,
    kill,
    mongo_store,
    new_log,
    program_of,
    settings,
    sqlite_store,
)

if TYPE_CHECKING:
    from pymongo.database import Database


def emitted(source: str) -> str:
    """Return what `afl compile` writes."""
    return to_text(compile_text(source).program_json, 2) + "\n"


def program_line(source: str) -> str:
    """Fingerprint, annotations and canonical text of a program, as JSON."""
    program = program_of(source)
    annotations = base64.b64encode(program.annotations).decode()
    text = program.text.decode()
    return json.dumps({"fingerprint": program.fingerprint, "annotations": annotations, "text": text}, indent=1) + "\n"


def messages_text(form: HeaderForm = HeaderForm.CLOUDEVENTS) -> str:
    """All kinds of records."""
    return lines_of_messages(single_object_codec(InMemorySchemaLog(), header_form=form))


class Told(NamedTuple):
    """What a told story leaves: its store, its log, and answers to what waits."""

    store: str
    log: str
    answers: str


def story_in_sqlite(programs: Path, folder: Path) -> Told:
    """Tell the story on a SQLite store."""
    config = settings(folder)
    new_log(config.log_path)
    SqliteStore(config.store_path, prefix=config.prefix).close()
    _execute(config.store_path, "UPDATE store SET id = ?", STORE_ID)
    answers = _answers(folder, programs, sqlite_store)
    _execute(config.store_path, "UPDATE store SET marks = ?", MARK)
    return Told(sql_of(config.store_path), sql_of(config.log_path), answers)


def story_in_mongodb(programs: Path, folder: Path, database: Database[dict[str, Any]]) -> Told:
    """Return the same on a store in an empty database."""
    config = settings(folder)
    new_log(config.log_path)
    MongoStore("", database.name, client=database.client, prefix=config.prefix).close()
    database["store"].update_one({"_id": "identity"}, {"$set": {"store_id": STORE_ID}})
    answers = _answers(folder, programs, mongo_store(database))
    database["store"].update_one({"_id": "identity"}, {"$set": {"marks": [MARK]}})
    return Told(lines_of(database), sql_of(config.log_path), answers)


def _answers(folder: Path, programs: Path, open_store: StoreOpener) -> str:
    world = World(folder, open_store)
    tell(world, programs)
    answers = answers_to_come(world)
    kill(world)
    return answers


def _execute(path: Path, statement: str, value: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement, (value,))


def write(generation: Path) -> None:
    """Write all that can be written from the programs."""
    from pymongo import MongoClient

    from tools.mongodb import Server

    programs = generation / "programs"
    for path in sorted(programs.glob("*.afl")):
        source = path.read_text(encoding="utf-8")
        path.with_suffix(".compiled.json").write_text(emitted(source), encoding="utf-8")
        path.with_suffix(".program.json").write_text(program_line(source), encoding="utf-8")
    (generation / "messages.jsonl").write_text(messages_text(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "sqlite").mkdir()
        (folder / "mongodb").mkdir()
        reported = story_in_sqlite(programs, folder / "sqlite")
        server = Server.start(folder / "server")
        try:
            with MongoClient[dict[str, Any]](server.url) as client:
                again = story_in_mongodb(programs, folder / "mongodb", client["fixtures"])
        finally:
            server.stop()
    if (reported.log, reported.answers) != (again.log, again.answers):
        raise SystemExit("the records of the story depend on the store")
    (generation / "store.sql").write_text(reported.store, encoding="utf-8")
    (generation / "documents.jsonl").write_text(again.store, encoding="utf-8")
    (generation / "log.sql").write_text(reported.log, encoding="utf-8")
    (generation / "answers.jsonl").write_text(reported.answers, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
