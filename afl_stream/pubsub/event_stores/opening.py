"""The opening of an event store by where it is: a URL, or the path of a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from afl.core.text.masking import shown_url
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.store import EventStore

_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:///"
_MONGODB: Final = ("mongodb://", "mongodb+srv://")
_EXPECTED: Final = "memory:, a path, sqlite:///a/path, or mongodb://host/database"


def open_event_store(where: str | Path) -> EventStore:
    """Open the event store that a URL or a path names.

    `memory:` keeps nothing. A path, or `sqlite:///` before one, is a SQLite file, which is created where there is none:
    `sqlite:///events.sqlite3` is in the current folder, `sqlite:////var/lib/events.sqlite3` is not. `mongodb://` is a
    MongoDB server with its database.

    Raises EventStoreUnavailable when it cannot be opened now, and EventStoreUnusable for what is no event store.
    """
    if isinstance(where, Path):
        return _sqlite(where)
    if where == _MEMORY:
        from afl_stream.pubsub.event_stores.memory import MemoryEventStore

        return MemoryEventStore()
    if where.startswith(_MONGODB):
        if find_spec("pymongo") is None:
            raise EventStoreUnavailable(
                shown_url(where), "the package pymongo is not installed: pip install 'afl-stream[mongodb]'"
            )
        from afl_stream.pubsub.event_stores.mongo import MongoEventStore

        return MongoEventStore(where)
    if where.startswith(_SQLITE) and where != _SQLITE:
        return _sqlite(Path(unquote(where.removeprefix(_SQLITE))))
    if not where or "://" in where or where.startswith((":memory:", "sqlite:")):
        raise EventStoreUnusable(shown_url(where), "it names no event store", _EXPECTED)
    return _sqlite(Path(where))


def _sqlite(path: Path) -> EventStore:
    from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore

    return SQLiteEventStore(path)
