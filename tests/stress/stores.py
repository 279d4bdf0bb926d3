"""The stores of a stress run, each by an address that other processes can open."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from afl.stores.memory.store import MemoryStore
from afl.stores.mongo.store import MongoStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from tools.mongodb import Server

#: Kinds of stores; `mongodb` is a replica set, `standalone` a server without transactions.
KINDS: Final = ("memory", "sqlite", "mongodb", "standalone")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is: a file, or a server's url and a database."""

    file: str = ""
    url: str = ""
    database: str = ""


def open_store(address: StoreAddress) -> EngineStore:
    """Return a connection to the store; it is made where there is none."""
    if address.url:
        return MongoStore(address.url, address.database)
    return SqliteStore(Path(address.file))


class Stores:
    """Makes new stores of every kind; servers are started when the first one asks for them."""

    def __init__(self, folder: Path, mongodb_url: str | None, cleanup: ExitStack) -> None:
        """`mongodb_url`: a replica set that is there already; without it one is started."""
        self._folder = folder
        self._urls = {"mongodb": mongodb_url} if mongodb_url else {}
        self._cleanup = cleanup

    @contextmanager
    def new(self, kind: str) -> Iterator[tuple[EngineStore, StoreAddress]]:
        """Provide a private store and its address; the memory store has no address."""
        address = StoreAddress()
        if kind == "sqlite":
            address = StoreAddress(file=str(self._folder / f"{uuid.uuid4().hex}.sqlite3"))
        elif kind != "memory":
            address = StoreAddress(url=self._url(kind), database=f"stress{uuid.uuid4().hex[:12]}")
        store = MemoryStore() if kind == "memory" else open_store(address)
        try:
            yield store, address
        finally:
            if isinstance(store, MongoStore):
                store.drop_database()
            store.close()

    def _url(self, kind: str) -> str:
        if kind not in self._urls:
            server = Server.start(self._folder / kind, guardian_pid=os.getpid(), standalone=kind == "standalone")
            self._cleanup.enter_context(server)
            self._urls[kind] = server.url
        return self._urls[kind]
