"""The store in a SQLite file: durable, for one machine, shared by threads and by processes."""

from afl.stores.sqlite.store import (
    SqliteStore,
)

__all__ = [
    "SqliteStore",
]
