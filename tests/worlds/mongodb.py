"""One MongoDB server for all workers of a test run, and databases in it that no other test has."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl_stream.broker.jars import locked
from tests.worlds.requirements import missing
from tools.mongodb import NotInstalled, Server

#: Collections that are not called like their kind of row.
_COLLECTIONS: Final = {"workflow": "workflows", "step": "steps", "position": "positions"}


@contextmanager
def server_of_the_run(folder: Path, guardian_pid: int | None, *, standalone: bool = False) -> Iterator[str]:
    """Provide the url of the server of this run: the first worker to ask starts it, the last one out stops it."""
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "users"
    users.mkdir(exist_ok=True)
    own = users / str(os.getpid())
    with locked(folder / "lock"):
        server = _running(folder) or _started(folder, guardian_pid, standalone)
        own.touch()
    try:
        yield server.url
    finally:
        with locked(folder / "lock"):
            own.unlink()
            if not any(users.iterdir()):
                server.stop()


@contextmanager
def a_database(url: str) -> Iterator[MongoDBConfig]:
    """Provide a database that no other test has; it is dropped at the end."""
    config = MongoDBConfig(url=url, database=f"t{uuid.uuid4().hex[:12]}")
    yield config
    with MongoClient[dict[str, object]](config.connection_string()) as client:
        client.drop_database(config.database)


def rows_of_database(url: str, kinds: Iterable[str]) -> dict[str, list[tuple[object, ...]]]:
    """Return the documents of a store's collections, named in the singular, in order of their ids."""
    with MongoClient[dict[str, object]](url) as client:
        database = client.get_default_database()
        return {
            kind: [tuple(found.items()) for found in database[_COLLECTIONS.get(kind, kind)].find().sort("_id")]
            for kind in kinds
        }


def _running(folder: Path) -> Server | None:
    return next((server for data in sorted(folder.glob("server-*")) if (server := Server.attach(data))), None)


def _started(folder: Path, guardian_pid: int | None, standalone: bool) -> Server:
    unused = (folder / f"server-{number}" for number in itertools.count(1))
    try:
        free = next(path for path in unused if not path.exists())
        return Server.start(free, guardian_pid=guardian_pid, standalone=standalone)
    except NotInstalled as error:
        missing(f"no MongoDB: AFL_MONGODB_URL is not set; {error}")
